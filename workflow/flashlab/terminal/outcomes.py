"""The planned runs' outcomes, read from their records, and the first ratios of a call.

While a call measures, the ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import read_json
from flashlab.records import RecordError, parse_record
from flashlab.runs import Run

UNMEASURED = "unmeasured"

Row = frozenset[tuple[str, Any]]
"""The parameters of a run, or those of a setting: of all runs in it but for the implementation."""


@dataclass(frozen=True)
class Outcome:
    """A run's status and message; `measured` holds each metric's value and unit if it is ``ok``.

    `status` is a record's, or ``unmeasured`` where there is no readable record.
    """

    status: str
    message: str = ""
    measured: Mapping[str, tuple[float, str]] = field(default_factory=dict)


def read_outcome(path: Path) -> tuple[Run | None, Outcome]:
    """The run that a record names, and its outcome; None if it cannot be read."""
    try:
        record = parse_record(read_json(path), str(path))
    except (OSError, ValueError, RecordError):
        return None, Outcome(UNMEASURED)
    measured = {
        metric.name: (record.metrics[metric.name].value, metric.unit)
        for metric in find_benchmark(record.benchmark).compared
        if metric.name in record.metrics and not metric.optional
    }
    return record.run, Outcome(record.status, record.message or "", measured)


def read_outcomes(root: Path, planned: Mapping[str, Run]) -> dict[Run, Outcome]:
    """The outcome of each planned run, in the plan's order.

    That of a run with several processes is that of the first which is not ok, if there is one.
    """
    outcomes: dict[Run, Outcome] = {}
    for path, run in planned.items():
        if run not in outcomes or outcomes[run].status == "ok":
            outcomes[run] = read_outcome(root / path)[1]
    return outcomes


def run_words(run: Run) -> list[str]:
    """A run without dtype and device, which a call's runs share: ``Flash2 B16 N1024 …``."""
    return str(run).split()[:-2]


def aligned(runs: Iterable[Run]) -> dict[Run, str]:
    """Each run's words, padded so that they form columns; blank where a run has a default."""
    words: dict[Run, list[str]] = {}
    for run in runs:
        name, *said = run_words(run)
        unused = iter(said)
        stated = ("" if parameter in run.defaulted else next(unused) for parameter in run)
        words[run] = [name, *stated]
    columns = zip(*words.values(), strict=True)
    widths = [max(map(len, column)) for column in columns]
    return {
        run: " ".join(word.ljust(width) for word, width in zip(of, widths, strict=True) if width)
        for run, of in words.items()
    }


# Before all are measured


def _values(root: Path, planned: Mapping[str, Run], metric: Metric) -> dict[Row, float]:
    """The metric of each run in the first of its processes that is there and ok."""
    names = metric.derived.of if metric.derived else (metric.name,)
    values: dict[Row, float] = {}
    for path, run in planned.items():
        row = frozenset(run.to_row().items())
        measured = {} if row in values else read_outcome(root / path)[1].measured
        if measured.keys() >= {*names}:
            parts = [measured[name][0] for name in names]
            values[row] = metric.derived.compute(run, *parts) if metric.derived else parts[0]
    return values


def _ratios(plan: Mapping[str, Any], values: Mapping[Row, float], metric: Metric) -> Iterator[str]:
    """For each implementation, the range of its speed over the baseline's, in words."""
    settings: dict[Row, dict[str, float]] = {}
    for row in map(frozenset, (row.items() for row in plan["runs"])):
        name, baseline = dict(row)["implementation"], plan["baseline"]
        setting = settings.setdefault(row - {("implementation", name)}, {})
        setting |= {name: values[row]} if row in values else {}
    for name in (entry["name"] for entry in plan["implementations"]):
        both = [of for of in settings.values() if of.keys() >= {name, baseline}]
        ratios = [of[name] / of[baseline] for of in both]
        if not metric.higher_is_better:
            ratios = [1 / ratio for ratio in ratios]
        if ratios and name != baseline:
            low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
            times = low if low == high else f"{low} to {high}"
            yield f"{name} {times}× at {len(ratios)} of {len(settings)} settings"


def first_ratios(
    root: Path, documents: Mapping[str, Any], benchmark: Benchmark, planned: Mapping[str, Run]
) -> list[str]:
    """A line for each experiment that has ratios already; empty where none has.

    `documents` are the plan's, `planned` the runs by their records below `root`. Implementations
    are compared by a total where the benchmark has one.
    """
    sampled = [metric for metric in benchmark.compared if not metric.exact and not metric.optional]
    metric = next(iter([*benchmark.totals, *sampled[-1:]]), None)
    simulated = {run.device for run in planned.values()} & benchmark.simulated
    if metric is None or not planned or simulated:
        return []
    by_path = {Path(name).parts[2:]: document for name, document in documents.items()}
    values, titles = _values(root, planned, metric), by_path["plan", "titles.json"]
    plans = [plan for path, plan in by_path.items() if path[:2] == ("plan", "experiments")]
    lines = [
        f"  {titles[plan['name']]['en']}: {'; '.join(ratios)}"
        for plan in plans
        if plan["sweep"] and (ratios := list(_ratios(plan, values, metric)))
    ]
    what = f"as a multiple of {plans[-1]['baseline']}'s ({metric.labels['en']})"
    return lines and [f"So far, from one process of each run, the speed {what}:", *lines]
