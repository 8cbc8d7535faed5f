"""Ratios of processes that ran side by side: one card, within minutes.

A card's own offset and a slow drift are nearly the same on both sides of such a pair, and their
ratio hardly has them. Nothing but the records tells which processes these are: the card,
the start and the end stand in them.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from flashlab.analysis.experiment import Key, is_imported
from flashlab.analysis.replication import Replicated, combine_processes, tells_spread
from flashlab.records import Record
from flashlab.statistics import Estimate, function_estimate

REACH = timedelta(minutes=10)
"""Longest time from the end of one process to the start of the other of a pair."""

MIN_PAIRS = 2
"""Fewest pairs of two runs at a setting. Those of all settings must tell how much a ratio differs
from pair to pair (`tells_spread`); else runs are compared as independent."""

FAR = 1e9
"""Seconds that no pairs have between them: what may be no pair is one only where there is none."""


@dataclass(frozen=True)
class Place:
    """The card of a process and the times between which it ran."""

    card: str
    started: datetime
    ended: datetime

    def pause(self, other: Place) -> timedelta | None:
        """The time between two processes; None where they are on two cards or out of reach."""
        pause = max(self.started - other.ended, other.started - self.ended, timedelta())
        return pause if self.card == other.card and pause <= REACH else None


def place_of(record: Record) -> Place | None:
    """The card and times of a record; None where it does not say them, or was imported.

    The card of a CPU is its system between two boots.
    """
    card = record.environment.get("boot" if record.run.device == "cpu" else "gpu_uuid")
    if not (card and record.started and record.ended) or is_imported(record):
        return None
    return Place(card, *map(datetime.fromisoformat, (record.started, record.ended)))


def pair_up(ones: Sequence[Place | None], others: Sequence[Place | None]) -> list[tuple[int, int]]:
    """The pairs of two runs' processes by their positions, each process in one pair at most.

    As many as can be, and of all ways to pair so many, that with the least time between them.
    """
    from scipy.optimize import linear_sum_assignment  # a report would wait for it in vain

    pauses = np.full((len(ones), len(others)), FAR)
    for (i, one), (j, other) in itertools.product(enumerate(ones), enumerate(others)):
        if one and other and (pause := one.pause(other)) is not None:
            pauses[i, j] = pause.total_seconds()
    found = zip(*linear_sum_assignment(pauses), strict=True)
    return [(int(i), int(j)) for i, j in found if pauses[i, j] < FAR]


@dataclass(frozen=True)
class Processes:
    """The processes of a run: a metric's estimate in each, with its card and times."""

    estimates: Sequence[Estimate]
    places: Sequence[Place | None]

    def only(self, kept: Sequence[int]) -> Processes:
        """Those at these positions."""
        return Processes([self.estimates[i] for i in kept], [self.places[i] for i in kept])


class Pairings:
    """The ratios of runs of a dataset by one metric, where processes of both ran side by side.

    Runs are paired that differ in the implementation alone or in variants alone, whose positions in
    a key are `variants`. The variance between pairs is pooled over all settings at which the same
    two are.
    """

    def __init__(self, runs: Mapping[Key, Processes], variants: Collection[int]) -> None:
        self._runs = runs
        self._variants = frozenset(variants)
        self._known: dict[Key, dict[Key, Replicated]] = {}

    def ratio(self, one: Key, other: Key) -> Replicated | None:
        """The first run over the second; None where too few processes are paired."""
        changed = {i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}
        if not changed or not (changed == {0} or changed <= self._variants):
            return None
        if other < one:
            found = self.ratio(other, one)
            return found and _inverse(found)
        changes = tuple((i, one[i], other[i]) for i in sorted({0, *changed}))
        if changes not in self._known:
            self._known[changes] = self._ratios(changes)
        return self._known[changes].get(one)

    def _ratios(self, changes: Key) -> dict[Key, Replicated]:
        """The paired ratios of all runs to those that these changes make of them, by the first."""
        pairs = {}
        for key, one in self._runs.items():
            if any(key[i] != before for i, before, _ in changes):
                continue
            partner = list(key)
            for i, _, after in changes:
                partner[i] = after
            if (other := self._runs.get(tuple(partner))) is None:
                continue
            paired = pair_up(one.places, other.places)
            if len(paired) >= MIN_PAIRS:
                pairs[key] = [
                    function_estimate(operator.truediv, (one.estimates[i], other.estimates[j]))
                    for i, j in paired
                ]
        if not tells_spread(map(len, pairs.values())):
            return {}
        return dict(zip(pairs, combine_processes([*pairs.values()]), strict=True))


def _inverse(found: Replicated) -> Replicated:
    estimate, quantiles = found.estimate, found.estimate.quantiles
    inverted = None if quantiles is None else 1 / quantiles[::-1]
    turned = replace(estimate, median=1 / estimate.median, quantiles=inverted)
    return replace(found, estimate=turned)


@dataclass(frozen=True)
class RunEstimate(Estimate):
    """The estimate of a metric of a run, with the pairings of its processes.

    `looks` is how many processes were added to the run to decide a verdict.
    """

    key: Key = field(kw_only=True)
    pairings: Pairings = field(kw_only=True)
    looks: int = field(kw_only=True)

    def over(self, other: RunEstimate) -> Replicated | None:
        """The ratio to another run of the same metric, where both ran side by side."""
        return self.pairings.ratio(self.key, other.key) if self.pairings is other.pairings else None
