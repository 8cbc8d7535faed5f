"""Reports' texts and verdicts are the recorded ones, until a change renews these on purpose."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest
from golden.texts import COMMAND, GOLDEN, OTHER_RECORDED, Planted, Recorded, golden_file, kept

MOST_LINES = 200
"""Most lines of a difference that are printed."""


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


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_report_says_and_decides_what_it_did(golden: Recorded | Planted) -> None:
    assert_unchanged(golden.name, golden.make().files())


@pytest.mark.scheduled
@pytest.mark.parametrize("golden", OTHER_RECORDED, ids=lambda golden: golden.name)
def test_the_other_recorded_reports_decide_what_they_did(golden: Recorded) -> None:
    assert_unchanged(golden.name, golden.make().verdicts())
