"""How time and memory grow along a sweep: one exponent where one holds, else how it runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from statsmodels.regression.linear_model import OLS

from flashlab.findings.model import TIMED_PASSES, Finding, Sweep, rounded
from flashlab.statistics import CONFIDENCE, MIN_SAMPLES, bootstrap_interval

MIN_SIZES = 4
MAX_BEND = 0.2
"""Largest difference of adjacent local exponents under which one exponent describes a sweep."""

FLAT = 0.1
"""Largest exponent, in size, that is called flat."""


@dataclass(frozen=True)
class _Growth:
    verdict: str
    local: list[float]
    exponent: tuple[float, float, float] | None


def _local_exponents(sizes: Sequence[int], medians: Sequence[float]) -> list[float]:
    """log(y₂/y₁) / log(x₂/x₁) between neighbours."""
    return [
        math.log(y2 / y1) / math.log(x2 / x1)
        for (x1, x2), (y1, y2) in zip(
            itertools.pairwise(sizes), itertools.pairwise(medians), strict=True
        )
    ]


def _bend_interval(
    sizes: Sequence[int], samples: Sequence[Sequence[float]]
) -> tuple[float, float] | None:
    """Interval of the difference of two adjacent local exponents, from three sizes' samples."""
    first, second = (math.log(b / a) for a, b in itertools.pairwise(sizes))

    def bend(*resampled: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
        a, b, c = (np.log(np.median(sample, axis=axis)) for sample in resampled)
        difference: npt.NDArray[np.float64] = (c - b) / second - (b - a) / first
        return difference

    return bootstrap_interval(bend, samples)


def _bends(sizes: Sequence[int], samples: Sequence[Sequence[float]], exact: bool) -> str:
    """``straight``, ``bent``, or ``unknown`` where an interval reaches across the limit."""
    medians = [float(np.median(sample)) for sample in samples]
    local = _local_exponents(sizes, medians)
    verdict = "straight"
    for i in range(len(local) - 1):
        if exact:
            low = high = local[i + 1] - local[i]
        else:
            interval = _bend_interval(sizes[i : i + 3], samples[i : i + 3])
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


def _growth(by_size: Mapping[int, Sequence[float]], exact: bool) -> _Growth:
    sizes, samples = list(by_size), list(by_size.values())
    medians = [float(np.median(sample)) for sample in samples]
    local = [rounded(value, 2) for value in _local_exponents(sizes, medians)]
    if len(sizes) < MIN_SIZES:
        return _Growth("too_few_sizes", local, None)
    shape = _bends(sizes, samples, exact)
    if shape == "bent":
        return _Growth("curved", local, None)
    if shape == "unknown":
        return _Growth("imprecise", local, None)
    estimate, low, high = _fit(sizes, medians)
    if low >= -FLAT and high <= FLAT:
        return _Growth("flat", local, (estimate, low, high))
    if high - low > 2 * MAX_BEND:
        return (
            _Growth("curved", local, None)
            if exact
            else _Growth("imprecise", local, (estimate, low, high))
        )
    return _Growth("power_law", local, (estimate, low, high))


def _finding(
    sweep: Sweep,
    subject: dict[str, str],
    by_size: Mapping[int, Sequence[float]],
    evidence: dict[str, Any],
    exact: bool,
) -> Finding:
    growth = _growth(by_size, exact)
    sizes = list(by_size)
    params: dict[str, Any] = {
        "first": sizes[0],
        "last": sizes[-1],
        "count": len(sizes),
        "local_first": growth.local[0] if growth.local else None,
        "local_last": growth.local[-1] if growth.local else None,
        "times": rounded(float(np.median(by_size[sizes[-1]]) / np.median(by_size[sizes[0]]))),
        "times_size": rounded(sizes[-1] / sizes[0]),
    }
    if growth.exponent:
        estimate, low, high = growth.exponent
        params |= {
            "exponent": round(estimate, 2),
            "exponent_low": round(low, 2),
            "exponent_high": round(high, 2),
        }
    name = subject["implementation"]
    reasons = sweep.excluded([name])
    if not exact and any(len(sample) < MIN_SAMPLES for sample in by_size.values()):
        reasons.append("no_samples")
    return Finding(
        kind="scaling",
        experiment=sweep.name,
        subject=subject,
        verdict=growth.verdict,
        params=params,
        evidence={
            **evidence,
            "method": "least squares on logs of per-size medians, 95% t interval; local exponents "
            + ("exact" if exact else "by 95% percentile bootstrap, 999 resamples"),
            "n": len(sizes),
            "estimates": [
                {"value": size, "estimate": rounded(float(np.median(sample)), 9)}
                for size, sample in by_size.items()
            ],
        },
        reasons=reasons,
        warnings=[]
        if exact
        else sweep.warnings([name], [subject["mask"] == "causal"], subject["quantity"]),
    )


def scalings(sweep: Sweep) -> Iterator[Finding]:
    """Growth of both passes' time and of peak memory, for each implementation and mask."""
    for name in sweep.implementations:
        for causal in sweep.masks:
            mask = "causal" if causal else "full"
            for timed in TIMED_PASSES:
                times = sweep.times(name, causal, timed)
                if len(times) > 1:
                    yield _finding(
                        sweep,
                        {"implementation": name, "mask": mask, "quantity": timed},
                        times,
                        {
                            "table": f"tables/{sweep.name}/samples.csv",
                            "rows": {"implementation": [name], "causal": causal, "pass": timed},
                        },
                        exact=False,
                    )
            peaks = {
                row[sweep.parameter]: [row["peak_memory_MiB"]]
                for row in sweep.run_rows(name, causal)
                if row["status"] == "ok"
            }
            if len(peaks) > 1:
                yield _finding(
                    sweep,
                    {"implementation": name, "mask": mask, "quantity": "memory"},
                    peaks,
                    {
                        "table": f"tables/{sweep.name}/runs.csv",
                        "rows": {"implementation": [name], "causal": causal},
                    },
                    exact=True,
                )
