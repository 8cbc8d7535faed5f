"""In how many processes the runs were measured, how much those differ, and which ran in pairs.

Where processes fall into groups, it says so: the values are then what most processes agree on.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, is_imported, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.analysis.pairing import MIN_PAIRS, Place, pair_up, place_of
from flashlab.analysis.ratios import ratio, rounded
from flashlab.analysis.replication import (
    MIN_PROCESSES,
    UNREPLICATED,
    Groups,
    agreed_value,
    groups_of,
    tells_spread,
)
from flashlab.analysis.settings import settings_of
from flashlab.statistics import MARGIN
from flashlab.telling.values import (
    Measured,
    MetricName,
    Run,
    Short,
    Statement,
    Tellable,
    clauses,
    say,
    settings,
)

UNPAIRED = {
    "few": "method.unpaired.few",
    "unknown": "method.unpaired.unknown",
    "apart": "method.unpaired.apart",
}
"""Why two runs at one setting are compared as independent."""


MOST_ODD = 3
"""Most runs with a process that is off of which a report tells how far: those where it is most."""


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


def _least_judged(experiments: Sequence[Experiment], estimates: Estimates) -> int:
    """The smallest difference in percent that is judged of any two runs of a setting.

    Of those with the fewest files, by any sampled metric; of one implementation alone, of any two
    runs of a sweep.
    """
    pairs = [
        (of, one, other)
        for setting in settings_of(experiments)
        for (of, one), (_, other) in itertools.combinations(setting.runs.values(), 2)
    ] or [(of, *two) for of in experiments for two in itertools.combinations(of.runs, 2)]
    widths: dict[int, list[float]] = {}
    for of, one, other in pairs:
        files = len(of.processes_of(one)) + len(of.processes_of(other))
        for metric in metrics_of(of.benchmark, exact=False):
            if one["status"] == other["status"] == "ok":
                first, second = (estimates.of_metric(of, run, metric.name) for run in (one, other))
                found = ratio(0, first, second)
                if found.low is not None:
                    widths.setdefault(files, []).append(found.ratio / found.low)
    widest = max(widths[min(widths)]) if widths else 1.0
    return math.ceil(100 * ((1 + MARGIN) * widest - 1))


def _of_files(verdict: str, counts: Collection[int], known: Sequence[Row], least: int) -> Statement:
    """How many files runs of an imported folder have, and what is judged by them."""
    if verdict == "single" or not known:
        assumed = f"{100 * UNREPLICATED.deviation:g}"
        return say("method.files.single", assumed=assumed, least=least)
    largest = max(known, key=lambda row: (row["deviation"], row["implementation"]))
    return say(
        "method.files.varied",
        most=max(counts),
        middle=str(rounded(100 * statistics.median(row["deviation"] for row in known), 2)),
        largest=str(rounded(100 * largest["deviation"], 2)),
        implementation=largest["implementation"],
        least=least,
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
                found[why] += 1
    for counts in pairs.values():
        found["paired" if tells_spread(counts) else "few"] += len(counts)
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


@dataclass(frozen=True)
class _Split:
    """A metric of a run of which most processes agree, and others are far off."""

    experiment: Experiment
    row: Row
    medians: Sequence[float]
    groups: Groups

    def told(self) -> Statement:
        """The run, and what the odd process measured beside the others."""
        benchmark = self.experiment.benchmark
        given = {parameter.name: self.row[parameter.name] for parameter in benchmark.given}
        odd, agreed = (
            agreed_value([self.medians[i] for i in group])
            for group in (self.groups.others, self.groups.most)
        )
        return say(
            "method.processes.odd.one",
            run=Run(self.row["implementation"], settings(benchmark, given)),
            metric=MetricName(self.row["metric"]),
            odd=Measured(rounded(odd)),
            agreed=Measured(rounded(agreed)),
            unit=self.row["unit"],
        )


def _is_state(splits: Sequence[_Split], runs: int) -> bool:
    """Whether these of so many runs of an implementation show two states of its processes.

    More than a third of them, as hardly any code is disturbed so often; or several processes are in
    either group of a run.
    """
    return 1 < len(splits) > runs / 3 or any(len(split.groups.others) > 1 for split in splits)


def _told_groups(rows: Iterable[tuple[Experiment, Row]]) -> Iterator[Statement]:
    """Implementations whose processes fall into two groups, and single processes that are off."""
    kinds: dict[tuple[str, str], list[_Split]] = {}
    runs: Counter[tuple[str, str]] = Counter()
    for experiment, row in rows:
        if experiment.benchmark.metric(row["metric"]).derived is not None:
            continue
        medians = [float(np.median(calls)) for calls in experiment.samples_of(row) if calls]
        if len(medians) >= MIN_PROCESSES:
            runs[kind := (row["implementation"], row["metric"])] += 1
            if groups := groups_of(medians):
                kinds.setdefault(kind, []).append(_Split(experiment, row, medians, groups))
    alone: list[_Split] = []
    for kind, splits in kinds.items():
        if not _is_state(splits, runs[kind]):
            alone += splits
            continue
        yield say(
            "method.processes.groups",
            implementation=kind[0],
            metric=MetricName(kind[1]),
            percent=Short(100 * (statistics.median(split.groups.apart for split in splits) - 1)),
            count=len(splits),
            of=runs[kind],
        )
    if alone:
        alone.sort(key=lambda split: split.groups.apart, reverse=True)
        yield say(
            "method.processes.odd",
            count=len(alone),
            of=runs.total(),
            farthest=clauses(split.told() for split in alone[:MOST_ODD]),
        )


def processes(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """``single``; ``repeated`` where all runs have the same number of processes; else ``varied``.

    The spread is the standard deviation of the logarithms between a run's own processes: its median
    over all sampled metrics of all runs, and the largest.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    measured: list[tuple[Experiment, Row]] = []
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        sampled = {metric.name for metric in metrics_of(experiment.benchmark, exact=False)}
        for row in experiment.metrics:
            key = (*experiment.key_of(row), row["metric"])
            if row["metric"] in sampled and row["status"] == "ok" and key not in rows:
                rows[key] = row
                measured.append((experiment, row))
    if not rows:
        return
    counts = {row["processes"] or 1 for row in rows.values()}
    verdict = "varied" if len(counts) > 1 else "single" if counts == {1} else "repeated"
    known = [row for row in rows.values() if row["deviation"] is not None]
    if all(map(is_imported, itertools.chain.from_iterable(e.runs for e in experiments))):
        least = _least_judged(experiments, given.estimates)
        yield Finding("processes", None, {}, verdict, [_of_files(verdict, counts, known, least)])
        return
    statements = [_statement(verdict, counts, known), *_told_groups(measured)]
    pairings = _pairings(experiments)
    if known and pairings:
        statements.append(_told_pairings(pairings))
    yield Finding("processes", None, {}, verdict, statements, dict(sorted(pairings.items())))


PROCESSES = Kind(
    label="kind.processes",
    verdicts=("single", "repeated", "varied"),
    of_dataset=[(EVERY, processes)],
)
