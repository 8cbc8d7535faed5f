"""The paragraphs on processes: their number, their spread, and the runs compared in pairs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence

from flashlab.analysis.experiment import Experiment, Row, is_imported, metrics_of
from flashlab.analysis.pairing import MIN_PAIRS, Place, pair_up, place_of
from flashlab.analysis.ratios import rounded
from flashlab.analysis.replication import UNREPLICATED, tells_spread
from flashlab.analysis.settings import settings_of
from flashlab.report.data import ReportData
from flashlab.statistics import MARGIN
from flashlab.telling.values import Tellable, clauses, say

UNPAIRED = {
    "few": "method.unpaired.few",
    "unknown": "method.unpaired.unknown",
    "apart": "method.unpaired.apart",
}
"""The message for each reason why two runs at one setting are compared as independent."""


def _spread(known: Sequence[Row]) -> dict[str, Tellable]:
    """Deviations between a run's processes: the median, the largest, and its implementation."""
    # By name where two are equally large, so that the order of the runs decides nothing.
    largest = max(known, key=lambda row: (row["deviation"], row["implementation"]))
    return {
        "middle": str(rounded(100 * statistics.median(row["deviation"] for row in known), 2)),
        "largest": str(rounded(100 * largest["deviation"], 2)),
        "implementation": largest["implementation"],
    }


def _of_processes(counts: set[int], known: Sequence[Row]) -> Tellable:
    """The number of processes of a run, and their spread; none of protocols that time means."""
    if counts == {1}:
        return say("method.processes.single", assumed=f"{100 * UNREPLICATED.deviation:g}")
    numbers: dict[str, Tellable] = {"fewest": min(counts), "most": max(counts)}
    if not known:
        return say("method.processes.means", **numbers)
    key = "method.processes.varied" if len(counts) > 1 else "method.processes.repeated"
    return say(key, **numbers, **_spread(known))


def _of_files(data: ReportData, counts: set[int], known: Sequence[Row]) -> Tellable:
    """The number of files of an imported run, and the least difference that they show."""
    single = data.comparisons[data.comparisons.value.notna()]
    widest = max((single.ratio / single.low).dropna(), default=1.0)
    least = math.ceil(100 * ((1 + MARGIN) * widest - 1))
    if counts == {1} or not known:
        assumed = f"{100 * UNREPLICATED.deviation:g}"
        return say("method.files.single", assumed=assumed, least=least)
    return say("method.files.varied", most=max(counts), least=least, **_spread(known))


def _pairing(one: Sequence[Place | None], other: Sequence[Place | None]) -> str:
    """``paired`` if two runs are compared process by process, else the reason why not."""
    if min(len(one), len(other)) < MIN_PAIRS:
        return "few"
    if min(sum(place is not None for place in places) for places in (one, other)) < MIN_PAIRS:
        return "unknown"
    return "paired" if len(pair_up(one, other)) >= MIN_PAIRS else "apart"


def pairings(experiments: Sequence[Experiment]) -> Counter[str]:
    """The number of pairs of runs at one setting by `_pairing`."""
    counts_by_reason: Counter[str] = Counter()
    pairs: dict[tuple[str, str], list[int]] = {}
    for setting in settings_of(experiments):
        places = {
            name: list(map(place_of, experiment.processes_of(run)))
            for name, (experiment, run) in sorted(setting.runs.items())
        }
        for (one, ones), (other, others) in itertools.combinations(places.items(), 2):
            if (why := _pairing(ones, others)) == "paired":
                pairs.setdefault((one, other), []).append(len(pair_up(ones, others)))
            else:
                counts_by_reason[why] += 1
    for counts in pairs.values():
        counts_by_reason["paired" if tells_spread(counts) else "few"] += len(counts)
    return counts_by_reason


def _describe_pairings(pairs: Counter[str]) -> Tellable:
    """The number of paired comparisons, and the reasons why others are not paired."""
    paired, count = pairs["paired"], pairs.total()
    why = clauses(say(key, count=pairs[code]) for code, key in UNPAIRED.items() if pairs[code])
    if paired == count:
        return say("method.paired.all", count=count)
    if paired:
        return say("method.paired.some", paired=paired, count=count, reasons=why)
    return say("method.paired.none", count=count, reasons=why)


def describe_processes(data: ReportData) -> list[Tellable]:
    """The number of processes, their spread, and the number of paired runs."""
    sampled = {metric.name for metric in metrics_of(data.benchmark, exact=False)}
    distinct = {
        (experiment.key_of(row), row["metric"]): row
        for experiment in data.shown
        for row in experiment.metrics
        if row["metric"] in sampled and row["status"] == "ok"
    }
    rows = list(distinct.values())
    if not rows:
        return []
    counts = {row["processes"] or 1 for row in rows}
    known = [row for row in rows if row["deviation"] is not None]
    if all(map(is_imported, data.runs)):
        return [_of_files(data, counts, known)]
    paragraphs = [_of_processes(counts, known)]
    paired = pairings(data.shown)
    return [*paragraphs, _describe_pairings(paired)] if known and paired else paragraphs
