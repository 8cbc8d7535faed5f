"""Of how many runs the counters were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Sweep, device_of
from flashlab.analysis.finding import Evidence, Finding
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.telling.values import say

KERNELS = {
    "counted": "counters.counted",
    "partly": "counters.partly",
    "uncounted": "counters.uncounted",
}
OPERATORS = {
    "counted": "counters.counted.operators",
    "partly": "counters.partly.operators",
    "uncounted": "counters.uncounted.operators",
}


def counted_runs(sweeps: Sequence[Sweep], _: Given) -> Iterator[Finding]:
    """Of how many runs the counters were read: ``counted``, ``partly`` or ``uncounted``."""
    statuses: dict[tuple[Any, ...], set[str]] = {}
    kinds = sorted({row["device"] for sweep in sweeps for row in sweep.runs})
    for sweep in sweeps:
        declared = (sweep.benchmark.all_counters(kind) for kind in kinds)
        names = {metric.name for metrics in declared for metric in metrics}
        for row in sweep.metrics:
            if row["metric"] in names:
                statuses.setdefault(sweep.key_of(row), set()).add(row["status"])
    if not any(sweep.benchmark.counters for sweep in sweeps):
        return
    count = sum(found == {"ok"} for found in statuses.values())
    failed = len(statuses) - count
    verdict = "partly" if failed else "counted" if count else "uncounted"
    yield Finding(
        kind="counters",
        experiment=None,
        device=device_of(run for sweep in sweeps for run in sweep.runs),
        subject={},
        verdict=verdict,
        statements=[
            say((OPERATORS if kinds == ["cpu"] else KERNELS)[verdict], count=count, failed=failed)
        ],
        evidence=Evidence(
            table="tables/*/metrics.csv",
            rows={},
            method="runs with rows of counters",
            n=count,
        ),
    )


COUNTERS = Kind(
    name="counters",
    label="kind.counters",
    verdicts=tuple(KERNELS),
    of_dataset=[(EVERY, counted_runs)],
)
