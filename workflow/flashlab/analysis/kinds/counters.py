"""Of how many runs the counters were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.telling.codes import by_code
from flashlab.telling.values import say

KERNELS = by_code("counters.counted", "counters.partly", "counters.uncounted")
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
    key = (OPERATORS if kinds == ["cpu"] else KERNELS)[verdict]
    yield Finding("counters", None, {}, verdict, [say(key, count=count, failed=failed)])


COUNTERS = Kind(
    label="kind.counters",
    verdicts=tuple(KERNELS),
    of_dataset=[(EVERY, counted_runs)],
)
