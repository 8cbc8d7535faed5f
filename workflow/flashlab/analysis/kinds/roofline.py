"""Where a run stands under the measured ceilings: matrix-product rate and copy bandwidth.

A rate counts the operations that the definition gives a run. A bandwidth counts the bytes that
were moved, by the hardware counters of the same run. Where none were read it counts the fewest
bytes that the implementation is known to move: those that any must move, and what the benchmark
declares for one that moves more. An implementation may move more than that still, so a small share
of the bandwidth does not say that memory does not bind it. A finding states which bytes it counts.

Both shares are of the ceilings before the device lowered its clocks, where it did (`ceilings`); a
run that saturates neither does so in both states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.ceilings import COPY, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.ratios import Ratio, function_of, interval_json, rounded
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.analysis.settings import timed_metrics
from flashlab.benchmarks.model import FLOPS
from flashlab.devices import find_device
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats
from flashlab.telling.codes import by_code
from flashlab.telling.values import Listed, Measured, Span, Statement, Tellable, say, span

BOUND_SHARE = 80.0
"""Least percentage of a ceiling at which a run is called bound by it; under it of both: neither."""


MESSAGES = by_code(
    *("roofline.compute_bound", "roofline.memory_bound", "roofline.neither"),
    *("roofline.model_error", "roofline.inconclusive"),
)
COUNTED = {
    key.split(".")[1]: key
    for key in (
        *("roofline.compute_bound.counted", "roofline.memory_bound.counted"),
        *("roofline.neither.counted", "roofline.model_error.counted"),
        "roofline.inconclusive.counted",
    )
}
"""The same where the bytes were counted."""

STATES = by_code("ceiling.measured", "ceiling.initial", "ceiling.sustained")


@dataclass(frozen=True)
class _Standing:
    """A run's shares of the two ceilings, in percent; `sustained` is that of the lowered rate.

    `bytes_counted` says whether hardware counters gave the bytes of the second; where they did not,
    `moves_more` says whether the implementation is known to move more than the compulsory bytes.
    """

    value: int
    matrix: Ratio
    sustained: Ratio
    copy: Ratio
    bytes_counted: bool
    moves_more: bool

    @property
    def verdict(self) -> str:
        """``inconclusive`` where an interval, or the state of the ceiling, leaves it open."""
        if rounded(self.matrix.ratio) > 100:
            return "model_error" if rounded(self.matrix.low or 0) > 100 else "inconclusive"
        shares = {"compute_bound": self.matrix, "memory_bound": self.copy}
        greater = max(shares, key=lambda verdict: shares[verdict].ratio)
        if rounded(shares[greater].low or 0) >= BOUND_SHARE:
            return greater
        every = (self.sustained, self.copy)
        reaching = [rounded(share.high or 0) >= BOUND_SHARE for share in every]
        return "inconclusive" if any(reaching) else "neither"

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "matrix_percent": interval_json(self.matrix),
            "copy_percent": interval_json(self.copy),
            "bytes_counted": self.bytes_counted,
        }


def _share(value: int, work: float, time: Estimate, of: float, ceiling: Estimate) -> Ratio:
    """Work over time, as a percentage of a ceiling's work `of` a call over its time."""

    def percent(mine: Floats, theirs: Floats) -> Floats:
        return 100 * work / of * theirs / mine

    return function_of(value, percent, (time, ceiling))


def _standings(series: Series, ceilings: Ceilings, estimates: Estimates) -> list[_Standing]:
    """The standing of each run that has samples; none for a metric without work."""
    experiment, work, found = series.experiment, series.metric.work, []
    for row in series.measured_rows:
        time, value = estimates.of_row(experiment, row), experiment.value_of(row)
        if time.quantiles is None or row["dtype"] not in ceilings.matrix or work is None:
            continue
        operations, product = work.operations(row), ceilings.matrix[row["dtype"]]
        fewest = work.fewest_bytes(Run.of(experiment.benchmark, row), ceilings.device_name)
        counted = experiment.counters_of(row, series.metric.name).get("dram_bytes")
        found.append(
            _Standing(
                value,
                _share(value, operations, time, product.work, product.time),
                _share(value, operations, time, product.work, product.sustained or product.time),
                _share(value, counted or fewest, time, ceilings.copy.work, ceilings.copy.time),
                bytes_counted=bool(counted),
                moves_more=not counted and fewest > work.compulsory_bytes(row, row["dtype"]),
            )
        )
    return found


