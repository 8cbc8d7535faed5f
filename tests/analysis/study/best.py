"""What the best possible test misses, which knows how random load slows processes.

By the lemma of Neyman and Pearson that is the test by the likelihood ratio: of the ratios that are
planted, against identical code. So no statistic does better at the same rate of false differences.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from analysis.study.models import MODELS, OFF, ONE_PROCESS, SHARE, plant_by
from analysis.study.truth import PLAIN, TOTAL, Truth

from flashlab.statistics import Floats

STEP, DRAWN, RATIOS, SOURCES = 0.0025, 800, 150, 40
"""The logarithm's grid; runs drawn for each number of slowed processes; ratios; datasets."""

AT = np.arange(-0.2, 1.3, STEP)
"""The logarithm of the factor on a process."""


def _density() -> Floats:
    """That of a process's factor: quiet, or beside another program."""
    quiet = np.exp(-((AT / ONE_PROCESS) ** 2) / 2) / ONE_PROCESS / math.sqrt(2 * math.pi)
    inside = (np.log(OFF[0]) < AT) & (np.log(OFF[1]) > AT)
    loaded = np.where(inside, np.exp(AT) / (OFF[1] - OFF[0]), 0.0)
    kernel = np.exp(-((np.arange(-12, 13) * STEP / ONE_PROCESS) ** 2) / 2)
    slowed = np.convolve(loaded, kernel / kernel.sum(), "same")
    found: Floats = (1 - SHARE) * quiet + SHARE * slowed
    return found


def _planted_ratios() -> Floats:
    """The logarithms of the plain ratios of the study: of implementations, and along the sweep."""
    found: list[float] = []
    for index in range(SOURCES):
        random = np.random.default_rng([1, index])
        truth = Truth(plant_by(random, index, MODELS["quiet"], 2))
        for mask, one, other in itertools.product(truth.masks, truth.names, truth.names):
            found += truth.speeds(mask, TOTAL, one, other).values()
        for mask, name in itertools.product(truth.masks, truth.names):
            times = [*truth.along(name, mask).values()]
            found += [b / a for a, b in itertools.pairwise(times)] + [t / times[0] for t in times]
    logs = np.log(found)
    plain = logs[np.abs(logs) >= math.log(PLAIN)]
    return np.concatenate([plain, -plain])  # to exchange two names exchanges above and below


def missed_by_the_best(processes: int, seed: int, false: float = 1e-4) -> float:
    """The share of plain differences, called different in this share of pairs of identical code."""
    random, density, ratios = np.random.default_rng(seed), _density(), _planted_ratios()
    start = np.arange(-1.2, 0.2, STEP)
    tried = np.concatenate([[0.0], random.choice(ratios, RATIOS)])

    def drawn(slowed: int) -> Floats:
        logs = random.normal(0, ONE_PROCESS, (DRAWN, processes))
        logs[:, :slowed] += np.log(random.uniform(*OFF, (DRAWN, slowed)))
        return logs

    def likely(logs: Floats) -> Floats:
        """Of each true time, from the least of the processes on."""
        away = logs[:, :, None] - logs.min(axis=1)[:, None, None] - start
        return np.asarray(np.prod(np.interp(away, AT, density, 0, 0) + 1e-12, axis=1))

    def statistic(one: Floats, other: Floats) -> Floats:
        """The likelihood of the planted ratios over that of none."""
        lags = np.arange(1 - len(start), len(start)) * STEP
        apart, found = one.min(axis=1) - other.min(axis=1), []
        for of_one, of_other, by in zip(likely(one), likely(other), apart, strict=True):
            of_lag = np.interp(tried - by, lags, np.convolve(of_one, of_other[::-1]), 0, 0)
            found.append(of_lag[1:].mean() / max(of_lag[0], 1e-200))
        return np.array(found)

    counts = range(processes + 1)
    share = [math.comb(processes, k) * SHARE**k * (1 - SHARE) ** (processes - k) for k in counts]
    both = [(a, b) for a, b in itertools.product(counts, repeat=2) if share[a] * share[b] > 1e-9]
    weights = np.repeat([share[a] * share[b] for a, b in both], DRAWN) / DRAWN
    same = np.concatenate([statistic(drawn(a), drawn(b)) for a, b in both])
    order = np.argsort(-same)
    bound = same[order][np.searchsorted(np.cumsum(weights[order]), false)]
    apart = [statistic(drawn(a) + random.choice(ratios, DRAWN)[:, None], drawn(b)) for a, b in both]
    return float(weights @ (np.concatenate(apart) <= bound))
