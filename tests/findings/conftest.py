"""Sweeps with a planted truth, by way of real records and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from findings.lookups import SHAPE

from flashlab.analysis.experiment import Sweep, read_planned_sweep
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.files import write_json
from flashlab.records import Measurement, Record

Planted = Mapping[tuple[str, bool, int], Mapping[str, Any] | str]


@pytest.fixture(scope="session")
def noisy() -> Callable[..., list[float]]:
    """Samples around a median, with 5% slow ones as a real machine gives them."""

    def build(median: float, count: int = 40, spread: float = 0.01) -> list[float]:
        random = np.random.default_rng(int(median * 1e12))
        slow = np.where(random.random(count) < 0.05, 1.2, 1.0)
        return [float(x) for x in median * random.lognormal(sigma=spread, size=count) * slow]

    return build


@pytest.fixture
def write_sweep(tmp_path: Path, planned: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """Writes the plan and the tables of records, all of one benchmark; returns the plan's file."""

    def build(records: Sequence[Record], name: str = "seq_len", sweep: str = "seq_len") -> Path:
        file = tmp_path / "plan" / f"{name}.json"
        plan = planned(records, name, sweep) | {"benchmark": records[0].benchmark}
        write_json(file, plan)
        write_tables(file, tmp_path / "tables" / name)
        return file

    return build


def without_samples(record: Record) -> Record:
    """The record of a program that gives means alone."""
    means = {name: Measurement(measured.value) for name, measured in record.metrics.items()}
    return replace(record, metrics=means)


@pytest.fixture
def planted(
    record_of: Callable[..., Record], write_sweep: Callable[..., Path]
) -> Callable[..., Path]:
    """Writes a sweep as plan and tables and returns the plan's file.

    What is planted for (implementation, causal, value) is what a record holds: samples in seconds
    (backward as forward where not given), the peak in MiB, or the mean of each alone (`means`); or
    the status of a run that failed. `sizes` gives the sizes that a value stands for.
    """

    def build(
        runs: Planted,
        name: str = "seq_len",
        sweep: str = "seq_len",
        sizes: Callable[[int], Mapping[str, int]] = lambda value: {"seq_len": value},
        dtype: str = "float32",
        device: str = "cpu",
    ) -> Path:
        records = []
        for (implementation, causal, value), truth in runs.items():
            shape = replace(SHAPE, causal=causal, **sizes(value))
            run = attention_run(implementation, shape, dtype, device)
            if isinstance(truth, str):
                records.append(record_of(run, truth))
                continue
            content: dict[str, Any] = {"backward": truth.get("forward", [1.0] * 12), **truth}
            means = content.pop("means", False)
            record = record_of(run, **content)
            records.append(without_samples(record) if means else record)
        return write_sweep(records, name, sweep)

    return build


@pytest.fixture
def sweep(planted: Callable[..., Path], tmp_path: Path) -> Callable[..., Sweep]:
    """The sweep of planted runs, as the findings read it."""

    def build(runs: Planted, **options: Any) -> Sweep:
        return read_planned_sweep(planted(runs, **options), tmp_path / "tables", with_samples=True)

    return build
