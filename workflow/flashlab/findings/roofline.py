"""Where a run stands under the measured ceilings: matrix-product rate and copy bandwidth.

A rate counts the operations that the definition gives a run. A bandwidth counts the bytes that
were moved, by the hardware counters of the same run. Where none were read it counts the fewest
bytes that the implementation is known to move: those that any must move, and what the benchmark
declares for one that moves more. An implementation may move more than that still, so a small share
of the bandwidth does not say that memory does not bind it. A finding states which bytes it counts.

Both shares are of the ceilings before the device lowered its clocks, where it did (`ceilings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.devices import find_device
from flashlab.findings.ceilings import COPY, Ceiling, Ceilings
from flashlab.findings.model import Finding, Reason
from flashlab.findings.ratios import (
    INTERVALS,
    Estimates,
    Ratio,
    function_of,
    interval_json,
    rounded,
)
from flashlab.findings.series import Series, build_finding, each_series
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats
from flashlab.sweep import Sweep

BOUND_SHARE = 50.0
"""Least percentage of a ceiling at which a run is called bound by it; under it of both: neither."""


@dataclass(frozen=True)
class _Standing:
    """A run's shares of the two ceilings, in percent.

    `bytes_counted` says whether hardware counters gave the bytes of the second; where they did not,
    `moves_more` says whether the implementation is known to move more than the compulsory bytes.
    """

    value: int
    matrix: Ratio
    copy: Ratio
    bytes_counted: bool
    moves_more: bool

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
            "bytes_counted": self.bytes_counted,
        }


def _share(value: int, work: float, time: Estimate, ceiling: Ceiling) -> Ratio:
    """Work over time, as a percentage of a ceiling's work over its time."""

    def percent(mine: Floats, theirs: Floats) -> Floats:
        return 100 * work / ceiling.work * theirs / mine

    return function_of(value, percent, (time, ceiling.time))


def _standings(series: Series, ceilings: Ceilings, estimates: Estimates) -> list[_Standing]:
    """The standing of each run that has samples; none for a metric without work."""
    sweep, work, found = series.sweep, series.metric.work, []
    for row in series.measured_rows:
        time, value = estimates.of_row(sweep, row), sweep.value_of(row)
        if time.quantiles is None or row["dtype"] not in ceilings.matrix or work is None:
            continue
        operations = work.operations(row)
        compulsory = work.compulsory_bytes(row, row["dtype"])
        fewest = work.fewest_bytes(Run.of(sweep.benchmark, row), ceilings.device_name)
        counted = sweep.counters_of(row, series.metric.name).get("dram_bytes")
        found.append(
            _Standing(
                value,
                _share(value, operations, time, ceilings.matrix[row["dtype"]]),
                _share(value, counted or fewest, time, ceilings.copy),
                bytes_counted=bool(counted),
                moves_more=not counted and fewest > compulsory,
            )
        )
    return found


def _elsewhere(found: Sequence[_Standing], along: Sequence[_Standing]) -> dict[str, Any]:
    """The other values of the sweep, which no finding may pass over, with their share."""
    others = [standing for standing in along if standing not in found]
    if not others:
        return {}
    shares = [rounded(standing.matrix.ratio) for standing in others]
    return {
        "elsewhere_at": [standing.value for standing in others],
        "elsewhere_low": min(shares),
        "elsewhere_high": max(shares),
    }


def _params(
    found: Sequence[_Standing], undecided: Sequence[int], dtype: str, ceilings: Ceilings
) -> dict[str, Any]:
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
        "ceiling_state": ceilings.matrix[dtype].state,
        "ceiling_rates": [
            {"state": state, "rate": rounded(rate / 1e12)}
            for state, rate in ceilings.matrix[dtype].rates.items()
        ],
        "vendors_rate": _vendors_rate(ceilings.device_name, dtype),
        "bytes_known_at": [standing.value for standing in found if standing.moves_more],
    }


def _vendors_rate(device_name: str | None, dtype: str) -> float | None:
    """The peak rate that the vendor states, in TFLOP/s."""
    device = find_device(device_name)
    return None if device is None else device.peak_tflops.get(dtype)


def _sentences(verdict: str, params: Mapping[str, Any]) -> list[str]:
    """The verdict, how it is at the other values, what the bytes are, and where none is given."""
    keys = [f"roofline.{verdict}" + (".counted" if params["bytes_counted"] else "")]
    if "elsewhere_at" in params:
        keys.append("roofline.elsewhere")
    if params["bytes_known_at"]:
        keys.append("roofline.bytes_known")
    if params["undecided_at"]:
        keys.append("roofline.undecided")
    return keys


def rooflines(sweep: Sweep, estimates: Estimates, ceilings: Ceilings) -> Iterator[Finding]:
    """How near each timed metric comes to the ceilings; a finding for each verdict.

    Where an interval reaches across the limit between two verdicts, nothing is stated of the value
    but that. A run that has no samples has no interval, and is left out.

    Nothing is stated of another device than the one that the ceilings were measured on.
    """
    devices = {row["device_name"] for row in sweep.runs if row["status"] == "ok"}
    if devices != {ceilings.device_name}:
        return
    dtypes = [row["dtype"] for row in sweep.runs if row["dtype"] in ceilings.matrix]
    if not dtypes:
        return
    dtype = dtypes[0]
    drifted = [Reason("ceiling_drifted")] if {dtype, COPY} & ceilings.drifted else []
    timed = [metric for metric in sweep.benchmark.measured if metric.work]
    for series in each_series(sweep, timed):
        groups: dict[tuple[str, bool], list[_Standing]] = {}
        undecided = []
        along = _standings(series, ceilings, estimates)
        for standing in along:
            if standing.verdict is None:
                undecided.append(standing.value)
            else:
                key = standing.verdict, standing.bytes_counted
                groups.setdefault(key, []).append(standing)
        for (verdict, counted), found in sorted(groups.items()):
            params = _params(found, undecided, dtype, ceilings) | _elsewhere(found, along)
            params["bytes_counted"] = counted
            above = [Reason("above_copy_rate")] if params["copy_high"] > 100 else []
            yield build_finding(
                "roofline",
                [series],
                verdict,
                sentences=_sentences(verdict, params),
                params=params,
                method="operations over median time as a percentage of the measured "
                "matrix-product rate, the bytes counted in DRAM or, where none were, the fewest "
                f"that it is known to move over median time as one of the measured copy bandwidth, "
                f"{INTERVALS}",
                n=min(standing.matrix.samples for standing in found),
                estimates=[standing.to_json() for standing in found],
                reasons=[*above, *drifted],
                each_alone=True,
            )
