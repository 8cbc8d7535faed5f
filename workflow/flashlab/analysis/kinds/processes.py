"""In how many processes the runs were measured, how much those differ, and which ran in pairs."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Row, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.analysis.pairing import MIN_PAIRS, Place, pair_up, place_of
from flashlab.analysis.ratios import rounded
from flashlab.analysis.replication import UNREPLICATED
from flashlab.analysis.settings import settings_of
from flashlab.telling.values import Statement, Tellable, clauses, say

UNPAIRED = {
    "few": "method.unpaired.few",
    "unknown": "method.unpaired.unknown",
    "apart": "method.unpaired.apart",
}
"""Why two runs at one setting are compared as independent."""


def _statement(verdict: str, counts: Collection[int], known: Sequence[Row]) -> Statement:
    """In how many processes runs were measured; means have no interval, so no spread is known."""
    if verdict == "single":
        assumed = f"{100 * UNREPLICATED.deviation:g}"
        return say("method.processes.single", assumed=assumed)
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


def _pairing(one: Sequence[Place | None], other: Sequence[Place | None]) -> str:
    """Whether two runs are compared process by process (``paired``), or why they are not."""
    if min(len(one), len(other)) < MIN_PAIRS:
        return "few"
    if min(sum(place is not None for place in places) for places in (one, other)) < MIN_PAIRS:
        return "unknown"
    return "paired" if len(pair_up(one, other)) >= MIN_PAIRS else "apart"


def _pairings(experiments: Sequence[Experiment]) -> Counter[str]:
    """What every two runs at one setting of the dataset are by `_pairing`."""
    found: Counter[str] = Counter()
    for setting in settings_of(experiments):
        places = [
            list(map(place_of, experiment.processes_of(run)))
            for experiment, run in setting.runs.values()
        ]
        found.update(_pairing(*two) for two in itertools.combinations(places, 2))
    return found


def _told_pairings(found: Counter[str]) -> Statement:
    """How many comparisons are paired, and why the others are not."""
    paired, count = found["paired"], found.total()
    why = clauses(say(key, count=found[code]) for code, key in UNPAIRED.items() if found[code])
    if paired == count:
        return say("method.paired.all", count=count)
    if paired:
        return say("method.paired.some", paired=paired, count=count, reasons=why)
    return say("method.paired.none", count=count, reasons=why)


def processes(experiments: Sequence[Experiment], _: Given) -> Iterator[Finding]:
    """``single``; ``repeated`` where all runs have the same number of processes; else ``varied``.

    The spread is the standard deviation of the logarithms between a run's own processes: its median
    over all sampled metrics of all runs, and the largest.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        sampled = {metric.name for metric in metrics_of(experiment.benchmark, exact=False)}
        for row in experiment.metrics:
            if row["metric"] in sampled and row["status"] == "ok":
                rows.setdefault((*experiment.key_of(row), row["metric"]), row)
    if not rows:
        return
    counts = {row["processes"] or 1 for row in rows.values()}
    verdict = "varied" if len(counts) > 1 else "single" if counts == {1} else "repeated"
    known = [row for row in rows.values() if row["deviation"] is not None]
    statements, pairings = [_statement(verdict, counts, known)], _pairings(experiments)
    if known and pairings:
        statements.append(_told_pairings(pairings))
    yield Finding("processes", None, {}, verdict, statements, dict(sorted(pairings.items())))


PROCESSES = Kind(
    label="kind.processes",
    verdicts=("single", "repeated", "varied"),
    of_dataset=[(EVERY, processes)],
)
