"""How the ratio of processes that ran side by side holds where cards and clocks differ.

Implementations are drawn that are all the same code. Those of one setting run side by side, block
by block; each process is off as a whole, and what the card does to a block it does to all in it. By
hand: perf/findings_right.py.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from flashlab.analysis.pairing import Pairings, Place, Processes
from flashlab.analysis.replication import combine_processes, interval_of
from flashlab.statistics import MARGIN, Estimate, estimate_median, function_estimate

IMPLEMENTATIONS = ("A", "B", "C")
CARDS = 4
CALLS = 20
OWN, SCATTER = 0.006, 0.01
"""Standard deviations of a process, and of its calls."""

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
RUN = timedelta(minutes=1)

Disturbance = Callable[[np.random.Generator, int], Callable[[float], float]]
"""What a card does, by its number: the factor on times by how much of the recording is over."""


def _nothing(_: np.random.Generator, __: int) -> Callable[[float], float]:
    return lambda _: 1.0


def _offset(random: np.random.Generator, _: int) -> Callable[[float], float]:
    own = float(random.lognormal(sigma=0.03))
    return lambda _: own


def _drift(_: np.random.Generator, __: int) -> Callable[[float], float]:
    return lambda over: 1.05**over


def _throttling(random: np.random.Generator, card: int) -> Callable[[float], float]:
    """One card that lowers its clocks by 8% for a third of the recording."""
    since = random.uniform(0, 2 / 3)
    return lambda over: 1.08 if card == 0 and since <= over < since + 1 / 3 else 1.0


DISTURBANCES: Mapping[str, Disturbance] = {
    "none": _nothing,
    "card offsets, sd 3%": _offset,
    "drift of 5%": _drift,
    "a throttling card": _throttling,
}


@dataclass
class PairedScore:
    """What became of ratios of identical code, by pairs and as independent runs."""

    ratios: int = 0
    held: int = 0
    false: int = 0
    width: float = 0.0
    held_unpaired: int = 0
    false_unpaired: int = 0
    width_unpaired: float = 0.0

    @property
    def relative_width(self) -> float:
        """The width of the pairs' intervals over that of independent runs', in the logarithm."""
        return self.width / self.width_unpaired


Recording = dict[tuple[str, int], Processes]


def _record(
    random: np.random.Generator, disturbance: Disturbance, settings: int, processes: int
) -> Recording:
    """The processes of every implementation at every setting, block by block on a card each."""
    cards = [disturbance(random, card) for card in range(CARDS)]
    blocks = list(itertools.product(range(processes), range(settings)))
    names = itertools.product(IMPLEMENTATIONS, range(settings))
    found: dict[tuple[str, int], tuple[list[Estimate], list[Place]]] = {n: ([], []) for n in names}
    for number, (_, setting) in enumerate(blocks):
        card = int(random.integers(CARDS))
        for place, name in enumerate(random.permutation(IMPLEMENTATIONS)):
            position = number * len(IMPLEMENTATIONS) + place
            factor = cards[card](position / (len(blocks) * len(IMPLEMENTATIONS)))
            factor *= float(random.lognormal(sigma=OWN))
            calls = factor * random.lognormal(sigma=SCATTER, size=CALLS)
            estimates, places = found[str(name), setting]
            estimates.append(estimate_median(calls.tolist()))
            started = BEGUN + position * 5 * RUN
            places.append(Place(str(card), started, started + RUN))
    return {key: Processes(*run) for key, run in found.items()}


def score_paired(
    disturbance: Disturbance, recordings: int, seed: int, settings: int = 8, processes: int = 3
) -> PairedScore:
    """Compare all implementations of so many recordings with one another."""
    random, score = np.random.default_rng(seed), PairedScore()
    for _ in range(recordings):
        recording = _record(random, disturbance, settings, processes)
        pairings = Pairings(recording, ())
        combined: dict[tuple[str, int], Estimate] = {}
        for name in IMPLEMENTATIONS:
            keys = [key for key in recording if key[0] == name]
            kind = combine_processes([recording[key].estimates for key in keys])
            combined |= {key: each.estimate for key, each in zip(keys, kind, strict=True)}
        for one, other in itertools.combinations(IMPLEMENTATIONS, 2):
            for at in range(settings):
                paired = pairings.ratio((one, at), (other, at))
                assert paired is not None and paired.processes == processes
                both = combined[one, at], combined[other, at]
                _add(score, paired.estimate, function_estimate(operator.truediv, both))
    return score


def _add(score: PairedScore, paired: Estimate, unpaired: Estimate) -> None:
    (low, high), (lowest, highest) = (
        interval_of(each) or (0.0, 0.0) for each in (paired, unpaired)
    )
    margin = 1 + MARGIN
    score.ratios += 1
    score.held += low <= 1 <= high
    score.false += low > margin or high < 1 / margin
    score.width += math.log(high / low)
    score.held_unpaired += lowest <= 1 <= highest
    score.false_unpaired += lowest > margin or highest < 1 / margin
    score.width_unpaired += math.log(highest / lowest)
