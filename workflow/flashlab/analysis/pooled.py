"""A ratio of two implementations over several settings together.

Where single settings are undecided, as on a machine of other people's work too, their mean often is
decided: what disturbs a process at one setting is not there at the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import scipy.special

from flashlab.analysis.pairing import Processes
from flashlab.analysis.ratios import Ratio
from flashlab.analysis.replication import MIN_PROCESSES, UNREPLICATED, scatters_more
from flashlab.statistics import CONFIDENCE, Estimate, Floats, function_estimate, interval_of

MIN_SETTINGS = 2
"""Fewest settings that are more than a single one."""


class PooledRatio(Ratio):
    """The geometric mean of a ratio over settings; `value` is how many of them there are."""


def _half_width(error: float, freedom: float) -> float:
    """Half of an interval by Student's t, from a standard error and its degrees of freedom."""
    return error * float(scipy.special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _within_settings(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by how much the processes differ within each setting.

    The standard error is that of a mean of independent settings, its degrees of freedom by Welch
    and Satterthwaite.
    """
    variances = np.array([float(np.var(each, ddof=1)) / len(each) for each in logs])
    total = float(variances.sum())
    if not total:
        return 0.0
    weights = [1 / (len(each) - 1) for each in logs]
    freedom = total**2 / float(variances**2 @ weights)
    return _half_width(math.sqrt(total) / len(logs), freedom)


def _between_rounds(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by how much it differs from round to round.

    A round is the processes of one number at all settings, measured one after the other. What too
    few rounds have in common, no spread tells: the assumed one of both sides' processes stands in.
    """
    rounds = min(map(len, logs))
    if rounds < MIN_PROCESSES:
        assumed = UNREPLICATED.deviation * math.sqrt(2 / rounds)
        return _half_width(assumed, UNREPLICATED.freedom)
    means = np.mean([each[:rounds] for each in logs], axis=0)
    return _half_width(float(np.std(means, ddof=1)) / math.sqrt(rounds), rounds - 1)


def _between_processes(logs: Sequence[Floats]) -> float:
    """Half of the mean's interval by its processes: by rounds, and by those within each setting.

    At a setting where they scatter more than at the others all but one may have been disturbed. So
    there the interval leaves none out.
    """
    usual, others = list[Floats](), list[Floats]()
    for each, is_greater in zip(logs, scatters_more(logs), strict=True):
        (others if is_greater else usual).append(each)
    half = max(_between_rounds(usual), _within_settings(usual)) * len(usual)
    farthest = (float(np.abs(each - each.mean()).max()) for each in others)
    return (half + math.fsum(farthest)) / len(logs)


def _mean_log_ratio(*medians: Floats) -> Floats:
    """The geometric mean of ratios, of which the numerators come first."""
    half = len(medians) // 2
    logs = [np.log(median) for median in medians]
    mean: Floats = np.exp((sum(logs[:half]) - sum(logs[half:])) / half)
    return mean


def _within_processes(ones: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """The half-width of the log mean's interval by the calls within processes; 0 without one."""
    found = function_estimate(_mean_log_ratio, [*ones, *others])
    ends = interval_of(found)
    return max(abs(math.log(end / found.median)) for end in ends) if ends else 0.0


def pooled_ratio(
    numerators: Sequence[Processes], denominators: Sequence[Processes]
) -> PooledRatio | None:
    """The geometric mean over settings of the ratio of two implementations, process by process.

    Its 95% interval is the widest of three: by Student's t over rounds, which has few degrees of
    freedom and is narrow by chance at times, or of fewer than three by the assumed spread; by the
    spread between the processes of single settings, which does not see what a whole round has in
    common; and by the calls within each process, than which no interval is narrower. Of
    a setting whose processes scatter more than at others it leaves none out.

    Args:
        numerators: the processes of the one implementation at each setting, in their order.
        denominators: those of the other one at the same settings.

    Returns:
        None for fewer than `MIN_SETTINGS`, or where one was measured in a single process.
    """
    pairs = [
        list(zip(one.estimates, other.estimates, strict=False))  # those of one number
        for one, other in zip(numerators, denominators, strict=True)
    ]
    if len(pairs) < MIN_SETTINGS or min(map(len, pairs)) < 2:
        return None
    logs = [np.log([a.median / b.median for a, b in each]) for each in pairs]
    centre = float(np.mean([each.mean() for each in logs]))
    ones, others = zip(*itertools.chain.from_iterable(pairs), strict=True)
    half = max(_between_processes(logs), _within_processes(ones, others))
    samples = min(estimate.count for estimate in (*ones, *others))
    ends = math.exp(centre - half), math.exp(centre + half)
    return PooledRatio(len(logs), math.exp(centre), *ends, samples, pairs=min(map(len, logs)))
