"""Sweeps with a planted truth, by way of real records and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.findings.derive import read_sweep
from flashlab.findings.model import Estimates, Sweep
from flashlab.tables import write_tables

SHAPE = Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)
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
def planted(
    tmp_path: Path,
    record_of: Callable[..., dict[str, Any]],
    planned: Callable[..., dict[str, Any]],
) -> Callable[..., Path]:
    """Writes a sweep over seq_len as plan and tables and returns the plan's file.

    What is planted for (implementation, causal, value) is a record's samples and peak (backward
    as forward if unsaid), or the status of a run that failed.
    """

    def build(runs: Planted, name: str = "seq_len", sweep: str = "seq_len") -> Path:
        records = []
        for (implementation, causal, value), truth in runs.items():
            shape = replace(SHAPE, seq_len=value, causal=causal)
            run = attention_run(implementation, shape, "float32", "cpu")
            if isinstance(truth, str):
                records.append(record_of(run, truth))
            else:
                samples: dict[str, Any] = {"backward": truth.get("forward", [1.0] * 12)}
                records.append(record_of(run, **(samples | dict(truth))))
        file = tmp_path / "plan" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(planned(records, name, sweep)), encoding="utf-8")
        tables = tmp_path / "tables" / name
        write_tables(file, *(tables / f"{table}.csv" for table in ("runs", "passes", "samples")))
        return file

    return build


@pytest.fixture
def sweep(planted: Callable[..., Path], tmp_path: Path) -> Callable[..., Sweep]:
    """The sweep of planted runs, as the findings read it."""

    def build(runs: Planted, **names: str) -> Sweep:
        return read_sweep(planted(runs, **names), tmp_path / "tables", Estimates())

    return build
