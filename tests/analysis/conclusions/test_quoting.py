"""What conclusions quote of other findings."""

from __future__ import annotations

from typing import Any, cast

import pytest
from analysis.deriving import Plant

from flashlab.analysis.conclusions.quoting import Known, tell_account
from flashlab.analysis.finding import Finding


class Explained:
    """Findings of which one tells what peak memory consists of at N = 1024."""

    def across(self, experiments: Any, *asked: str, **about: Any) -> list[Finding]:
        facts = {"value": 1024, "largest_part": "scores", "share": 86.0}
        return [Finding("exact_account", "seq_len", about, "explained", facts=facts)]


@pytest.mark.parametrize(("at", "told"), [(None, [1024]), (1024, [1024]), (512, [])])
def test_memory_is_explained_at_the_size_that_is_spoken_of(
    experiment: Plant, at: int | None, told: list[int]
) -> None:
    planted = experiment({"Pytorch": ({}, {}), "Flash2": ({}, {})})
    said = tell_account(cast(Known, Explained()), planted, "Pytorch", (), at)
    assert [each.statement.values["account_at"] for each in said] == told
