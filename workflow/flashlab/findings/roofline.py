"""Where a run stands under the measured ceilings: matrix-product rate and copy bandwidth.

A rate counts the operations that the definition gives a run. A bandwidth counts the bytes that
were moved, by the hardware counters of the same run, or, where none were read, those that any
implementation must move; which of the two a finding states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.findings.model import Finding, Reason
from flashlab.findings.ratios import (
    BOOTSTRAP,
    Estimates,
    Ratio,
    function_of,
    interval_json,
    ratio,
    rounded,
)
from flashlab.findings.series import Series, build_finding, each_series
from flashlab.statistics import Estimate, Floats
from flashlab.sweep import Sweep

BOUND_SHARE = 50.0
"""Least percentage of a ceiling at which a run is called bound by it; under it of both: neither."""


@dataclass(frozen=True)
class Ceilings:
    """A device's measured ceilings: the time of each dtype's matrix product and of a large copy.

    `drifted` names those that took decidedly longer or shorter in the last third of their calls
    than in the first: dtypes, and ``copy``.
    """

    device_name: str | None
    matrix: Mapping[str, tuple[Estimate, float]]
    copy: tuple[Estimate, float]
    drifted: frozenset[str]


def read_ceilings(document: Mapping[str, Any], estimates: Estimates) -> Ceilings:
    """The ceilings of a record by ``flashlab.measuring.ceilings``; times become milliseconds."""
    drifted = set()

    def timed(name: str, found: Mapping[str, Any]) -> Estimate:
        samples = [seconds * 1e3 for seconds in found["samples"] or [found["time(s)"]]]
        third = max(1, len(samples) // 3)
        first, last = (
            estimates.of(("ceiling", name, part), calls)
            for part, calls in (("first", samples[:third]), ("last", samples[-third:]))
        )
        if ratio(0, last, first).verdict in ("above", "below"):
            drifted.add(name)
        return estimates.of(("ceiling", name), samples)

    copy, products = document["copy"], document["matrix_product"]
    matrix = {d: (timed(d, found), 2.0 * found["size"] ** 3) for d, found in products.items()}
    copied = (timed("copy", copy), 2.0 * copy["bytes"])
    device_name = document["environment"].get("device_name")
    return Ceilings(device_name, matrix, copied, frozenset(drifted))


@dataclass(frozen=True)
class _Standing:
    """A run's shares of the two ceilings, in percent."""

    value: int
    matrix: Ratio
    copy: Ratio
    bytes_measured: bool

    @property
    def verdict(self) -> str | None:
        """None where an interval reaches across the limit between two verdicts."""
        if rounded(self.matrix.ratio) > 100:
            return "model_error" if self.matrix.low and rounded(self.matrix.low) > 100 else None
        shares = {"compute_bound": self.matrix, "memory_bound": self.copy}
        greater = max(shares, key=lambda verdict: shares[verdict].ratio)
        if rounded(shares[greater].low or 0) >= BOUND_SHARE:
            return greater
        reaching = [rounded(share.high or 0) >= BOUND_SHARE for share in shares.values()]
        return None if any(reaching) else "neither"

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "matrix_percent": interval_json(self.matrix),
            "copy_percent": interval_json(self.copy),
            "bytes_measured": self.bytes_measured,
        }


def _share(value: int, work: float, time: Estimate, ceiling: tuple[Estimate, float]) -> Ratio:
    """Work over time, as a percentage of a ceiling's work over its time."""
    ceiling_time, ceiling_work = ceiling

    def percent(mine: Floats, theirs: Floats) -> Floats:
        return 100 * work / ceiling_work * theirs / mine

    return function_of(value, percent, (time, ceiling_time))


def _standings(series: Series, ceilings: Ceilings, estimates: Estimates) -> list[_Standing]:
    """The standing of each run that has samples; none for a metric without work."""
    sweep, work, found = series.sweep, series.metric.work, []
    for row in series.measured_rows:
        time, value = estimates.of_row(sweep, row), sweep.value_of(row)
        if time.resampled is None or row["dtype"] not in ceilings.matrix or work is None:
            continue
        operations = work.operations(row)
        measured = sweep.counters_of(row, series.metric.name).get("dram_bytes")
        moved = measured or work.compulsory_bytes(row, row["dtype"])
        found.append(
            _Standing(
                value,
                _share(value, operations, time, ceilings.matrix[row["dtype"]]),
                _share(value, moved, time, ceilings.copy),
                bytes_measured=bool(measured),
            )
        )
    return found


def _params(found: Sequence[_Standing], undecided: Sequence[int], dtype: str) -> dict[str, Any]:
    matrix = [rounded(standing.matrix.ratio) for standing in found]
    copy = [rounded(standing.copy.ratio) for standing in found]
    return {
        "count": len(found),
        "first": found[0].value,
        "last": found[-1].value,
        "values": [standing.value for standing in found],
        "matrix_low": min(matrix),
        "matrix_high": max(matrix),
        "undecided_at": list(undecided),
        "copy_low": min(copy),
        "copy_high": max(copy),
        "dtype": dtype,
    }


def _sentences(verdict: str, measured: bool, undecided: bool) -> list[str]:
    """The keys of a finding's sentences, which qualify what modelled bytes cannot tell."""
    found = [f"roofline.{verdict}"]
    if measured:
        found.append("roofline.measured_bytes")
    elif verdict == "neither":
        found.append("roofline.compulsory_bytes")
    return found + ["roofline.undecided"] * undecided


def rooflines(sweep: Sweep, estimates: Estimates, ceilings: Ceilings) -> Iterator[Finding]:
    """How near each timed metric comes to the ceilings; a finding for each verdict.

    Where an interval reaches across the limit between two verdicts, nothing is stated of the value
    but that. A run that has no samples has no interval, and is left out.

    Nothing is stated of another device than the one that the ceilings were measured on.
    """
    devices = {row["device_name"] for row in sweep.runs if row["status"] == "ok"}
    if devices != {ceilings.device_name}:
        return
    dtype = sweep.runs[0]["dtype"]
    drifted = [Reason("ceiling_drifted")] if {dtype, "copy"} & ceilings.drifted else []
    timed = [metric for metric in sweep.benchmark.measured if metric.work]
    for series in each_series(sweep, timed):
        groups: dict[tuple[str, bool], list[_Standing]] = {}
        undecided = []
        for standing in _standings(series, ceilings, estimates):
            if standing.verdict is None:
                undecided.append(standing.value)
            else:
                key = standing.verdict, standing.bytes_measured
                groups.setdefault(key, []).append(standing)
        for (verdict, measured), found in sorted(groups.items()):
            params = _params(found, undecided, dtype)
            above = [Reason("above_copy_rate")] if params["copy_high"] > 100 else []
            yield build_finding(
                "roofline",
                [series],
                verdict,
                sentences=_sentences(verdict, measured, bool(undecided)),
                params=params,
                method="operations over median time as a percentage of the measured "
                f"matrix-product rate, {'counted' if measured else 'compulsory'} bytes over median "
                f"time as one of the measured copy bandwidth, {BOOTSTRAP}",
                n=min(standing.matrix.samples for standing in found),
                estimates=[standing.to_json() for standing in found],
                reasons=[*above, *drifted],
            )
