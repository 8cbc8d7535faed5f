"""Records in doubt: unstable, or contradicted by their neighbours.

Doubts that only the samples show are put beside the warnings that the records carry.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flashlab import statistics
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, metrics_of, with_warnings
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, SWEEPS, Given, Kind
from flashlab.analysis.kinds.jump import jumps_alone, rate_step
from flashlab.analysis.kinds.scaling import bends
from flashlab.analysis.ratios import (
    Ratio,
    exceeds_margin,
    function_of,
    interval_json,
    ratio,
    rounded,
)
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.analysis.settings import timed_metrics
from flashlab.statistics import MIN_SAMPLES, Estimate, Floats
from flashlab.telling.values import Measured, say

OUTLIER_FACTOR = 1.25
"""Least factor between a record and the power law of its neighbours that makes it an outlier."""

DIPS = "dips"
"""The code of the warning on a run that is slower than the sizes on both sides leave room for."""

HALVES_DIFFER = "halves_differ"
"""The code of the warning on a metric of a run whose samples changed decidedly halfway."""


def _anomaly(
    series: Series,
    verdict: str,
    value: int,
    facts: Mapping[str, Any],
    found: Ratio,
    values: Sequence[int],
) -> Finding:
    """A finding on the run at `value`, from those at `values`."""
    estimate = {"value": value, **interval_json(found)}
    facts = {"value": value, **facts}
    return build_finding(
        "anomaly", [series], verdict, facts=facts, estimates=[estimate], values=values
    )


def _clean_checks(experiment: Experiment, check: str, checks: int, hits: int) -> Iterator[Finding]:
    """The checks that found nothing, with their number, beside which the hits are to be judged."""
    if checks > hits:
        yield Finding(
            "anomaly", experiment.name, {"check": check}, "none", facts={"checked": checks}
        )


def _drift_of_process(
    experiment: Experiment, row: Row, process: int, samples: Sequence[float], estimates: Estimates
) -> Ratio | None:
    """The second half of a process's samples over the first, None if within the margin."""
    middle = len(samples) // 2
    if middle < MIN_SAMPLES:
        return None
    halves = (samples[:middle], samples[-middle:])
    change = float(np.median(halves[1]) / np.median(halves[0]))
    if not exceeds_margin(max(change, 1 / change)):
        return None  # no interval around this lies beyond the margin, so resampling is pointless
    first, second = (
        estimates.of((*experiment.key_of(row), row["metric"], process, half), part)
        for half, part in zip(("first half", "second half"), halves, strict=True)
    )
    found = ratio(experiment.value_of(row), second, first)
    return found if found.verdict in ("above", "below") else None


def drift(experiment: Experiment, row: Row, estimates: Estimates) -> Ratio | None:
    """The second half of a row's samples over the first, None if within the margin.

    Of several processes that drifted, that of the one which did so most.
    """
    samples = experiment.samples_of(row)
    every = (
        _drift_of_process(experiment, row, i, each, estimates) for i, each in enumerate(samples)
    )
    drifts = [found for found in every if found]
    return max(drifts, key=lambda found: max(found.ratio, 1 / found.ratio), default=None)


def with_doubts(experiment: Experiment, estimates: Estimates) -> Experiment:
    """The sweep with a warning on each metric of a run whose halves differ by more than the margin.

    So every finding that rests on such a run carries the doubt. The warning of drift that the
    measuring gives compares the first third with the last, and may miss it.
    """
    warned = {
        (*experiment.key_of(run), warning.get("metric"))
        for run in experiment.runs
        for warning in run["warnings"] or ()
        if warning["code"] == "drift"
    }
    added: dict[Any, list[dict[str, str]]] = {}
    sampled = metrics_of(experiment.benchmark, exact=False)
    for series in each_series(experiment, sorted(sampled, key=lambda metric: metric.name)):
        for row in series.measured_rows:
            key, metric = experiment.key_of(row), series.metric.name
            if (*key, metric) not in warned and drift(experiment, row, estimates):
                added.setdefault(key, []).append({"code": HALVES_DIFFER, "metric": metric})
    return replace(experiment, runs=with_warnings(experiment.benchmark, experiment.runs, added))


Sign = tuple[Mapping[str, Any], Ratio]
"""Why a metric of a run is unstable: what is found, and the estimate."""


def _sign(experiment: Experiment, row: Row, estimates: Estimates) -> Sign | None:
    """A process drifted, or processes and calls differ, by more than the margin; else None."""
    if drifted := drift(experiment, row, estimates):
        return {"sign": "drift", "ratio": rounded(drifted.ratio)}, drifted
    value = experiment.value_of(row)
    interval = Ratio(value, row["value"], row["low"], row["high"], row["samples"])
    if interval.low is None or interval.high is None:
        return None
    half_width = rounded(100 * (interval.high - interval.low) / 2 / interval.ratio)
    if half_width <= 100 * statistics.MARGIN:
        return None
    return {"sign": "spread", "half_width": half_width}, interval


