"""The times at which a bench computes a ratio, and the intervals that repeated looks require.

Testing the same data repeatedly raises the rate of false alarms. So the looks are planned, at fixed
times, and the error of 5% is divided among them: the alpha spending of Lan and DeMets (Biometrika
70, 1983), in the form that holds however the looks depend on one another (Bonferroni). The interval
at each look is a repeated confidence interval (Jennison and Turnbull, Journal of the Royal
Statistical Society B 51, 1989): with 95% confidence, all of them hold at once. `docs/comparing.md`
says how often the verdicts are right on planted data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashlab.analysis.ratios import verdict_of
from flashlab.analysis.replication import (
    Spread,
    combine_processes,
    combine_with_spread,
)
from flashlab.benchmarks.model import Metric
from flashlab.compare.words import verdict_word
from flashlab.statistics import MIN_SAMPLES, estimate_median, interval_of

PROCESSES = 4
"""The processes of each implementation: the first, and three restarts."""

FIRST_SHARE, LOOK_IN_FIRST = 1 / 8, 0.5
"""Share of the time for which the first process is measured, so that there is soon a verdict (the
others share the rest equally), and share of that after which the first look is taken; the others
are at the end of each process."""

PROVISIONAL_ERROR, FINAL_ERROR = 0.002, 0.042
"""The error of each of the four looks before the last, and of the last: 5% together."""

ASSUMED_SPREAD = Spread(deviation=0.01, freedom=1e6)
"""The standard deviation between processes of the logarithm of a ratio, assumed while too few were
measured to estimate it; what several differ by counts where it is more. On an H200, processes of
one implementation differed by 0.02 to 1.4%."""

MIN_PAIRS = MIN_SAMPLES
"""Fewest batches of an implementation in a process, whatever the time spent."""


@dataclass(frozen=True)
class Look:
    """The ratio of times to the first implementation's at a look, after so many processes.

    A verdict by fewer processes than all is provisional.
    """

    ratio: float
    low: float | None
    high: float | None
    processes: int

    def verdict(self, metric: Metric, margin: float | None = None) -> str:
        """The verdict on the implementation's time by its interval (`ratios.verdict_of`)."""
        return verdict_word(verdict_of(self.low, self.high, margin), metric)

    @property
    def is_final(self) -> bool:
        """True for the last look."""
        return self.processes == PROCESSES


def look_at(processes: Sequence[Sequence[float]]) -> Look | None:
    """The ratio from those of neighbouring batches; None while there are too few.

    Batches that follow one another share the state of the clock. Within a process the interval
    allows for ratios that depend on one another (`statistics`); between processes it is Student's t
    once all have been measured (`replication`), and before that it is computed from
    `ASSUMED_SPREAD`. `processes` are the ratios of each so far, in order of time.
    """
    if any(len(ratios) < MIN_PAIRS for ratios in processes):
        return None
    estimates = [estimate_median(ratios) for ratios in processes]
    (combined,) = combine_processes([estimates])
    estimate, error = combined.estimate, FINAL_ERROR
    if len(processes) < PROCESSES:
        deviation = combined.spread.deviation if combined.spread else 0.0
        spread = replace(ASSUMED_SPREAD, deviation=max(deviation, ASSUMED_SPREAD.deviation))
        estimate, error = combine_with_spread(estimates, spread), PROVISIONAL_ERROR
    low, high = interval_of(estimate, error) or (None, None)
    return Look(estimate.median, low, high, len(processes))
