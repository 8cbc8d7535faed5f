"""The settings of a dataset: runs by what they were given, across experiments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import Experiment, Row, run_keys
from flashlab.benchmarks.model import Benchmark, Metric


@dataclass(frozen=True)
class Setting:
    """Given parameters, dtype and device, and each implementation's run that has numbers there."""

    key: tuple[Any, ...]
    runs: Mapping[str, tuple[Experiment, Row]]


def distinct_runs(experiments: Iterable[Experiment]) -> list[tuple[Experiment, Row]]:
    """Every run once, with the first experiment that has it, in order of what tells them apart."""
    found: dict[tuple[Any, ...], tuple[Experiment, Row]] = {}
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        for row in experiment.runs:
            found.setdefault(experiment.key_of(row), (experiment, row))
    return [found[key] for key in sorted(found)]


def settings_of(experiments: Sequence[Experiment], without: Collection[str] = ()) -> list[Setting]:
    """The distinct settings at which any implementation has numbers, in order of their values.

    The implementations in `without` are left out.
    """
    runs: dict[tuple[Any, ...], dict[str, tuple[Experiment, Row]]] = {}
    for experiment, row in distinct_runs(experiments):
        keys = [row[name] for name in run_keys(experiment.benchmark) if name != "implementation"]
        if row["status"] == "ok" and row["implementation"] not in without:
            runs.setdefault(tuple(keys), {})[row["implementation"]] = (experiment, row)
    return [Setting(key, mine) for key, mine in sorted(runs.items())]


def timed_metrics(benchmark: Benchmark) -> list[Metric]:
    """The measured times whose operations are known."""
    return [m for m in benchmark.measured if m.work and not m.higher_is_better]


def operations(metric: Metric, parameters: Mapping[str, Any]) -> float:
    """The operations of a metric that has work, for a run with these parameters."""
    assert metric.work is not None
    return metric.work(parameters)
