"""What the records of a call that is still measuring tell, experiment by experiment.

Medians of what is there, without intervals: the report decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.files import read_json
from flashlab.plan.plan_files import experiment_file, planned_experiments, titles_file
from flashlab.runs import Run
from flashlab.terminal.outcomes import read_outcome

Setting = tuple[Any, ...]


def _metric(benchmark: Benchmark) -> Metric | None:
    """What implementations are compared by: a total where there is one."""
    sampled = [metric for metric in benchmark.compared if not metric.exact and not metric.optional]
    return next(iter([*benchmark.totals, *sampled[-1:]]), None)


def _values(root: Path, planned: Mapping[str, Run], metric: Metric) -> dict[Run, float]:
    """The metric of each run in the first of its processes that is there and ok."""
    found: dict[Run, float] = {}
    for path, run in planned.items():
        if run in found or not (root / path).exists():
            continue
        measured = read_outcome(root / path)[1].measured
        names = metric.derived.of if metric.derived else (metric.name,)
        if all(name in measured for name in names):
            values = [measured[name][0] for name in names]
            found[run] = metric.derived.compute(run, *values) if metric.derived else values[0]
    return found


def _ratios(plan: Mapping[str, Any], values: Mapping[Run, float], metric: Metric) -> Iterator[str]:
    """How many times as good as the baseline each other implementation is, over the settings."""
    places: dict[Setting, dict[str, float]] = {}
    for run, value in values.items():
        if run.to_row() in plan["runs"]:
            setting = tuple(item for item in run.to_row().items() if item[0] != "implementation")
            places.setdefault(setting, {})[run.implementation] = value
    settings = {tuple(r[k] for k in r if k != "implementation") for r in plan["runs"]}
    for entry in plan["implementations"]:
        both = [
            (place[plan["baseline"]], place[entry["name"]])
            for place in places.values()
            if entry["name"] != plan["baseline"] and {plan["baseline"], entry["name"]} <= {*place}
        ]
        if both:
            found = [b / a if metric.higher_is_better else a / b for a, b in both]
            low, high = (f"{end:.2g}" for end in (min(found), max(found)))
            times = low if low == high else f"{low} to {high}"
            yield f"{entry['name']} {times}× at {len(both)} of {len(settings)} settings"


def told_so_far(
    root: Path, results: Path, benchmark: Benchmark, planned: Mapping[str, Run]
) -> list[str]:
    """A line for each experiment that can say something; empty where none can.

    `results` is the folder of the dataset's results below the pipeline's, `planned` the runs by
    their records.
    """
    metric = _metric(benchmark)
    if metric is None or {run.device for run in planned.values()} & benchmark.simulated:
        return []
    values, titles = _values(root, planned, metric), read_json(titles_file(root / results))
    lines = []
    for name in planned_experiments(root / results):
        plan = read_json(experiment_file(root / results, name))
        if plan.get("sweep") and (ratios := list(_ratios(plan, values, metric))):
            lines.append(f"  {titles[name]['en']}: {'; '.join(ratios)}")
    if not lines:
        return []
    baseline = plan["baseline"]
    what = f"as a multiple of {baseline}'s ({metric.labels['en']})"
    return [f"So far, from one process of each run, the speed {what}:", *lines]
