"""Records in doubt: unstable, or contradicted by their neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab.findings.model import (
    BOOTSTRAP,
    MARGIN,
    TIMED_PASSES,
    Finding,
    Ratio,
    Sweep,
    function_of,
    interval_json,
    mask_name,
    pass_key,
    ratio,
    rounded,
    warning_codes,
)
from flashlab.findings.scaling import bends
from flashlab.statistics import MIN_SAMPLES, Estimate, Floats, median_interval

OUTLIER_FACTOR = 1.25
"""Least factor between a record and the power law of its neighbours that makes it an outlier."""

SPREAD = "half the width of the median's 95% interval from order statistics, over the median"
DRIFT = f"median of the second half of the calls over that of the first, {BOOTSTRAP}"
NEIGHBOURS = (
    "median over what the power law between its two neighbours gives, where the neighbours within "
    f"two steps are stable and follow one power (local exponents within 0.2), {BOOTSTRAP}"
)


def _finding(
    sweep: Sweep,
    row: Mapping[str, Any],
    verdict: str,
    params: dict[str, Any],
    method: str,
    estimate: dict[str, Any],
    values: Sequence[int],
) -> Finding:
    name, causal, timed = row["implementation"], row["causal"], row["pass"]
    runs = [run for run in sweep.run_rows(name, causal) if run[sweep.parameter] in values]
    return Finding(
        kind="anomaly",
        experiment=sweep.name,
        device=sweep.device,
        subject={"implementation": name, "pass": timed, "mask": mask_name(causal)},
        verdict=verdict,
        params={"value": row[sweep.parameter], **params},
        evidence={
            "table": f"tables/{sweep.name}/samples.csv",
            "rows": {
                "implementation": [name],
                "causal": causal,
                "pass": timed,
                sweep.parameter: list(values),
            },
            "method": method,
            "n": estimate.pop("n"),
            "estimates": [{"value": row[sweep.parameter], **estimate}],
        },
        warnings=warning_codes(runs, timed),
    )


def _nothing(sweep: Sweep, check: str, checks: int, hits: int, method: str) -> Iterator[Finding]:
    """The checks that found nothing, with their number, beside which the hits are to be judged."""
    if checks > hits:
        yield Finding(
            kind="anomaly",
            experiment=sweep.name,
            device=sweep.device,
            subject={"check": check},
            verdict="none",
            params={"checks": checks, "clean": checks - hits},
            evidence={
                "table": f"tables/{sweep.name}/samples.csv",
                "rows": {"implementation": sweep.implementations},
                "method": method,
                "n": checks,
                "estimates": [],
            },
        )


def _drift(sweep: Sweep, row: Mapping[str, Any], samples: Sequence[float]) -> Ratio | None:
    """The second half of the calls over the first, None where they differ by 5% at most."""
    middle = len(samples) // 2
    if middle < MIN_SAMPLES:
        return None
    halves = (samples[:middle], samples[-middle:])
    if abs(rounded(float(np.median(halves[1]) / np.median(halves[0]))) - 1) <= MARGIN:
        return None  # no interval around this lies beyond the margin: spare the resampling
    first, second = (
        sweep.estimates.of((*pass_key(row), half), part)
        for half, part in zip(("first half", "second half"), halves, strict=True)
    )
    found = ratio(row[sweep.parameter], second, first)
    return found if found.verdict in ("above", "below") else None


@dataclass(frozen=True)
class _Sign:
    """Why a pass is unstable: what is said, how it was found, and the estimate."""

    params: dict[str, Any]
    method: str
    estimate: dict[str, Any]


def _sign(sweep: Sweep, row: Mapping[str, Any], samples: Sequence[float]) -> _Sign | None:
    """A pass drifted by more than 5%, or its median is not known to within 5%; None for neither."""
    drift = _drift(sweep, row, samples)
    if drift:
        params = {"sign": "drift", "ratio": rounded(drift.ratio)}
        return _Sign(params, DRIFT, interval_json(drift))
    spread = median_interval(samples)
    half_width = rounded(100 * spread.relative_half_width)
    if half_width <= 100 * MARGIN:
        return None
    interval = Ratio(row[sweep.parameter], spread.median, spread.low, spread.high, len(samples))
    return _Sign({"sign": "spread", "half_width": half_width}, SPREAD, interval_json(interval))


def _stability(sweep: Sweep) -> dict[tuple[Any, ...], _Sign | None]:
    """Each pass that has samples enough, and why it is unstable, if it is."""
    found = {}
    for row in sweep.passes:
        samples = sweep.samples.get(pass_key(row), [])
        if row["status"] == "ok" and len(samples) >= MIN_SAMPLES:
            found[pass_key(row)] = _sign(sweep, row, samples)
    return found


def unstable(sweep: Sweep) -> Iterator[Finding]:
    """Passes that drifted by more than 5%, or whose median is not known to within 5%."""
    stability = _stability(sweep)
    hits = 0
    for row in sorted(sweep.passes, key=pass_key):
        sign = stability.get(pass_key(row))
        if sign:
            hits += 1
            value = row[sweep.parameter]
            yield _finding(sweep, row, "unstable", sign.params, sign.method, sign.estimate, [value])
    yield from _nothing(sweep, "unstable", len(stability), hits, f"{DRIFT}; {SPREAD}")


def _deviation(sizes: Sequence[int], times: Sequence[Estimate], i: int) -> Ratio:
    """A time over that of the power law through its two neighbours."""
    weight = math.log(sizes[i + 1] / sizes[i]) / math.log(sizes[i + 1] / sizes[i - 1])

    def deviation(before: Floats, at: Floats, after: Floats) -> Floats:
        return at / (before**weight * after ** (1 - weight))

    return function_of(sizes[i], deviation, times[i - 1 : i + 2])


def outliers(sweep: Sweep) -> Iterator[Finding]:
    """Records that their neighbours, which agree with one another, contradict.

    A size between two others is checked where those within two steps of it, at least three of
    them, are stable and follow one power: a curve that bends of itself contradicts nothing.
    """
    stability = _stability(sweep)
    checks = hits = 0
    for name, causal, timed in itertools.product(sweep.implementations, sweep.masks, TIMED_PASSES):
        rows = {
            row[sweep.parameter]: row
            for row in sweep.pass_rows(name, causal, timed)
            if row["status"] == "ok"
        }
        sizes, times = list(rows), [sweep.estimate(row) for row in rows.values()]
        for i in range(1, len(sizes) - 1):
            others = [j for j in range(max(0, i - 2), min(len(sizes), i + 3)) if j != i]
            if len(others) < 3:
                continue
            if any(stability.get(pass_key(rows[sizes[j]])) for j in others):
                continue
            if bends([sizes[j] for j in others], [times[j] for j in others]) != "straight":
                continue
            found = _deviation(sizes, times, i)
            if found.low is None or found.high is None:
                continue
            checks += 1
            low, high = rounded(found.low), rounded(found.high)
            if low > OUTLIER_FACTOR or high < 1 / OUTLIER_FACTOR:
                hits += 1
                neighbours = [sizes[i - 1], sizes[i + 1]]
                yield _finding(
                    sweep,
                    rows[sizes[i]],
                    "outlier",
                    {"ratio": rounded(found.ratio), "low_at": neighbours[0]}
                    | {"high_at": neighbours[1]},
                    NEIGHBOURS,
                    interval_json(found),
                    [sizes[j] for j in sorted([*others, i])],
                )
    yield from _nothing(sweep, "outlier", checks, hits, NEIGHBOURS)
