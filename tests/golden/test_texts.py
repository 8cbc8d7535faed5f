"""What the recorded reports say is what they said: a changed sentence is renewed on purpose."""

from __future__ import annotations

import difflib

import pytest
from golden.texts import COMMAND, GOLDEN, Golden, golden_texts

MOST_LINES = 200
"""Most lines of a difference that are printed."""


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_report_says_what_it_said(golden: Golden) -> None:
    changed: list[str] = []
    for path, now in golden_texts(golden):
        kept = path.read_text(encoding="utf-8")
        changed += difflib.unified_diff(
            kept.splitlines(), now.splitlines(), path.name, "now", n=1, lineterm=""
        )
    if changed:
        more = [f"… {len(changed) - MOST_LINES} more lines"] if len(changed) > MOST_LINES else []
        shown = "\n".join([*changed[:MOST_LINES], *more])
        pytest.fail(f"{shown}\n\nIf it is meant to be so: {COMMAND}", pytrace=False)