def _told_rate(rate: float, vendor: float | None, unit: str) -> Statement:
    """The rate that a share is of with the one that the vendor states, or in a benchmark's unit."""
    if vendor is None:
        in_unit = rounded(rate * FLOPS["TFLOP/s"] / FLOPS[unit])
        return say("ceiling.rate", rate=Measured(in_unit), unit=unit)
    return say("ceiling.rate.vendor", rate=Measured(rate), vendor=Measured(vendor))


def _statements(
    series: Series,
    verdict: str,
    found: Sequence[_Standing],
    along: Sequence[_Standing],
    ceiling: Mapping[str, Tellable],
) -> Iterator[Statement]:
    """The verdict, how it is at the other values, and what the bytes are."""
    symbol = series.experiment.parameter.symbol
    yield say(
        (COUNTED if found[0].bytes_counted else MESSAGES)[verdict],
        **quoted([series], values=Listed([standing.value for standing in found])),
        matrix=_span(standing.matrix for standing in found),
        copy=_span(standing.copy for standing in found),
        **ceiling,
    )
    if others := [standing for standing in along if standing not in found]:
        yield say(
            "roofline.elsewhere",
            symbol=symbol,
            elsewhere_at=Listed([standing.value for standing in others]),
            elsewhere=_span(standing.matrix for standing in others),
        )
    if known := [standing.value for standing in found if standing.moves_more]:
        yield say("roofline.bytes_known", symbol=symbol, bytes_known_at=Listed(known))


def _span(shares: Iterable[Ratio]) -> Span:
    printed = [rounded(share.ratio) for share in shares]
    return span(min(printed), max(printed), "percent")


def rooflines(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """How near each timed metric comes to the ceilings; a finding for each verdict.

    A run that has no samples has no interval, and is left out. Nothing is stated of another device
    than the one that the ceilings were measured on.
    """
    if given.ceilings is None:
        return
    devices = {row["device_name"] for row in experiment.runs if row["status"] == "ok"}
    if devices != {given.ceilings.device_name}:
        return
    dtypes = (row["dtype"] for row in experiment.runs if row["dtype"] in given.ceilings.matrix)
    if (dtype := next(dtypes, None)) is None:
        return
    ceiling, device = given.ceilings.matrix[dtype], find_device(given.ceilings.device_name)
    rates: dict[
        str, Any
    ] = {  # in TFLOP/s: before it fell where it fell, what it fell to, and the data sheet's
        "ceiling": rounded(ceiling.rate / 1e12),
        "sustained": ceiling.sustained_rate and rounded(ceiling.sustained_rate / 1e12),
        "vendor": device.peak_tflops.get(dtype) if device else None,
    }
    told: dict[str, Tellable] = {
        "ceiling": say(STATES[ceiling.state]),
        "ceiling_rate": _told_rate(
            rates["ceiling"], rates["vendor"], experiment.benchmark.rate_unit
        ),
        "dtype": dtype,
    }
    drifted = [Reason("ceiling_drifted")] if {dtype, COPY} & given.ceilings.drifted else []
    for series in each_series(experiment, timed_metrics(experiment.benchmark)):
        groups: dict[tuple[str, bool], list[_Standing]] = {}
        along = _standings(series, given.ceilings, given.estimates)
        for standing in along:
            groups.setdefault((standing.verdict, standing.bytes_counted), []).append(standing)
        for (verdict, _), found in sorted(groups.items()):
            exceeds = any(rounded(standing.copy.ratio) > 100 for standing in found)
            above = [Reason("above_copy_rate")] if exceeds else []
            yield build_finding(
                "roofline",
                [series],
                verdict,
                statements=list(_statements(series, verdict, found, along, told)),
                facts={
                    "values": [standing.value for standing in found],
                    "matrix_high": max(rounded(standing.matrix.ratio) for standing in found),
                    **rates,
                },
                estimates=[standing.to_json() for standing in found],
                reasons=[*above, *drifted],
                each_alone=True,
            )


ROOFLINE = Kind(
    label="kind.roofline",
    verdicts=tuple(MESSAGES),
    of_experiment=[(EXPERIMENTS, rooflines)],
)
