"""Whether another implementation is the best on the second side than on the first.

A change counts where each of the two is decidedly better than the other one on its side, by the
rule of every comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.compare.rule import GAINS, Ratio
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats, function_interval

Estimates = Mapping[str, Mapping[Run, tuple[Estimate, Estimate]]]
"""By a measured metric's name and the run: the estimates on the first and on the second side."""


@dataclass(frozen=True)
class _Choice:
    """A run as one of those to choose from by a metric, on one side: the estimates behind it."""

    metric: Metric
    run: Run
    behind: Sequence[Estimate]

    def value(self, parts: Sequence[Any]) -> Any:
        """The metric from values of what is behind it."""
        return self.metric.derived.compute(self.run, *parts) if self.metric.derived else parts[0]

    @property
    def order(self) -> tuple[float, str]:
        """Ascending, the best median first."""
        median = self.value([estimate.median for estimate in self.behind])
        return (-median if self.metric.higher_is_better else median), self.run.implementation

    def wins(self, other: _Choice) -> bool:
        """Whether it is decidedly better than another."""

        def quotient(*parts: Floats) -> Floats:
            mine, theirs = parts[: len(self.behind)], parts[len(self.behind) :]
            return np.asarray(self.value(mine) / other.value(theirs))

        ratio = float(quotient(*(e.median for e in (*self.behind, *other.behind))))  # type: ignore[arg-type]
        interval = function_interval(quotient, [*self.behind, *other.behind]) or (None, None)
        return Ratio(ratio, *interval).verdict(self.metric) in GAINS


def _of_metric(
    benchmark: Benchmark, metric: Metric, estimates: Estimates
) -> Iterator[dict[str, Any] | None]:
    """Of each shape that two implementations have on both sides: the change, or None."""
    behind = [estimates.get(name, {}) for name in benchmark.measured_behind(metric.name)]
    shapes: dict[tuple[Any, ...], list[Run]] = {}
    for run in behind[0]:
        if all(run in known for known in behind):
            shapes.setdefault((run.parameters, run.dtype, run.device), []).append(run)
    for runs in shapes.values():
        if len(runs) < 2:
            continue
        first, second = (
            [_Choice(metric, run, [known[run][side] for known in behind]) for run in runs]
            for side in (0, 1)
        )
        one, other = (
            min(range(len(runs)), key=lambda i, side=side: side[i].order)  # type: ignore[misc]
            for side in (first, second)
        )
        changes = one != other and first[one].wins(first[other]) and second[other].wins(second[one])
        shape = " ".join(runs[0].words)
        names = {"one": runs[one].implementation, "other": runs[other].implementation}
        yield {"metric": metric.name, "shape": shape, **names} if changes else None


def compare_choices(benchmark: Benchmark, estimates: Estimates) -> dict[str, Any]:
    """At how many shapes, by each sampled metric and their totals, and every change."""
    found = [
        each
        for metric in (*benchmark.measured, *benchmark.totals)
        for each in _of_metric(benchmark, metric, estimates)
    ]
    return {"count": len(found), "changes": [change for change in found if change]}
