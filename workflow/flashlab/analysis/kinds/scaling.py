"""How time and memory grow along a sweep: one exponent where it fits, else the local ones.

No exponent is given where another size varies along with the swept one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from flashlab.analysis.experiment import EXACT_DIGITS, Experiment
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.ratios import EVIDENCE_DIGITS, exceeds_margin, ratio, rounded
from flashlab.analysis.series import Series, build_finding, each_series, quoted, told_covaried
from flashlab.statistics import CONFIDENCE, Estimate, Floats, function_interval
from flashlab.telling.codes import by_code
from flashlab.telling.values import Listed, Measured, Number, Statement, say

MIN_SIZES = 4
MAX_BEND = 0.2
"""Largest difference of any two local exponents under which one exponent describes a sweep.

Of any two, not of neighbours: exponents that go from 0.3 to 0.8 in steps of 0.15 are no one power.
"""

FLAT = 0.1
"""Largest exponent, in size, that is called flat where the change is within the margin, too."""


MESSAGES = by_code(
    *("scaling.power_law", "scaling.curved", "scaling.flat", "scaling.imprecise"),
    *("scaling.covaried", "scaling.too_few_sizes"),
)


@dataclass(frozen=True)
class _Growth:
    """How a quantity grows; `local` are its local exponents, none where other sizes vary along."""

    verdict: str
    local: list[float]
    exponent: tuple[float, float, float] | None


def local_exponents(sizes: Sequence[int], medians: Sequence[float]) -> list[float]:
    """log(y₂/y₁) / log(x₂/x₁) between neighbours."""
    return [
        math.log(y2 / y1) / math.log(x2 / x1)
        for (x1, x2), (y1, y2) in zip(
            itertools.pairwise(sizes), itertools.pairwise(medians), strict=True
        )
    ]


def _bend(one: float, other: float, *times: Floats) -> Floats:
    """The difference of two local exponents, from the times at both steps' ends.

    By the logs of the sizes' ratios of the two steps. Steps that meet share a time.
    """
    first, second = np.log(times[1] / times[0]), np.log(times[-1] / times[-2])
    difference: Floats = second / other - first / one
    return difference


def bends(sizes: Sequence[int], estimates: Sequence[Estimate], exact: bool = False) -> str:
    """Whether any two local exponents differ by more than `MAX_BEND`.

    ``straight``, ``bent``, or ``unknown`` where an interval reaches across the limit or is missing.
    """
    local = local_exponents(sizes, [estimate.median for estimate in estimates])
    verdict = "straight"
    for i, j in itertools.combinations(range(len(local)), 2):
        if exact:
            low = high = local[j] - local[i]
        else:
            one, other = (math.log(sizes[k + 1] / sizes[k]) for k in (i, j))
            at = sorted({i, i + 1, j, j + 1})
            interval = function_interval(partial(_bend, one, other), [estimates[k] for k in at])
            if interval is None:
                return "unknown"
            low, high = interval
        if low > MAX_BEND or high < -MAX_BEND:
            return "bent"
        if low < -MAX_BEND or high > MAX_BEND:
            verdict = "unknown"
    return verdict


def _fit(sizes: Sequence[int], medians: Sequence[float]) -> tuple[float, float, float]:
    """Exponent with its 95% t interval: least squares on the logs of the per-size medians."""
    if len(set(medians)) == 1:
        return 0.0, 0.0, 0.0
    (slope, _), covariance = np.polyfit(
        np.log(np.asarray(sizes, dtype=float)), np.log(medians), 1, cov=True
    )
    quantile = scipy.special.stdtrit(len(sizes) - 2, (1 + CONFIDENCE) / 2)
    reach = float(quantile * np.sqrt(covariance[0, 0]))
    return float(slope), float(slope) - reach, float(slope) + reach


def _is_level(estimates: Sequence[Estimate], exact: bool) -> bool:
    """Whether the highest is within the margin of the lowest, interval included."""
    highest, lowest = (choose(estimates, key=lambda found: found.median) for choose in (max, min))
    if exact or highest is lowest:
        return not exceeds_margin(highest.median / lowest.median)
    return ratio(0, highest, lowest).verdict == "equal"


def _growth(by_size: Mapping[int, Estimate], exact: bool, varies_alone: bool) -> _Growth:
    if not varies_alone and len(by_size) > 1:
        return _Growth("covaried", [], None)
    sizes, estimates = list(by_size), list(by_size.values())
    medians = [estimate.median for estimate in estimates]
    local = [round(value, 2) for value in local_exponents(sizes, medians)]
    if len(sizes) < MIN_SIZES:
        return _Growth("too_few_sizes", local, None)
    if (shape := bends(sizes, estimates, exact)) != "straight":
        return _Growth({"bent": "curved", "unknown": "imprecise"}[shape], local, None)
    fitted = _, low, high = _fit(sizes, medians)
    if round(low, 2) >= -FLAT and round(high, 2) <= FLAT and _is_level(estimates, exact):
        return _Growth("flat", local, fitted)
    if exact and high - low > MAX_BEND:
        return _Growth("curved", local, None)
    return _Growth("imprecise" if high - low > 2 * MAX_BEND else "power_law", local, fitted)


def _to_places(exponent: float, places: int) -> float:
    """An exponent to places, not digits: those of zero, and its sign, are the machine's noise."""
    return round(exponent, places) + 0.0


