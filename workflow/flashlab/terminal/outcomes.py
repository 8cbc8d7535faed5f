"""How a dataset's planned runs ended, read from the plan and the records on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashlab.benchmarks.model import Benchmark, UnknownNameError
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import read_json
from flashlab.plan.plan_files import planned_records, process_files, shown_file
from flashlab.records import RecordError, parse_record
from flashlab.runs import Run

UNMEASURED = "unmeasured"


@dataclass(frozen=True)
class Outcome:
    """What a record says of its run: each metric's name, with value and unit, if it is ``ok``.

    `status` is a record's, or ``unmeasured`` where there is no readable record.
    """

    status: str
    message: str = ""
    measured: Mapping[str, tuple[float, str]] = field(default_factory=dict)


def shown_dataset(root: Path, report: str) -> str | None:
    """Name of the dataset that a report in ``report/`` shows, None if it was not made yet.

    `report` is the stem of the report's name.
    """
    try:
        name: str = read_json(root / shown_file(report))["dataset"]
    except (OSError, ValueError, KeyError):
        return None
    return name


def planned_runs(results: Path) -> tuple[Benchmark | None, dict[str, Run]]:
    """What the last call planned in a dataset's results: the benchmark, and the runs by record.

    A run has a record for each process that measures it, in their order. None and no runs where
    there is no plan.
    """
    found: dict[str, Run] = {}
    benchmark = None
    try:
        for entry in planned_records(results):
            benchmark = find_benchmark(entry["benchmark"])
            run = Run.of(benchmark, entry["run"])
            found |= {file["path"]: run for file in process_files(entry)}
    except (OSError, ValueError, KeyError, UnknownNameError):
        return None, {}
    return benchmark, found


def read_outcome(path: Path) -> tuple[Run | None, Outcome]:
    """The run that a record names, and its outcome; None if it cannot be read."""
    try:
        record = parse_record(read_json(path), str(path))
    except (OSError, ValueError, RecordError):
        return None, Outcome(UNMEASURED)
    benchmark = find_benchmark(record.benchmark)
    measured = {
        metric.name: (record.metrics[metric.name].value, metric.unit)
        for metric in benchmark.compared
        if metric.name in record.metrics and not metric.optional
    }
    return record.run, Outcome(record.status, record.message or "", measured)


def read_outcomes(root: Path, planned: Mapping[str, Run]) -> dict[Run, Outcome]:
    """The outcome of each planned run, in the plan's order.

    That of a run with several processes is that of the first which is not ok, if there is one.
    """
    found: dict[Run, Outcome] = {}
    for path, run in planned.items():
        if run not in found or found[run].status == "ok":
            found[run] = read_outcome(root / path)[1]
    return found


def run_words(run: Run) -> list[str]:
    """A run without dtype and device, which a call's runs share: ``Flash2 B16 N1024 …``."""
    return str(run).split()[:-2]


def aligned(runs: Iterable[Run]) -> dict[Run, str]:
    """Each run's words, padded so that they form columns."""
    words = {run: run_words(run) for run in runs}
    widths = [max(map(len, column)) for column in zip(*words.values(), strict=True)]
    return {
        run: " ".join(word.ljust(width) for word, width in zip(of, widths, strict=True))
        for run, of in words.items()
    }
