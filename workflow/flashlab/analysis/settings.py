"""The distinct settings of a dataset, each with its runs, whichever experiments ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    Row,
    Sweep,
    device_of,
    run_keys,
    sitting_doubts,
    warning_codes,
)
from flashlab.analysis.finding import Evidence, Finding, Reason
from flashlab.benchmarks.model import Benchmark, Metric, Value
from flashlab.statistics import Estimate
from flashlab.telling.values import Statement


@dataclass(frozen=True)
class Setting:
    """All given parameters of a run, and the run of each implementation that has numbers there."""

    key: tuple[Any, ...]
    parameters: Mapping[str, Value]
    runs: Mapping[str, tuple[Sweep, Row]]

    def estimate(self, estimates: Estimates, implementation: str, metric: Metric) -> Estimate:
        """A metric of an implementation, which must have numbers here."""
        return estimates.of_metric(*self.runs[implementation], metric.name)


def distinct_runs(sweeps: Iterable[Sweep]) -> list[tuple[Sweep, Row]]:
    """Every run once, with the first experiment that has it, in order of what tells them apart."""
    found: dict[tuple[Any, ...], tuple[Sweep, Row]] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        for row in sweep.runs:
            found.setdefault(sweep.key_of(row), (sweep, row))
    return [found[key] for key in sorted(found)]


def settings_of(sweeps: Sequence[Sweep]) -> list[Setting]:
    """The distinct settings at which any implementation has numbers, in order of their values."""
    runs: dict[tuple[Any, ...], dict[str, tuple[Sweep, Row]]] = {}
    for sweep, row in distinct_runs(sweeps):
        keys = [row[name] for name in run_keys(sweep.benchmark) if name != "implementation"]
        if row["status"] == "ok":
            runs.setdefault(tuple(keys), {})[row["implementation"]] = (sweep, row)
    return [
        Setting(key, given_parameters(*next(iter(mine.values()))), mine)
        for key, mine in sorted(runs.items())
    ]


def given_parameters(sweep: Sweep, row: Row) -> dict[str, Value]:
    """The parameters that a run states."""
    return {p.name: row[p.name] for p in sweep.benchmark.given}


def in_short(benchmark: Benchmark, setting: Setting, among: Sequence[Setting]) -> dict[str, Value]:
    """The sizes and variants of a setting that vary among several, derived ones too."""
    everywhere = [benchmark.all_parameters(each.parameters) for each in among]
    mine = benchmark.all_parameters(setting.parameters)
    return {
        name: value
        for name, value in mine.items()
        if any(other[name] != value for other in everywhere)
    }


def dataset_finding(
    kind: str,
    sweeps: Sequence[Sweep],
    verdict: str,
    *,
    subject: Mapping[str, Any],
    method: str,
    n: int,
    estimates: Sequence[Mapping[str, Any]],
    statements: Sequence[Statement] = (),
    facts: Mapping[str, Any] | None = None,
    compared: Sequence[Sequence[Row]] = (),
    reasons: Sequence[Reason] = (),
) -> Finding:
    """A finding about the dataset as a whole.

    It is based on the runs of `compared`, those of one group being compared with one another.
    """
    metric = subject.get("metric")
    runs = [run for group in compared for run in group]
    measured = sweeps[0].benchmark.measured_behind(metric) if metric else ()
    implementations = sorted({run["implementation"] for run in runs})
    return Finding(
        kind=kind,
        experiment=None,
        device=device_of(run for sweep in sweeps for run in sweep.runs),
        subject=subject,
        verdict=verdict,
        statements=statements,
        facts=facts or {},
        evidence=Evidence(
            table=f"tables/*/{'samples' if metric else 'runs'}.csv",
            rows={"implementation": implementations, **({"metric": metric} if metric else {})},
            method=method,
            n=n,
            estimates=estimates,
        ),
        reasons=reasons,
        warnings=sorted([*warning_codes(runs, *measured), *sitting_doubts(compared)])
        if metric
        else [],
    )
