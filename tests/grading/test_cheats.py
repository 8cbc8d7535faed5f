"""Every planted cheat in one submission is told by the check that alone catches it."""

from __future__ import annotations

from typing import Any

import pytest
from grading.cheats import CHEATS, records


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_told_by_its_check_and_no_other(cheat: str, sound: Any) -> None:
    change, expected = CHEATS[cheat]
    change(sound)
    found = sound.graded()
    told = {f"{line.verdict} {line.code}" for line in found.alarms()}
    unchecked = {f"{line.verdict} {line.code}" for line in found.lines("not_checked")}
    assert told == ({expected} if expected not in unchecked else set())
    assert "functional" not in found.badges("ann") or expected.startswith("warn")


def test_a_record_of_a_run_that_was_incorrect_may_have_no_numbers(sound: Any) -> None:
    records(status="incorrect")(sound)
    assert set(sound.graded().fails().values()) == {"form.status", "coverage.missing"}


def test_true_records_pass(sound: Any) -> None:
    """Those of bfloat16 too, which takes as much memory."""
    records()(sound)
    for document in list(sound.documents.values())[::2]:
        document["record"]["run"]["dtype"] = "bfloat16"
    found = sound.graded()
    assert found.alarms() == []
    assert found.badges("ann") == ("available",)
