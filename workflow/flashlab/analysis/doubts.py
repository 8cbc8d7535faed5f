"""Doubts that only the samples show, beside the warnings that the records carry.

Every comparison that rests on such a run carries the doubt.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.ratios import Ratio, exceeds_margin, function_of, ratio
from flashlab.analysis.series import Series, each_series
from flashlab.analysis.settings import operations, timed_metrics
from flashlab.statistics import MIN_SAMPLES, Estimate, Floats, estimate_median

LEAST_JUMP = 1.5
"""Least factor between neighbours that is a jump of the rate."""

DIPS = "dips"
"""The code of the warning on a run that is slower than the sizes on both sides leave room for."""

HALVES_DIFFER = "halves_differ"
"""The code of the warning on a metric of a run whose samples changed decidedly halfway."""


def _have_drifted(samples: Sequence[float]) -> bool:
    """True if the second half of a process's samples differs from the first by over the margin."""
    middle = len(samples) // 2
    if middle < MIN_SAMPLES:
        return False
    halves = samples[:middle], samples[-middle:]
    change = float(np.median(halves[1]) / np.median(halves[0]))
    if not exceeds_margin(max(change, 1 / change)):
        return False  # no interval around this lies beyond the margin
    first, second = map(estimate_median, halves)
    return ratio(0, second, first).verdict in ("above", "below")


def _drifting(
    experiment: Experiment, _: Estimates
) -> Iterator[tuple[tuple[Any, ...], dict[str, str]]]:
    """The runs with a metric whose halves differ by more than the margin, and the warning on it.

    The warning of drift that the measuring gives compares the first third with the last, and may
    miss it.
    """
    warned = {
        (*experiment.key_of(run), warning.get("metric"))
        for run in experiment.runs
        for warning in run["warnings"] or ()
        if warning["code"] == "drift"
    }
    sampled = metrics_of(experiment.benchmark, exact=False)
    for series in each_series(experiment, sorted(sampled, key=lambda metric: metric.name)):
        for row in series.measured_rows:
            key, metric = experiment.key_of(row), series.metric.name
            if (*key, metric) not in warned and any(map(_have_drifted, experiment.samples_of(row))):
                yield key, {"code": HALVES_DIFFER, "metric": metric}


def rate_step(series: Series, estimates: Mapping[int, Estimate], value: int, before: int) -> Ratio:
    """The rate at a value over that at another: operations over time, or the metric itself."""
    mine, theirs, metric = estimates[value], estimates[before], series.metric
    if metric.higher_is_better:
        return ratio(value, mine, theirs)
    runs = {series.experiment.value_of(run): run for run in series.runs}
    work = operations(metric, runs[value]) / operations(metric, runs[before])

    def quotient(time: Floats, time_before: Floats) -> Floats:
        return work * time_before / time

    return function_of(value, quotient, (mine, theirs))


def _bounds(step: Ratio) -> tuple[float, float]:
    """A step's interval, which without one excludes nothing."""
    return step.low or 0.0, step.high or math.inf


def jumps_alone(step: Ratio, others: Sequence[Ratio]) -> bool:
    """True if a step's whole interval is a jump, and that of none of the others is.

    It lies off theirs by more than the margin: else identical code on both sides of the factor of
    a jump would be told apart.
    """
    lows, highs = zip(*map(_bounds, others), strict=True)
    lowest, highest = min(lows), max(highs)
    if lowest < 1 / LEAST_JUMP or highest > LEAST_JUMP:
        return False
    low, high = _bounds(step)
    return (low > LEAST_JUMP and exceeds_margin(low / highest)) or (
        high < 1 / LEAST_JUMP and exceeds_margin(lowest / high)
    )


def _dips(experiment: Experiment, estimates: Estimates) -> Iterator[tuple[Series, int, list[int]]]:
    """Runs whose rate jumps down from the size before and up to the one after.

    Each with the two sizes beside it. No other implementation's rate does.
    """
    for variant, metric in itertools.product(
        experiment.variants, timed_metrics(experiment.benchmark)
    ):
        names = sorted(experiment.implementations)
        of = {name: Series(experiment, name, variant, metric) for name in names}
        along = {name: estimates.along(series) for name, series in of.items()}
        for i in range(1, len(experiment.values) - 1):
            sizes = experiment.values[i - 1 : i + 2]
            steps = {
                name: [
                    rate_step(of[name], found, after, before)
                    for before, after in itertools.pairwise(sizes)
                ]
                for name, found in along.items()
                if {*sizes} <= found.keys()
            }
            for name, (down, up) in steps.items() if len(steps) > 1 else ():
                others = [both for other, both in steps.items() if other != name]
                if (
                    down.ratio < 1 < up.ratio
                    and jumps_alone(down, [other for other, _ in others])
                    and jumps_alone(up, [other for _, other in others])
                ):
                    yield of[name], sizes[1], [sizes[0], sizes[2]]


def _dipping(
    experiment: Experiment, estimates: Estimates
) -> Iterator[tuple[tuple[Any, ...], dict[str, str]]]:
    """The runs that dip, and the warning on each."""
    if not experiment.is_ordered or experiment.is_simulated:
        return
    for series, size, _ in _dips(experiment, estimates):
        run = experiment.run_at(series.implementation, series.variant, size)
        assert run is not None
        warning = {"code": DIPS, "metric": series.metric.name, "experiment": experiment.name}
        yield experiment.key_of(run), warning


def doubts(
    experiments: Sequence[Experiment], estimates: Estimates
) -> dict[tuple[Any, ...], list[dict[str, str]]]:
    """The warnings derived from samples, by the run's key (`Experiment.key_of`).

    That the halves of its calls differ (``halves_differ``, once a metric), and that it is slower
    than the sizes on both sides leave room for (``dips``, in each experiment in which it is).
    """
    found: dict[tuple[Any, ...], list[dict[str, str]]] = {}
    for seek in (_drifting, _dipping):
        for experiment in experiments:
            for key, warning in seek(experiment, estimates):
                warnings = found.setdefault(key, [])
                warnings += [warning] if warning not in warnings else []
    return found
