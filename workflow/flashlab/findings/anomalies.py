"""Records in doubt: unstable, or contradicted by their neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab.findings.model import Evidence, Finding, rows_of, subject_of
from flashlab.findings.ratios import (
    BOOTSTRAP,
    Estimates,
    Ratio,
    function_of,
    interval_json,
    ratio,
    rounded,
)
from flashlab.findings.scaling import bends
from flashlab.statistics import MARGIN, MIN_SAMPLES, Estimate, Floats, median_interval
from flashlab.sweep import Row, Sweep, metrics_of, warning_codes

OUTLIER_FACTOR = 1.25
"""Least factor between a record and the power law of its neighbours that makes it an outlier."""

SPREAD = "half the width of the median's 95% interval from order statistics, over the median"
DRIFT = f"median of the second half of the samples over that of the first, {BOOTSTRAP}"
NEIGHBOURS = (
    "median over what the power law between its two neighbours gives, where the neighbours within "
    f"two steps are stable and follow one power (local exponents within 0.2), {BOOTSTRAP}"
)


def _finding(
    sweep: Sweep,
    row: Row,
    verdict: str,
    params: dict[str, Any],
    method: str,
    estimate: dict[str, Any],
    values: Sequence[int],
) -> Finding:
    name, variant, metric = row["implementation"], sweep.variant_of(row), row["metric"]
    runs = [run for run in sweep.run_rows(name, variant) if sweep.value_of(run) in values]
    value = sweep.value_of(row)
    return Finding(
        kind="anomaly",
        experiment=sweep.name,
        device=sweep.device,
        subject=subject_of(name, variant, metric=metric),
        verdict=verdict,
        sentences=[f"anomaly.{verdict}" + (f".{params['sign']}" if "sign" in params else "")],
        params={"value": value, **params},
        evidence=Evidence(
            table=f"tables/{sweep.name}/samples.csv",
            rows=rows_of([name], variant, metric=metric, **{sweep.parameter.name: list(values)}),
            method=method,
            n=estimate.pop("n"),
            estimates=[{"value": value, **estimate}],
        ).to_json(),
        warnings=warning_codes(runs, metric),
    )


def _nothing(sweep: Sweep, check: str, checks: int, hits: int, method: str) -> Iterator[Finding]:
    """The checks that found nothing, with their number, beside which the hits are to be judged."""
    if checks > hits:
        clean = checks - hits
        yield Finding(
            kind="anomaly",
            experiment=sweep.name,
            device=sweep.device,
            subject={"check": check},
            verdict="none",
            sentences=[f"anomaly.none.{check}" + (".all" if clean == checks else "")],
            params={"checks": checks, "clean": clean},
            evidence=Evidence(
                table=f"tables/{sweep.name}/samples.csv",
                rows=rows_of(sorted(sweep.implementations)),
                method=method,
                n=checks,
            ).to_json(),
        )


def _drift(sweep: Sweep, row: Row, samples: Sequence[float], estimates: Estimates) -> Ratio | None:
    """The second half of the samples over the first, None if within the margin."""
    middle = len(samples) // 2
    if middle < MIN_SAMPLES:
        return None
    halves = (samples[:middle], samples[-middle:])
    if abs(rounded(float(np.median(halves[1]) / np.median(halves[0]))) - 1) <= MARGIN:
        return None  # no interval around this lies beyond the margin, so resampling is pointless
    first, second = (
        estimates.of((*sweep.key_of(row), row["metric"], half), part)
        for half, part in zip(("first half", "second half"), halves, strict=True)
    )
    found = ratio(sweep.value_of(row), second, first)
    return found if found.verdict in ("above", "below") else None


@dataclass(frozen=True)
class _Sign:
    """Why a metric of a run is unstable: what is stated, how it was found, and the estimate."""

    params: dict[str, Any]
    method: str
    estimate: dict[str, Any]


def _sign(sweep: Sweep, row: Row, samples: Sequence[float], estimates: Estimates) -> _Sign | None:
    """Samples drifted by more than the margin, or leave the median unknown by it; else None."""
    drift = _drift(sweep, row, samples, estimates)
    if drift:
        params = {"sign": "drift", "ratio": rounded(drift.ratio)}
        return _Sign(params, DRIFT, interval_json(drift))
    spread = median_interval(samples)
    half_width = rounded(100 * spread.relative_half_width)
    if half_width <= 100 * MARGIN:
        return None
    interval = Ratio(sweep.value_of(row), spread.median, spread.low, spread.high, len(samples))
    return _Sign({"sign": "spread", "half_width": half_width}, SPREAD, interval_json(interval))


Stability = dict[tuple[Any, ...], _Sign | None]


def _sampled_rows(sweep: Sweep) -> list[Row]:
    """The rows of sampled metrics, by run and metric."""
    names = [metric.name for metric in metrics_of(sweep.benchmark, exact=False)]
    rows = [row for row in sweep.metrics if row["metric"] in names]
    return sorted(rows, key=lambda row: (sweep.key_of(row), names.index(row["metric"])))


def _stability(sweep: Sweep, estimates: Estimates) -> Stability:
    """Each metric of each run that has samples enough, and why it is unstable, if it is."""
    found: Stability = {}
    for row in _sampled_rows(sweep):
        samples = sweep.samples_of(row)
        if row["status"] == "ok" and len(samples) >= MIN_SAMPLES:
            found[*sweep.key_of(row), row["metric"]] = _sign(sweep, row, samples, estimates)
    return found


def unstable(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """Runs that drifted by more than the margin, or whose median is not known to within it."""
    stability = _stability(sweep, estimates)
    hits = 0
    for row in _sampled_rows(sweep):
        sign = stability.get((*sweep.key_of(row), row["metric"]))
        if sign:
            hits += 1
            value = sweep.value_of(row)
            yield _finding(sweep, row, "unstable", sign.params, sign.method, sign.estimate, [value])
    yield from _nothing(sweep, "unstable", len(stability), hits, f"{DRIFT}; {SPREAD}")


def _deviation(sizes: Sequence[int], times: Sequence[Estimate], i: int) -> Ratio:
    """A time over that of the power law through its two neighbours."""
    weight = math.log(sizes[i + 1] / sizes[i]) / math.log(sizes[i + 1] / sizes[i - 1])

    def deviation(before: Floats, at: Floats, after: Floats) -> Floats:
        return at / (before**weight * after ** (1 - weight))

    return function_of(sizes[i], deviation, times[i - 1 : i + 2])


def _is_checked(
    i: int, sizes: Sequence[int], found: Sequence[Estimate], unstable_at: set[int]
) -> bool:
    """Whether those within two steps, at least three, are stable and follow one power."""
    others = [j for j in range(max(0, i - 2), min(len(sizes), i + 3)) if j != i]
    if len(others) < 3 or unstable_at & set(others):
        return False
    return bends([sizes[j] for j in others], [found[j] for j in others]) == "straight"


def outliers(sweep: Sweep, estimates: Estimates) -> Iterator[Finding]:
    """Records that their neighbours, which agree with one another, contradict.

    A size between two others is checked where those within two steps of it, at least three of
    them, are stable and follow one power: a curve that bends of itself contradicts nothing.
    """
    stability = _stability(sweep, estimates)
    checks = hits = 0
    names, metrics = sorted(sweep.implementations), metrics_of(sweep.benchmark, exact=False)
    for name, variant, metric in itertools.product(names, sweep.variants, metrics):
        rows = [r for r in sweep.metric_rows(name, variant, metric.name) if r["status"] == "ok"]
        sizes, found = [sweep.value_of(r) for r in rows], [estimates.of_row(sweep, r) for r in rows]
        unstable_at = {
            i for i, row in enumerate(rows) if stability.get((*sweep.key_of(row), metric.name))
        }
        for i in range(1, len(sizes) - 1):
            if not _is_checked(i, sizes, found, unstable_at):
                continue
            deviation = _deviation(sizes, found, i)
            if deviation.low is None or deviation.high is None:
                continue
            checks += 1
            low, high = rounded(deviation.low), rounded(deviation.high)
            if low > OUTLIER_FACTOR or high < 1 / OUTLIER_FACTOR:
                hits += 1
                yield _finding(
                    sweep,
                    rows[i],
                    "outlier",
                    {"ratio": rounded(deviation.ratio), "low_at": sizes[i - 1]}
                    | {"high_at": sizes[i + 1]},
                    NEIGHBOURS,
                    interval_json(deviation),
                    sizes[max(0, i - 2) : i + 3],
                )
    yield from _nothing(sweep, "outlier", checks, hits, NEIGHBOURS)
