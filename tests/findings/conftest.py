"""Sweeps with a planted truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flashlab.findings.model import Sweep
from flashlab.records import Run, Shape

SHAPE = Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)
Runs = Mapping[tuple[str, bool, int], Mapping[str, Any] | str]


def noisy(median: float, count: int = 40, spread: float = 0.01, seed: int = 0) -> list[float]:
    """Times around `median`, in seconds, with some outliers as a real machine gives them."""
    random = np.random.default_rng([seed, int(median * 1e12)])
    samples = median * random.lognormal(sigma=spread, size=count)
    return list(samples * np.where(random.random(count) < 0.05, 1.2, 1.0))


@pytest.fixture(scope="session", name="noisy")
def _noisy() -> Callable[..., list[float]]:
    return noisy


@pytest.fixture
def records(record_of: Callable[..., dict[str, Any]]) -> Callable[[Runs], list[dict[str, Any]]]:
    """The records of a sweep over seq_len: times and peak for (implementation, causal, value),
    or the status of a run that failed."""

    def build(runs: Runs) -> list[dict[str, Any]]:
        found = []
        for (implementation, causal, value), planted in runs.items():
            shape = replace(SHAPE, seq_len=value, causal=causal)
            run = Run(implementation, shape, "float32", "cpu")
            if isinstance(planted, str):
                found.append(record_of(run, planted))
            else:
                found.append(record_of(run, **{"backward": planted.get("forward"), **planted}))
        return found

    return build


@pytest.fixture
def sweep(
    records: Callable[[Runs], list[dict[str, Any]]], planned: Callable[..., dict[str, Any]]
) -> Callable[[Runs], Sweep]:
    """The sweep that findings are derived from, by way of the real tables."""
    from flashlab.tables import tables_of

    def build(runs: Runs, names: Sequence[str] = ("Pytorch", "Flash2")) -> Sweep:
        plan = planned(records(runs))
        tables = tables_of(plan)
        samples: dict[tuple[Any, ...], list[float]] = {}
        for row in tables.samples:
            key = (row["implementation"], row["causal"], row["pass"], row["seq_len"])
            samples.setdefault(key, []).append(row["time_ms"])
        read = [{**row, "warnings": None} for row in tables.runs]
        return Sweep(plan, read, tables.passes, samples)

    return build
