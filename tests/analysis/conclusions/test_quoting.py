"""What conclusions quote of other findings."""

from __future__ import annotations

import pytest
from analysis.deriving import Plant

from flashlab.analysis.conclusions.quoting import Known, tell_account
from flashlab.analysis.finding import Finding

SCORES = {512: 10.0, 1024: 90.0}
"""MiB of scores, beside 10 of inputs."""


@pytest.mark.parametrize(("at", "told"), [(None, (1024, 90)), (512, (512, 50)), (256, None)])
def test_memory_is_explained_at_the_size_that_is_spoken_of(
    experiment: Plant, at: int | None, told: tuple[int, int] | None
) -> None:
    planted = experiment({"Pytorch": ({}, {}), "Flash2": ({}, {})})
    parts = [{"value": n, "parts": {"scores": mb, "inputs": 10.0}} for n, mb in SCORES.items()]
    subject = {"implementation": "Pytorch", "variant": {}, "metric": "peak_memory"}
    facts = {"value": 1024, "share": 90.0}
    explained = Finding("exact_account", "seq_len", subject, "explained", [], facts, parts)
    said = [*tell_account(Known([explained], [planted]), planted, "Pytorch", (), at)]
    values = [each.statement.values for each in said]
    found = [(v["account_at"], round(v["account_share"].value)) for v in values]  # type: ignore[union-attr]
    assert found == ([told] if told else [])
