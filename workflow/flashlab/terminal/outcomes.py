"""The planned runs' records while a call measures, in words, and the first ratios between them.

The ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.files import read_json
from flashlab.records import Record, RecordError, parse_record
from flashlab.runs import Run


def read_outcome(path: Path) -> Record | None:
    """The record in a file; None where there is none that can be read."""
    try:
        return parse_record(read_json(path), str(path))
    except (OSError, ValueError, RecordError):
        return None


def status_of(record: Record | None) -> str:
    """A record's status, or ``unmeasured``."""
    return record.status if record else "unmeasured"


def read_outcomes(root: Path, planned: Mapping[str, Run]) -> dict[Run, Record | None]:
    """The record of each planned run, in the plan's order.

    That of a run with several processes is that of the first which is not ok, if there is one.
    """
    outcomes: dict[Run, Record | None] = {}
    for path, run in planned.items():
        if run not in outcomes or status_of(outcomes[run]) == "ok":
            outcomes[run] = read_outcome(root / path)
    return outcomes


def aligned(runs: Iterable[Run]) -> dict[Run, str]:
    """Each run's words without dtype and device, which a call's runs share: ``Flash2 B16 …``.

    They are padded so that they form columns; blank where a run has a default.
    """
    words: dict[Run, list[str]] = {}
    for run in runs:
        said = iter(run.words)
        stated = ("" if parameter in run.defaulted else next(said) for parameter in run)
        words[run] = [run.implementation, *stated]
    widths = [max(map(len, column)) for column in zip(*words.values(), strict=True)]
    return {
        run: " ".join(word.ljust(width) for word, width in zip(of, widths, strict=True) if width)
        for run, of in words.items()
    }


def _ratios(
    plan: Mapping[str, Any], benchmark: Benchmark, values: Mapping[Run, float], metric: Metric
) -> Iterator[str]:
    """For each implementation, the range of its speed over the baseline's, in words."""
    runs, baseline = [Run.of(benchmark, row) for row in plan["runs"]], plan["baseline"]
    settings = {replace(run, implementation=baseline) for run in runs}
    for name in (entry["name"] for entry in plan["implementations"] if entry["name"] != baseline):
        both = [(base, replace(base, implementation=name)) for base in settings]
        ratios = [values[own] / values[base] for base, own in both if {base, own} <= values.keys()]
        ratios = ratios if metric.higher_is_better else [1 / ratio for ratio in ratios]
        if ratios:
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
    if metric is None or {run.device for run in planned.values()} & benchmark.simulated:
        return []
    names, values = metric.derived.of if metric.derived else (metric.name,), dict[Run, float]()
    for path, run in planned.items():
        record = None if run in values else read_outcome(root / path)
        if record and record.metrics.keys() >= {*names}:
            parts = [record.metrics[name].value for name in names]
            values[run] = metric.derived.compute(run, *parts) if metric.derived else parts[0]
    by_path = {Path(name).parts[2:]: document for name, document in documents.items()}
    plans = [plan for path, plan in by_path.items() if path[:2] == ("plan", "experiments")]
    lines = [
        f"  {by_path['plan', 'titles.json'][plan['name']]['en']}: {'; '.join(ratios)}"
        for plan in plans
        if plan["sweep"] and (ratios := [*_ratios(plan, benchmark, values, metric)])
    ]
    what = lines and f"as a multiple of {plans[-1]['baseline']}'s ({metric.labels['en']})"
    return lines and [f"So far, from one process of each run, the speed {what}:", *lines]
