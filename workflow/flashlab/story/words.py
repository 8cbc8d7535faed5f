"""The closed words of a story: how a lead, a time or a memory changes along a sweep.

Each is decided by intervals, not by medians alone; the margin is that of all verdicts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from flashlab import statistics
from flashlab.story.tables import FASTER, SLOWER, Speed

NOT_DECIDED = "not decided"

LONG = 4096
"""The sequence length from which a sequence is called long."""


def margins(count: int) -> float:
    """The factor of so many margins: a ratio of two ratios has the margins of both."""
    return float((1 + statistics.MARGIN) ** count)


def lead(speeds: Mapping[int, Speed]) -> str:
    """The word for the change of one implementation's lead over another along a sweep.

    ``turns``: it is decidedly faster at one value and slower at another; ``widening`` or
    ``narrowing``: some interval lies beyond that of an earlier value by more than two margins, in
    one direction alone; ``peaks`` or ``dips``: in both, and the largest or the smallest is inside;
    ``constant``: all intervals together are no wider than three margins; else ``not decided``.
    """
    ordered = [speeds[value] for value in sorted(speeds)]
    verdicts = {speed.verdict for speed in ordered}
    if {FASTER, SLOWER} <= verdicts:
        return "turns"
    known = [(speed.low, speed.high) for speed in ordered]
    ends = [(low, high) for low, high in known if low is not None and high is not None]
    if len(ends) < len(ordered) or len(ordered) < 2:
        return NOT_DECIDED
    pairs = list(itertools.combinations(ends, 2))
    rises = any(later[0] > before[1] * margins(2) for before, later in pairs)
    falls = any(later[1] * margins(2) < before[0] for before, later in pairs)
    if rises and falls:
        estimates = [speed.x for speed in ordered]
        inside = range(1, len(estimates) - 1)
        if estimates.index(max(estimates)) in inside:
            return "peaks"
        return "dips" if estimates.index(min(estimates)) in inside else NOT_DECIDED
    if rises or falls:
        return "widening" if rises else "narrowing"
    lows, highs = zip(*ends, strict=True)
    return "constant" if max(highs) / min(lows) <= margins(3) else NOT_DECIDED


def growth(grown: Speed | None, operations: float) -> str:
    """The word for a time's growth beside the operations', by its interval; else not decided.

    By the ratio s of the logarithms of both factors: ``as operations`` (0.9 to 1.1), ``near``
    (from 0.8), ``below`` (under 1), ``above`` (over 1); ``alone`` where the operations do not grow.
    """
    if math.isclose(operations, 1.0, rel_tol=1e-9):
        return "alone"
    if grown is None or grown.low is None or grown.high is None or grown.is_odd:
        return NOT_DECIDED
    least, most = sorted(-math.log(x) / math.log(operations) for x in (grown.low, grown.high))
    if least >= 0.8 and most <= 1.1:
        return "as operations" if least >= 0.9 else "near"
    return "below" if most < 1 else "above" if least > 1 else NOT_DECIDED


def memory_growth(values: Sequence[int], sizes: Sequence[float]) -> str:
    """The word for the change of an exact size along a sweep.

    ``constant`` (within 2%), ``proportional`` (the factor of the sweep, to 1%), ``adds`` (the same
    for each unit, to the byte of MiB), ``quadratic`` (three values, and the last step is nearer to
    the square of the sweep's than to that, and more than the step before), else ``other``.
    """
    factor, sweep = sizes[-1] / sizes[0], values[-1] / values[0]
    if max(sizes) / min(sizes) < 1.02:
        return "constant"
    if abs(factor / sweep - 1) <= 0.01:
        return "proportional"
    steps = [
        (after - before) / (later - earlier)
        for (earlier, later), (before, after) in zip(
            itertools.pairwise(values), itertools.pairwise(sizes), strict=True
        )
    ]
    if max(steps) - min(steps) <= 1e-6 * max(map(abs, steps)):
        return "adds"
    ratios = [after / before for before, after in itertools.pairwise(sizes)]
    last = values[-1] / values[-2]
    rising = len(values) >= 3 and ratios[-1] > ratios[-2] and ratios[-1] > last**1.5
    return "quadratic" if rising else "other"