def _signs(series: Series, estimates: Estimates) -> dict[int, Sign | None]:
    """Why each run that has samples enough is unstable, None where it is not."""
    experiment = series.experiment
    return {
        experiment.value_of(row): _sign(experiment, row, estimates)
        for row in series.measured_rows
        if min(map(len, experiment.samples_of(row)), default=0) >= MIN_SAMPLES
    }


def unstable(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Runs that drifted by more than the margin, or whose median is not known to within it."""
    checks = hits = 0
    for series in each_series(experiment, metrics_of(experiment.benchmark, exact=False)):
        signs = _signs(series, given.estimates)
        checks += len(signs)
        for value, sign in signs.items():
            if sign:
                hits += 1
                yield _anomaly(series, "unstable", value, *sign, [value])
    yield from _clean_checks(experiment, "unstable", checks, hits)


def _deviation(sizes: Sequence[int], times: Sequence[Estimate], i: int) -> Ratio:
    """A time over that of the power law through its two neighbours."""
    weight = math.log(sizes[i + 1] / sizes[i]) / math.log(sizes[i + 1] / sizes[i - 1])

    def deviation(before: Floats, at: Floats, after: Floats) -> Floats:
        return at / (before**weight * after ** (1 - weight))

    return function_of(sizes[i], deviation, times[i - 1 : i + 2])


def _dips(experiment: Experiment, estimates: Estimates) -> Iterator[tuple[Series, int, list[int]]]:
    """Runs whose rate jumps down from the size before and up to the one after (`kinds.jump`).

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


def dips(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Runs that are slower than the sizes on both sides leave room for."""
    for series, size, beside in _dips(experiment, given.estimates):
        times = given.estimates.along(series)
        found = [ratio(size, times[size], times[other]) for other in beside]
        before, after = (rounded(each.ratio) for each in found)
        facts = {"value": size, "sign": DIPS, "ratio": before, "after": after, "beside": beside}
        told = quoted([series], value=size, before=beside[0], after=beside[1])
        told |= {"ratio": Measured(before), "after_ratio": Measured(after)}
        yield build_finding(
            "anomaly",
            [series],
            "outlier",
            statements=[say("anomaly.dips", **told)],
            facts=facts,
            estimates=[{"value": size, **interval_json(each)} for each in found],
            values=[size],
        )


def with_dips(experiments: Sequence[Experiment], estimates: Estimates) -> list[Experiment]:
    """The sweeps with a warning on each run that dips in any of them."""
    added: dict[Any, list[dict[str, str]]] = {}
    for experiment in experiments:
        if experiment.is_ordered and not experiment.is_simulated:
            for series, size, _ in _dips(experiment, estimates):
                run = experiment.run_at(series.implementation, series.variant, size)
                assert run is not None
                warning = {"code": DIPS, "metric": series.metric.name}
                warnings = added.setdefault(experiment.key_of(run), [])
                warnings += [warning] if warning not in warnings else []
    return [
        replace(each, runs=with_warnings(each.benchmark, each.runs, added)) for each in experiments
    ]


def _is_checked(
    i: int, sizes: Sequence[int], found: Sequence[Estimate], unstable_sizes: set[int]
) -> bool:
    """Whether those within two steps, at least three, are stable and follow one power."""
    others = [j for j in range(max(0, i - 2), min(len(sizes), i + 3)) if j != i]
    if len(others) < 3 or unstable_sizes & {sizes[j] for j in others}:
        return False
    return bends([sizes[j] for j in others], [found[j] for j in others]) == "straight"


def outliers(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Records that their neighbours, which agree with one another, contradict.

    A size between two others is checked where those within two steps of it, at least three of
    them, are stable and follow one power: a curve that bends of itself contradicts nothing.
    """
    checks = hits = 0
    for series in each_series(experiment, metrics_of(experiment.benchmark, exact=False)):
        by_size = given.estimates.along(series)
        sizes, found = list(by_size), list(by_size.values())
        unstable_sizes = {size for size, sign in _signs(series, given.estimates).items() if sign}
        for i in range(1, len(sizes) - 1):
            if not _is_checked(i, sizes, found, unstable_sizes):
                continue
            deviation = _deviation(sizes, found, i)
            if deviation.low is None or deviation.high is None:
                continue
            checks += 1
            low, high = rounded(deviation.low), rounded(deviation.high)
            if low > OUTLIER_FACTOR or high < 1 / OUTLIER_FACTOR:
                hits += 1
                facts, near = {"ratio": rounded(deviation.ratio)}, sizes[max(0, i - 2) : i + 3]
                yield _anomaly(series, "outlier", sizes[i], facts, deviation, near)
    yield from _clean_checks(experiment, "outlier", checks, hits)


ANOMALY = Kind(
    label="kind.anomaly",
    verdicts=("unstable", "outlier", "none"),
    of_experiment=[(EXPERIMENTS, unstable), (SWEEPS, outliers), (SWEEPS, dips)],
)
