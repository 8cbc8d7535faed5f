"""Experiments with a planted truth, by way of real records and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis.planting import SHAPE, SIZES, Plant

from flashlab.analysis.experiment import read_planned_sweep
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.files import write_json
from flashlab.records import Measurement, Record
from flashlab.runs import Run

Noisy = Callable[..., list[float]]


@pytest.fixture(scope="session")
def noisy() -> Noisy:
    """Samples around a median, with 5% slow ones as a real machine gives them."""

    def build(median: float, count: int = 40, spread: float = 0.01) -> list[float]:
        random = np.random.default_rng(int(median * 1e12))
        slow = np.where(random.random(count) < 0.05, 1.2, 1.0)
        return [float(x) for x in median * random.lognormal(sigma=spread, size=count) * slow]

    return build


@pytest.fixture
def write_plan(tmp_path: Path, planned: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """Writes the plan and the tables of records, all of one benchmark; returns the plan's file."""

    def build(
        records: Sequence[Record],
        name: str = "seq_len",
        sweep: str = "seq_len",
        counters: Sequence[Record] = (),
    ) -> Path:
        file = tmp_path / "plan" / f"{name}.json"
        plan = planned(records, name, sweep, counters=counters)
        write_json(file, plan | {"benchmark": records[0].benchmark})
        write_tables(file, tmp_path / "tables" / name)
        return file

    return build


def _contents(cell: Any) -> Iterator[dict[str, Any]]:
    """What is planted of each process of a run."""
    if isinstance(cell, list):
        for process in cell:
            yield from _contents(process)
    elif isinstance(cell, str):
        yield {"status": cell}
    elif isinstance(cell, Mapping):
        yield {**cell}
    else:
        forward, backward = cell if isinstance(cell, tuple) else (cell, cell)
        yield {"forward": forward, "backward": backward}


def _means(record: Record) -> Record:
    """The record of a program that gives means alone."""
    means = {name: Measurement(measured.value) for name, measured in record.metrics.items()}
    return replace(record, metrics=means)


@pytest.fixture
def write_sweep(
    noisy: Noisy,
    record_of: Callable[..., Record],
    counters_of: Callable[..., Record],
    write_plan: Callable[..., Path],
) -> Callable[..., Path]:
    """Writes what is planted as records, plan and tables; returns the plan's file.

    Of each implementation, or of a pair (implementation, causal), a cell for each of `values`, or a
    mapping from values to cells. A cell is a time in units of 10 µs; a pair of them, forward and
    backward; the status of a run that failed; a list of cells, one for each process of the run; or
    what the record holds: `forward` and `backward` as such a time or as samples in seconds, `peak`
    in MiB, `means` for means alone, `counters` of a pass (the unusual ones, or the message of a
    failure to read them), or any field of the record. `sizes` gives the sizes that a value is of.
    """

    def record(run: Run, process: int, content: dict[str, Any], noise: Mapping[str, Any]) -> Record:
        means = content.pop("means", False)
        content.setdefault("backward", content.get("forward"))
        for timed in ("forward", "backward"):
            if (time := content.pop(timed, None)) is not None:
                content[timed] = time if isinstance(time, list) else noisy(time * 1e-5, **noise)
        if process:
            content["sources"] = {"process": process}
        found = record_of(run, **content)
        return _means(found) if means else found

    def build(
        runs: Mapping[Any, Any],
        name: str = "seq_len",
        sweep: str = "seq_len",
        *,
        values: Sequence[int] = SIZES,
        sizes: Callable[[int], Mapping[str, int]] = lambda value: {"seq_len": value},
        dtype: str = "float32",
        device: str = "cpu",
        **noise: Any,
    ) -> Path:
        records, counters = [], []
        for key, row in runs.items():
            who, causal = key if isinstance(key, tuple) else (key, False)
            cells = row if isinstance(row, Mapping) else dict(zip(values, row, strict=False))
            for value, cell in cells.items():
                shape = replace(SHAPE, causal=causal, **sizes(value))
                run = attention_run(who, shape, dtype, device)
                for process, content in enumerate(_contents(cell)):
                    counted = content.pop("counters", None)
                    records.append(record(run, process, content, noise))
                    if isinstance(counted, str):
                        counters.append(counters_of(records[-1], "error", message=counted))
                    elif counted is not None:
                        counters.append(counters_of(records[-1], **counted))
        return write_plan(records, name, sweep, counters)

    return build


@pytest.fixture
def sweep(write_sweep: Callable[..., Path], tmp_path: Path) -> Plant:
    """What is planted (`write_sweep`), as the findings read it."""

    def build(runs: Mapping[Any, Any], *names: str, **options: Any) -> Any:
        file = write_sweep(runs, *names, **options)
        return read_planned_sweep(file, tmp_path / "tables", with_samples=True)

    return build
