"""What conclusions quote of other findings."""

from __future__ import annotations

from typing import Any, cast

import pytest
from analysis.deriving import Plant

from flashlab.analysis.conclusions.quoting import Known, tell_account
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.attention.declaration import ATTENTION

SCORES = {512: 10.0, 1024: 90.0}
"""MiB of scores, beside 10 of inputs."""


class Explained:
    """Findings of which one tells what peak memory consists of at two sizes."""

    benchmark = ATTENTION

    def across(self, experiments: Any, *asked: str, **about: Any) -> list[Finding]:
        parts = [{"value": n, "parts": {"scores": mb, "inputs": 10.0}} for n, mb in SCORES.items()]
        subject = {**about, "metric": "peak_memory"}
        facts = {"value": 1024, "share": 90.0}
        return [Finding("exact_account", "seq_len", subject, "explained", [], facts, parts)]


@pytest.mark.parametrize(("at", "told"), [(None, (1024, 90)), (512, (512, 50)), (256, None)])
def test_memory_is_explained_at_the_size_that_is_spoken_of(
    experiment: Plant, at: int | None, told: tuple[int, int] | None
) -> None:
    planted = experiment({"Pytorch": ({}, {}), "Flash2": ({}, {})})
    said = [*tell_account(cast(Known, Explained()), planted, "Pytorch", (), at)]
    values = [each.statement.values for each in said]
    found = [(v["account_at"], round(v["account_share"].value)) for v in values]  # type: ignore[union-attr]
    assert found == ([told] if told else [])
