"""Doubts that only the samples show, beside the warnings that the records carry.

Every comparison that rests on such a run carries the doubt.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Key, Runs, Warnings, metrics_of, operations_of
from flashlab.analysis.ratios import Ratio, exceeds_margin, function_of, ratio
from flashlab.statistics import MIN_SAMPLES, Estimate, estimate_median

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


def _drifting(experiment: Runs) -> Iterator[tuple[Key, dict[str, str]]]:
    """The runs with a metric whose halves differ by more than the margin, and the warning on it.

    The warning of drift that the measuring gives compares the first third with the last, and may
    miss it.
    """
    names = sorted(metric.name for metric in metrics_of(experiment.benchmark, exact=False))
    for each, name in itertools.product(experiment.runs, names):
        if each.status == "ok" and each.has(name):
            warned = any(w["code"] == "drift" and w.get("metric") == name for w in each.warnings)
            samples = [record.metrics[name].samples for record in each.with_numbers]
            if not warned and any(map(_have_drifted, samples)):
                yield each.key, {"code": HALVES_DIFFER, "metric": name}


Point = tuple[float, Estimate]
"""The operations of a run, and the estimate of its time."""


def _rate_step(value: int, after: Point, before: Point) -> Ratio:
    """The rate at a value over that at another: operations over time."""
    work, times = after[0] / before[0], (after[1], before[1])
    return function_of(value, lambda time, time_before: work * time_before / time, times)


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


def _dipping(x: Runs, estimates: Estimates) -> Iterator[tuple[Key, dict[str, str]]]:
    """The runs whose rate jumps down from the size before and up to the one after; the warning.

    No other implementation's rate does.
    """
    if not x.is_ordered or x.is_simulated:
        return
    work = {each.key: operations_of(x.benchmark, each.run) for each in x.runs}
    timed = work[x.runs[0].key]
    for variant, metric in itertools.product(x.variants, timed):
        of = estimates.of(x.benchmark.metric(metric))
        runs = {name: x.along(name, variant) for name in sorted(x.implementations)}
        for sizes in zip(x.values, x.values[1:], x.values[2:], strict=False):
            steps = {}
            for name, along in runs.items():
                keys = [along[size].key for size in sizes if size in along]
                points = [(work[key][metric], of[key]) for key in keys if key in of]
                if len(points) == len(sizes):
                    pairs = itertools.pairwise(points)
                    steps[name] = [_rate_step(sizes[1], after, before) for before, after in pairs]
            for name, (down, up) in steps.items() if len(steps) > 1 else ():
                others = [both for other, both in steps.items() if other != name]
                if (
                    down.ratio < 1 < up.ratio
                    and jumps_alone(down, [other for other, _ in others])
                    and jumps_alone(up, [other for _, other in others])
                ):
                    warning = {"code": DIPS, "metric": metric, "experiment": x.name}
                    yield runs[name][sizes[1]].key, warning


def doubts(experiments: Sequence[Runs], estimates: Estimates) -> Warnings:
    """The warnings derived from samples, by the run's key.

    That the halves of its calls differ (``halves_differ``, once a metric), and that it is slower
    than the sizes on both sides leave room for (``dips``, in each experiment in which it is).
    """
    found: dict[Key, list[dict[str, str]]] = {}
    drifting = itertools.chain.from_iterable(map(_drifting, experiments))
    dipping = itertools.chain.from_iterable(_dipping(each, estimates) for each in experiments)
    for key, warning in itertools.chain(drifting, dipping):
        warnings = found.setdefault(key, [])
        warnings += [warning] if warning not in warnings else []
    return found
