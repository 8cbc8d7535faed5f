"""Experiments with a planted truth, by way of real records, tables and frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from planted.records import counters_of, plan_of, record_of

from flashlab.analysis.experiment import Runs
from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.analysis.stage import make_tables
from flashlab.analysis.tables import read_runs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import EXPERIMENTS, RECORDS
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.statistics import Floats

SHAPE = Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)
"""The shape that is planted where nothing else is stated."""

OF_REPORT = {"batch_size": 4, "seq_len": 512, "num_heads": 8, "emb_dim": 512}
"""The sizes of a whole report."""

SIZES = (128, 256, 512, 1024)
SLOW_SHARE, SLOW = 0.05, 1.2
"""The share of calls that are slow on a real machine, and by how much."""


def call_times(random: np.random.Generator, median: float, count: int, spread: float) -> Floats:
    """Times of calls, some of which are slow, around a median that holds without these."""
    slow = np.where(random.random(count) < SLOW_SHARE, SLOW, 1.0)
    return median * random.lognormal(sigma=spread, size=count) * slow


def noisy(median: float, count: int = 40, spread: float = 0.01) -> list[float]:
    """Samples around a median, the same for the same one."""
    random = np.random.default_rng(int(median * 1e12))
    return call_times(random, median, count, spread).tolist()


def _contents(cell: Any, processes: int) -> Iterator[dict[str, Any]]:
    """The planted content of each process of a run; equal ones if they are not listed."""
    if isinstance(cell, list):
        for process in cell:
            yield from _contents(process, 1)
    elif isinstance(cell, str):
        yield {"status": cell}
    elif isinstance(cell, Mapping):
        yield from ({**cell} for _ in range(processes))
    else:
        forward, backward = cell if isinstance(cell, tuple) else (cell, cell)
        yield from ({"forward": forward, "backward": backward} for _ in range(processes))


def _record(run: Run, process: int, content: dict[str, Any], noise: Mapping[str, Any]) -> Record:
    means = content.pop("means", False)
    content.setdefault("backward", content.get("forward"))
    for timed in ("forward", "backward"):
        if (time := content.pop(timed, None)) is not None:
            content[timed] = time if isinstance(time, list) else noisy(time * 1e-5, **noise)
    if process:
        content["sources"] = {"process": process}
    found = record_of(run, **content)
    if not means:
        return found
    plain = {name: Measurement(measured.value) for name, measured in found.metrics.items()}
    return replace(found, metrics=plain)


@dataclass(frozen=True)
class Planter:
    """Plants experiments in a folder."""

    folder: Path

    def experiment(
        self,
        runs: Mapping[Any, Any],
        name: str = "seq_len",
        sweep: str = "seq_len",
        *,
        values: Sequence[int] = SIZES,
        sizes: Mapping[str, int] | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        processes: int = 2,
        **noise: Any,
    ) -> Runs:
        """Write what is planted as records and plan; its runs with their samples.

        Of each implementation, or of a pair (implementation, causal), a cell for each of `values`
        of what is swept, or a mapping from values to cells. A cell is a time in units of 10 µs; a
        pair of them, forward and backward; the status of a run that failed; a list of cells, one
        for each process of the run; or what the record holds: `forward` and `backward` as such a
        time or as samples in seconds, `peak` in MiB, `means` for means alone, `counters` of a pass
        (the unusual ones, or the message of a failure to read them), or any field of the record.
        `sizes` are those of the shape besides. What is no list is measured alike in `processes`:
        of one alone a spread would be assumed.
        """
        records, counters = [], []
        for key, row in runs.items():
            who, causal = key if isinstance(key, tuple) else (key, False)
            cells = row if isinstance(row, Mapping) else dict(zip(values, row, strict=False))
            for value, cell in cells.items():
                at = {**(sizes or {}), sweep or "seq_len": value}
                run = attention_run(who, replace(SHAPE, causal=causal, **at), dtype, device)
                for process, content in enumerate(_contents(cell, processes)):
                    counted = content.pop("counters", None)
                    records.append(_record(run, process, content, noise))
                    if isinstance(counted, str):
                        counters.append(counters_of(records[-1], "error", message=counted))
                    elif counted is not None:
                        counters.append(counters_of(records[-1], **counted))
        document = plan_of(self.folder, records, name, sweep, counters=counters)
        found = read_runs(document, document)
        plans, planned = (
            read_json(path) if (path := self.folder / file).exists() else {}
            for file in (EXPERIMENTS, RECORDS)
        )
        write_json(self.folder / EXPERIMENTS, {**plans, name: document})
        own = {"sources": document["sources"], "experiments": {name: document["records"]}}
        both = {part: {**planned.get(part, {}), **of} for part, of in own.items()}
        write_json(self.folder / RECORDS, {**document, **both})
        return found

    def report(
        self,
        experiments: Mapping[str, tuple[str, Mapping[Any, Any]]],
        device: str = "cuda",
        **options: Any,
    ) -> Dataset:
        """A whole report: of each experiment what it sweeps and its runs; the tables as frames."""
        dtype = "float16" if device == "cuda" else "float32"
        common = {"dtype": dtype, "device": device, "processes": 3, "sizes": OF_REPORT}
        for name, (swept, runs) in experiments.items():
            self.experiment(runs, name, swept, **{**common, **options})
        make_tables(self.folder, None, self.folder / "tables")
        return read_dataset(self.folder)