def _key(growth: _Growth, sizes: Sequence[int], times: float | None) -> str:
    """The message that tells how a quantity grows."""
    if len(sizes) < 2:
        return "scaling.too_few_sizes.one" if sizes else "scaling.too_few_sizes.missing"
    if growth.verdict == "power_law" and growth.exponent:
        exponent, low, high = (_to_places(each, 2) for each in growth.exponent)
        if low == high:
            return "scaling.power_law.proportional" if exponent == 1 else "scaling.power_law.exact"
    if growth.verdict == "flat" and times == 1:
        return "scaling.flat.same"
    return MESSAGES[growth.verdict]


def _told(
    series: Series, growth: _Growth, by_size: Mapping[int, Estimate]
) -> tuple[list[Statement], dict[str, Any]]:
    """How a quantity grows, and what else varies along the sweep; the same as facts."""
    sizes, facts = list(by_size), dict[str, Any](local=growth.local)
    values = quoted([series], count=len(sizes))
    if sizes:
        values |= {"first": sizes[0], "last": sizes[-1]}
    if len(sizes) > 1:
        medians = [found.median for found in by_size.values()]
        facts["times"] = rounded(medians[-1] / medians[0])
        steps = [Measured(rounded(b / a)) for a, b in itertools.pairwise(medians)]
        values |= {
            "times": Measured(facts["times"]),
            "times_size": Number(rounded(sizes[-1] / sizes[0])),
            "steps": Listed(steps),
            "local": Listed([Measured(each, 2) for each in growth.local]),
        }
    if growth.exponent:
        ends = [_to_places(each, 2) for each in growth.exponent]
        facts["exponent"] = ends[0]
        names = ("exponent", "exponent_low", "exponent_high")
        values |= {name: Measured(end, 2) for name, end in zip(names, ends, strict=True)}
    told = say(_key(growth, sizes, facts.get("times")), **values)
    return [told, *told_covaried(series.experiment)], facts


def _estimates(
    growth: _Growth, by_size: Mapping[int, Estimate], exact: bool
) -> list[dict[str, Any]]:
    """The medians by size, and the exponent where one describes them."""
    digits = EXACT_DIGITS if exact else EVIDENCE_DIGITS
    medians: list[dict[str, Any]] = [
        {"value": size, "estimate": rounded(found.median, digits), "n": found.count}
        for size, found in by_size.items()
    ]
    if growth.exponent is None:
        return medians
    estimate, low, high = (_to_places(value, EVIDENCE_DIGITS) for value in growth.exponent)
    return [*medians, {"exponent": estimate, "low": low, "high": high}]


def scalings(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """How each metric grows along the sweep, for each implementation and variant."""
    if len(experiment.values) < 2:
        return
    for series in each_series(experiment, experiment.benchmark.compared):
        by_size, exact = given.estimates.along(series), series.metric.exact
        growth = _growth(by_size, exact, varies_alone=not experiment.covaried)
        statements, facts = _told(series, growth, by_size)
        decided = exact or growth.verdict == "covaried"
        imprecise = not decided and any(found.quantiles is None for found in by_size.values())
        yield build_finding(
            "scaling",
            [series],
            growth.verdict,
            statements=statements,
            facts=facts,
            estimates=_estimates(growth, by_size, exact),
            reasons=[Reason("no_samples")] if imprecise else [],
        )


SCALING = Kind(
    label="kind.scaling",
    verdicts=tuple(MESSAGES),
    of_experiment=[(SWEEPS, scalings)],
    told="in full",
)
