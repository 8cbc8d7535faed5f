"""The times at which a bench computes a ratio, and the intervals that repeated looks require.

Testing the same data repeatedly raises the rate of false alarms. So the looks are planned, one at
the end of each process, and the error of 5% is divided among them: the alpha spending of Lan and
DeMets (Biometrika 70, 1983), in the form that holds however the looks depend on one another
(Bonferroni). The interval at each look is a repeated confidence interval (Jennison and Turnbull,
Journal of the Royal Statistical Society B 51, 1989): with 95% confidence, all of them hold at once.
`docs/comparing.md` says how often the verdicts are right on planted data.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flashlab.analysis.ratios import verdict_of
from flashlab.analysis.replication import Spread, combine_processes, combine_with_spread
from flashlab.statistics import CONFIDENCE, MIN_SAMPLES, estimate_median, interval_of

Batches = list[list[float]]
"""The batches of a process in order of time, each the times of its calls in seconds."""

PROCESSES = 4
"""The processes of each implementation: the first, and three restarts."""

FIRST_SHARE = 1 / 16
"""Share of the time for which the first process is measured, so that there is soon a verdict; the
others share the rest equally."""

PROVISIONAL_ERROR = 0.002
"""The error of each look before the last."""

ASSUMED_SPREAD = Spread(deviation=0.01, freedom=1e6)
"""The standard deviation between processes of the logarithm of a ratio, assumed while too few were
measured to estimate it; what several differ by counts where it is more. On an H200, processes of
one implementation differed by 0.02 to 1.4%."""


def error_after(processes: int) -> float:
    """The error that the look after so many processes may spend: 5% together, most of it last."""
    is_last = processes == PROCESSES
    return 1 - CONFIDENCE - (PROCESSES - 1) * PROVISIONAL_ERROR if is_last else PROVISIONAL_ERROR


def pair_ratios(ones: Sequence[Batches], others: Sequence[Batches]) -> list[list[float]]:
    """The ratios of neighbouring batches' medians, of each process, in order of time."""
    medians = ([[*map(statistics.median, of)] for of in side] for side in (ones, others))
    both = zip(*medians, strict=False)
    return [[one / other for one, other in zip(*each, strict=False)] for each in both]


def look_at(processes: Sequence[Sequence[float]], margin: float | None = None) -> dict[str, Any]:
    """What the ratios of neighbouring batches' times say, by process, in their order.

    It is the ``ratio`` with the ends of its interval, its ``verdict`` by a margin, and whether that
    is ``final``; nothing while there are too few batches. Within a process the interval allows for
    ratios that depend on one another (`statistics`); between processes it is Student's t once all
    have been measured (`replication`), and before that it is computed from `ASSUMED_SPREAD`.
    """
    if not processes or any(len(ratios) < MIN_SAMPLES for ratios in processes):
        return {}
    estimates, is_final = [estimate_median(of) for of in processes], len(processes) == PROCESSES
    (combined,) = combine_processes([estimates])
    estimate = combined.estimate
    if not is_final:
        deviation = combined.spread.deviation if combined.spread else 0.0
        spread = replace(ASSUMED_SPREAD, deviation=max(deviation, ASSUMED_SPREAD.deviation))
        estimate = combine_with_spread(estimates, spread)
    low, high = interval_of(estimate, error_after(len(processes))) or (None, None)
    found = verdict_of(low, high, margin)
    verdict = {"above": "slower", "below": "faster"}.get(found, found)
    return {"ratio": [estimate.median, low, high], "verdict": verdict, "final": is_final}
