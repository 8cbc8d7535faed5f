"""How time and memory grow along a sweep: one exponent where it fits, else the local ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from statsmodels.regression.linear_model import OLS

from flashlab.findings.model import (
    BOOTSTRAP,
    EVIDENCE_DIGITS,
    TIMED_PASSES,
    Finding,
    Sweep,
    mask_name,
    rounded,
)
from flashlab.statistics import CONFIDENCE, Estimate, Floats, function_interval

MIN_SIZES = 4
MAX_BEND = 0.2
"""Largest difference of any two local exponents under which one exponent describes a sweep.

Of any two, not of neighbours: exponents that go from 0.3 to 0.8 in steps of 0.15 are no one power.
"""

FLAT = 0.1
"""Largest exponent, in size, that is called flat."""


@dataclass(frozen=True)
class _Growth:
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


def _bend_interval(
    ends: tuple[float, float], estimates: Sequence[Estimate]
) -> tuple[float, float] | None:
    """Interval of the difference of two local exponents, from the times at both steps' ends.

    `ends` are the logs of the sizes' ratios of the two steps. Steps that meet share a time.
    """

    def bend(*times: Floats) -> Floats:
        start, stop, other_start, other_stop = times[0], times[1], times[-2], times[-1]
        difference: Floats = (
            np.log(other_stop / other_start) / ends[1] - np.log(stop / start) / ends[0]
        )
        return difference

    return function_interval(bend, estimates)


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
            ends = (math.log(sizes[i + 1] / sizes[i]), math.log(sizes[j + 1] / sizes[j]))
            at = sorted({i, i + 1, j, j + 1})
            interval = _bend_interval(ends, [estimates[k] for k in at])
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
    x = np.log(np.asarray(sizes, dtype=float))
    fitted = OLS(np.log(medians), np.column_stack([np.ones_like(x), x])).fit()
    low, high = fitted.conf_int(1 - CONFIDENCE)[1]
    return float(fitted.params[1]), float(low), float(high)


def _growth(by_size: Mapping[int, Estimate], exact: bool) -> _Growth:
    sizes, estimates = list(by_size), list(by_size.values())
    medians = [estimate.median for estimate in estimates]
    local = [round(value, 2) for value in local_exponents(sizes, medians)]
    if len(sizes) < MIN_SIZES:
        return _Growth("too_few_sizes", local, None)
    shape = bends(sizes, estimates, exact)
    if shape == "bent":
        return _Growth("curved", local, None)
    if shape == "unknown":
        return _Growth("imprecise", local, None)
    found = _, low, high = _fit(sizes, medians)
    if round(low, 2) >= -FLAT and round(high, 2) <= FLAT:
        return _Growth("flat", local, found)
    if exact and high - low > MAX_BEND:
        return _Growth("curved", local, None)
    if high - low > 2 * MAX_BEND:
        return _Growth("imprecise", local, found)
    return _Growth("power_law", local, found)


def _to_places(exponent: float, places: int) -> float:
    """An exponent to places, not digits: those of zero, and its sign, are the machine's noise."""
    return round(exponent, places) + 0.0


def _finding(
    sweep: Sweep,
    subject: dict[str, str],
    by_size: Mapping[int, Estimate],
    evidence: dict[str, Any],
    exact: bool,
) -> Finding:
    growth = _growth(by_size, exact)
    sizes = list(by_size)
    params: dict[str, Any] = {"count": len(sizes), "covaried": sweep.covaried}
    if sizes:
        params |= {"first": sizes[0], "last": sizes[-1]}
    if len(sizes) > 1:
        params |= {
            "local": growth.local,
            "times": rounded(by_size[sizes[-1]].median / by_size[sizes[0]].median),
            "times_size": rounded(sizes[-1] / sizes[0]),
        }
    if growth.exponent:
        estimate, low, high = growth.exponent
        params |= {
            "exponent": _to_places(estimate, 2),
            "exponent_low": _to_places(low, 2),
            "exponent_high": _to_places(high, 2),
        }
    name, masks = subject["implementation"], [subject["mask"] == "causal"]
    reasons = sweep.excluded([name], masks)
    if not exact and any(estimate.resampled is None for estimate in by_size.values()):
        reasons.append("no_samples")
    return Finding(
        kind="scaling",
        experiment=sweep.name,
        device=sweep.device,
        subject=subject,
        verdict=growth.verdict,
        params=params,
        evidence={
            **evidence,
            "method": "least squares on logs of per-size medians, 95% t interval; bends of the "
            "local exponents " + ("exact" if exact else f"by {BOOTSTRAP}"),
            "n": len(sizes),
            "estimates": [
                {
                    "value": size,
                    "estimate": rounded(found.median, EVIDENCE_DIGITS),
                    "n": found.count,
                }
                for size, found in by_size.items()
            ]
            + [
                {
                    "exponent": _to_places(estimate, EVIDENCE_DIGITS),
                    "low": _to_places(low, EVIDENCE_DIGITS),
                    "high": _to_places(high, EVIDENCE_DIGITS),
                }
                for estimate, low, high in ([growth.exponent] if growth.exponent else [])
            ],
        },
        reasons=reasons,
        warnings=[] if exact else sweep.warnings([name], masks, subject["quantity"]),
    )


def scalings(sweep: Sweep) -> Iterator[Finding]:
    """Growth of both passes' time and of peak memory, for each implementation and mask."""
    if len(sweep.values) < 2:
        return
    for name, causal in itertools.product(sweep.implementations, sweep.masks):
        subject = {"implementation": name, "mask": mask_name(causal)}
        rows = {"implementation": [name], "causal": causal}
        for timed in TIMED_PASSES:
            yield _finding(
                sweep,
                {**subject, "quantity": timed},
                sweep.times(name, causal, timed),
                {"table": f"tables/{sweep.name}/samples.csv", "rows": {**rows, "pass": timed}},
                exact=False,
            )
        yield _finding(
            sweep,
            {**subject, "quantity": "memory"},
            {
                value: Estimate(row["peak_memory_MiB"], 1, None)
                for value, row in sweep.peaks(name, causal).items()
            },
            {"table": f"tables/{sweep.name}/runs.csv", "rows": rows},
            exact=True,
        )
