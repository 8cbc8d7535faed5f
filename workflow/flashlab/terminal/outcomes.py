"""The planned runs' records while a call measures, in words, and the first ratios between them.

The ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.files import read_json
from flashlab.numbers import range_of
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
    """The record of each planned run: of several processes', the first which is not ok if any."""
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
    names, speeds = metric.derived.of if metric.derived else (metric.name,), dict[Run, float]()
    for run, record in read_outcomes(root, planned).items():
        if record and record.metrics.keys() >= {*names}:
            parts = [record.metrics[name].value for name in names]
            value = metric.derived.compute(run, *parts) if metric.derived else parts[0]
            speeds[run] = value if metric.higher_is_better else 1 / value
    by_path = {Path(name).parts[2:]: document for name, document in documents.items()}
    lines, baseline = list[str](), ""
    for plan in (each for path, each in by_path.items() if path[:2] == ("plan", "experiments")):
        baseline, said = plan["baseline"], []
        bases = {replace(Run.of(benchmark, row), implementation=baseline) for row in plan["runs"]}
        for name in (entry["name"] for entry in plan["implementations"] if plan["sweep"]):
            both = [(base, replace(base, implementation=name)) for base in bases]
            known = [speeds[own] / speeds[b] for b, own in both if {b, own} <= speeds.keys()]
            if known and name != baseline:
                times = range_of(known, " to ")
                said.append(f"{name} {times}× at {len(known)} of {len(bases)} settings")
        if said:
            title = by_path["plan", "titles.json"][plan["name"]]["en"]
            lines.append(f"  {title}: {'; '.join(said)}")
    what = f"as a multiple of {baseline}'s ({metric.labels['en']})"
    return lines and [f"So far, from one process of each run, the speed {what}:", *lines]
