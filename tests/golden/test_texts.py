"""What the reports say and decide is what they did: a change of it is renewed on purpose.

The pages of some of them are laid out too.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest
from golden.texts import COMMAND, GOLDEN, OTHER_RECORDED, Made, golden_file, planted_files
from pages import Pages

MOST_LINES = 200
"""Most lines of a difference that are printed."""


MOST_PAGES = {"attention": 12, "ladder": 7, "training": 4}
"""The reports whose pages are laid out, and how many there may be."""

MOST_EMPTY, LEAST_POINTS = 0.12, 6.2
"""The share of a page, but the last, that may be empty; and the smallest type."""


def assert_unchanged(name: str, files: Mapping[str, str]) -> None:
    changed: list[str] = []
    for content, now in files.items():
        path = golden_file(name, content)
        kept = path.read_text(encoding="utf-8")
        changed += difflib.unified_diff(
            kept.splitlines(), now.splitlines(), path.name, "now", n=1, lineterm=""
        )
    if changed:
        more = [f"… {len(changed) - MOST_LINES} more lines"] if len(changed) > MOST_LINES else []
        shown = "\n".join([*changed[:MOST_LINES], *more])
        pytest.fail(f"{shown}\n\nIf it is meant to be so: {COMMAND} {name}", pytrace=False)


def assert_well_laid_out(name: str, pages: Pages) -> None:
    """Full pages, not too many; an experiment on one of them; legible type."""
    assert len(pages.empty) <= MOST_PAGES[name]
    assert max(pages.empty[:-1]) <= MOST_EMPTY
    assert pages.chapters
    assert {id: on for id, on in pages.chapters.items() if len(on) > 1} == {}
    assert pages.least_points >= LEAST_POINTS - 1e-9


@pytest.fixture(scope="module", params=[*GOLDEN, *OTHER_RECORDED], ids=lambda golden: golden.name)
def golden(request: pytest.FixtureRequest) -> tuple[str, Made]:
    """Each report, made anew."""
    name = request.param.name
    return name, request.param.make(**{"with_pages": True} if name in MOST_PAGES else {})


def test_a_report_says_and_decides_what_it_did(golden: tuple[str, Made]) -> None:
    name, made = golden
    in_words = name in {each.name for each in GOLDEN}
    assert_unchanged(name, made.files() if in_words else made.verdicts())
    if made.pages is not None:
        assert_well_laid_out(name, made.pages)


def test_what_is_decided_of_planted_data_is_what_was() -> None:
    assert_unchanged("planted", planted_files())
