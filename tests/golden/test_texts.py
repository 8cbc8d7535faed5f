"""Reports' texts and verdicts are the recorded ones, until a change renews these on purpose.

The pages of some of them are laid out too.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest
from golden.texts import (
    COMMAND,
    GOLDEN,
    OTHER_RECORDED,
    Made,
    Planted,
    Recorded,
    golden_file,
    kept,
    planted_files,
)
from pages import assert_well_laid_out

MOST_LINES = 200
"""Most lines of a difference that are printed."""


MOST_PAGES = {
    **{"attention": 12, "lab5": 10, "cpu": 8, "ladder": 7, "training": 4},
    # Twelve experiments, not eight; and five seeds, a chapter that no other training has.
    **{"h100-attention": 14, "h100-ladder": 7, "h100-training": 5},
}
"""The reports whose pages are laid out, and how many there may be."""

DRAWN = ("lab5", "ladder", "training")
"""Those that the gate lays out, with their figures."""


def assert_unchanged(name: str, files: Mapping[str, str]) -> None:
    changed: list[str] = []
    for content, now in files.items():
        path = golden_file(name, content)
        before, after = path.read_text(encoding="utf-8"), kept(name, content, now)
        changed += difflib.unified_diff(
            before.splitlines(), after.splitlines(), path.name, "now", n=1, lineterm=""
        )
    if changed:
        more = [f"… {len(changed) - MOST_LINES} more lines"] if len(changed) > MOST_LINES else []
        shown = "\n".join([*changed[:MOST_LINES], *more])
        pytest.fail(f"{shown}\n\nIf it is meant to be so: {COMMAND} {name}", pytrace=False)


def assert_full_pages(name: str, made: Made) -> None:
    assert made.pages is not None
    assert_well_laid_out(made.pages, MOST_PAGES[name])


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_report_says_and_decides_what_it_did(golden: Recorded | Planted) -> None:
    if isinstance(golden, Recorded) and golden.name in DRAWN:
        made = golden.make("drawn")
        assert_full_pages(golden.name, made)
    else:
        made = golden.make()
    assert_unchanged(golden.name, made.files())


LARGE = [golden for golden in GOLDEN if golden.name in MOST_PAGES and golden.name not in DRAWN]


@pytest.mark.scheduled
@pytest.mark.parametrize("golden", [*LARGE, *OTHER_RECORDED], ids=lambda golden: golden.name)
def test_the_other_recorded_reports_have_full_pages_and_decide_what_they_did(
    golden: Recorded,
) -> None:
    """Those with all implementations with their figures, the others with boxes of their size."""
    made = golden.make("drawn" if golden.name == "attention" else "boxes")
    assert_full_pages(golden.name, made)
    assert_unchanged(golden.name, made.verdicts())


def test_what_is_decided_of_planted_data_is_what_was() -> None:
    assert_unchanged("planted", planted_files())
