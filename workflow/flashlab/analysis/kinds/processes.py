"""In how many processes the runs were measured, and by how much those of a run differ."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Row, Sweep, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.analysis.ratios import rounded
from flashlab.telling.values import Statement, Tellable, say


def _statement(verdict: str, counts: Collection[int], known: Sequence[Row]) -> Statement:
    """In how many processes runs were measured; means have no interval, so no spread is known."""
    if verdict == "single":
        return say("method.processes.single")
    numbers: dict[str, Tellable] = {"fewest": min(counts), "most": max(counts)}
    if not known:
        return say("method.processes.means", **numbers)
    # By name where two are equally large, so that the order of the runs decides nothing.
    largest = max(known, key=lambda row: (row["deviation"], row["implementation"]))
    middle = statistics.median(row["deviation"] for row in known)
    return say(
        "method.processes.varied" if verdict == "varied" else "method.processes.repeated",
        **numbers,
        middle=str(rounded(100 * middle, 2)),
        largest=str(rounded(100 * largest["deviation"], 2)),
        implementation=largest["implementation"],
    )


def processes(sweeps: Sequence[Sweep], _: Given) -> Iterator[Finding]:
    """``single``; ``repeated`` where all runs have the same number of processes; else ``varied``.

    The spread is the standard deviation between processes by which intervals were computed: its
    median over all sampled metrics of all runs, and the largest.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        sampled = {metric.name for metric in metrics_of(sweep.benchmark, exact=False)}
        for row in sweep.metrics:
            if row["metric"] in sampled and row["status"] == "ok":
                rows.setdefault((*sweep.key_of(row), row["metric"]), row)
    if not rows:
        return
    counts = {row["processes"] or 1 for row in rows.values()}
    verdict = "varied" if len(counts) > 1 else "single" if counts == {1} else "repeated"
    known = [row for row in rows.values() if row["deviation"] is not None]
    yield Finding("processes", None, {}, verdict, [_statement(verdict, counts, known)])


PROCESSES = Kind(
    label="kind.processes",
    verdicts=("single", "repeated", "varied"),
    of_dataset=[(EVERY, processes)],
)
