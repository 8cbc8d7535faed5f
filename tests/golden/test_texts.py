"""Reports' texts and verdicts are the recorded ones, until a change renews these on purpose.

The pages of some of them are laid out too.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest
from golden.texts import COMMAND, GOLDEN, OTHER_RECORDED, Made, golden_file, planted_files
from pages import assert_well_laid_out

MOST_LINES = 200
"""Most lines of a difference that are printed."""


MOST_PAGES = {
    **{"attention": 12, "lab5": 10, "cpu": 8, "ladder": 7, "training": 4},
    # Five seeds are a chapter that no other training has.
    **{"h100-attention": 12, "h100-ladder": 7, "h100-training": 5},
}
"""The reports whose pages are laid out, and how many there may be."""

DRAWN = ("attention", "lab5", "ladder", "training")
"""Those whose figures are drawn, of each kind once; the others have boxes of the same size."""


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


@pytest.fixture(scope="module", params=[*GOLDEN, *OTHER_RECORDED], ids=lambda golden: golden.name)
def golden(request: pytest.FixtureRequest) -> tuple[str, Made]:
    """Each report, made anew."""
    name = request.param.name
    pages = ["drawn" if name in DRAWN else "boxes"] if name in MOST_PAGES else []
    return name, request.param.make(*pages)


def test_a_report_says_and_decides_what_it_did(golden: tuple[str, Made]) -> None:
    name, made = golden
    in_words = name in {each.name for each in GOLDEN}
    assert_unchanged(name, made.files() if in_words else made.verdicts())
    if made.pages is not None:
        assert_well_laid_out(made.pages, MOST_PAGES[name])


def test_what_is_decided_of_planted_data_is_what_was() -> None:
    assert_unchanged("planted", planted_files())
