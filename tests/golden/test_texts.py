"""Reports' texts and verdicts are the recorded ones, until a change renews these on purpose."""

from __future__ import annotations

import difflib

import pytest
from golden.texts import COMMAND, GOLDEN, OTHER_RECORDED, Golden

MOST_LINES = 200
"""Most lines of a difference that are printed."""


@pytest.mark.parametrize(
    "golden",
    [*GOLDEN, *(pytest.param(each, marks=pytest.mark.scheduled) for each in OTHER_RECORDED)],
    ids=[each.name for each in (*GOLDEN, *OTHER_RECORDED)],
)
def test_a_report_says_and_decides_what_it_did(golden: Golden) -> None:
    changed: list[str] = []
    for path, text in golden.files().items():
        before, after = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
        changed += difflib.unified_diff(before, after, path.name, "now", n=1, lineterm="")
    if changed:
        more = [f"… {len(changed) - MOST_LINES} more lines"] if len(changed) > MOST_LINES else []
        shown = "\n".join([*changed[:MOST_LINES], *more])
        pytest.fail(f"{shown}\n\nIf it is meant so: {COMMAND} {golden.name}", pytrace=False)
