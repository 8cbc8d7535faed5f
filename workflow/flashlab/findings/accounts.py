"""What an exact metric consists of by its model, and up to which size the device would hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flashlab.benchmarks.model import Account
from flashlab.findings.exact import modelled_value
from flashlab.findings.model import Finding
from flashlab.findings.ratios import EVIDENCE_DIGITS, rounded
from flashlab.findings.series import Series, build_finding, each_series
from flashlab.runs import Run
from flashlab.sweep import TABLE_DIGITS, Row, Sweep, metrics_of

METHOD = (
    "parts of the benchmark's exact model at the largest value at which it equals what was "
    "measured, to the nine digits of the table; the largest size by the same model, not measured"
)
FULL_DIGITS = 3
"""Significant digits, rounded down, of the size at which a device is full."""


def _parts(sweep: Sweep, account: Account, row: Row) -> dict[str, float] | None:
    found = account.parts(Run.of(sweep.benchmark, row), row["provider"], row["device_name"])
    return None if found is None else dict(found)


def _floored(value: int) -> int:
    """The first significant digits of a number, the others zero."""
    unit: int = 10 ** max(0, len(str(value)) - FULL_DIGITS)
    return value // unit * unit


def _full_at(sweep: Sweep, account: Account, row: Row) -> int | None:
    """The largest value of the sweep's parameter that the device would hold, by the model.

    The other given parameters stay as in `row`. None where the capacity is not known, the model
    does not describe the sizes on the way, or the parameter does not fill the device.
    """
    capacity, parameter = account.capacity(row["device_name"]), sweep.parameter
    if capacity is None or parameter.derive is not None:
        return None

    def needed(value: int) -> float | None:
        parts = _parts(sweep, account, {**row, parameter.name: value})
        return None if parts is None else sum(parts.values())

    low = sweep.value_of(row)
    high = low
    while (size := needed(high)) is not None and size <= capacity and high < 2**40:
        low, high = high, 2 * high
    if size is None or size <= capacity or low == high:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        size = needed(middle)
        if size is None:
            return None
        low, high = (middle, high) if size <= capacity else (low, middle)
    return _floored(low)


def _explained(series: Series, account: Account) -> tuple[list[tuple[int, Row]], list[int]]:
    """The runs whose value the model gives, and the values at which it gives another one."""
    sweep, equal, differing = series.sweep, [], []
    for measured in series.measured_rows:
        value = sweep.value_of(measured)
        run = sweep.run_at(series.implementation, series.variant, value)
        assert run is not None  # a measured row has its run
        model = modelled_value(sweep, series.metric, run)
        if model is None or _parts(sweep, account, run) is None:
            continue
        if rounded(model, TABLE_DIGITS) == measured["value"]:
            equal.append((value, run))
        else:
            differing.append(value)
    return equal, differing


def _finding(series: Series, account: Account) -> Finding | None:
    sweep = series.sweep
    equal, differing = _explained(series, account)
    params: dict[str, Any] = {"unit": series.metric.unit, "model_differs_at": differing}
    if not equal:
        if not differing:
            return None
        return build_finding(
            "exact_account",
            [series],
            "unexplained",
            sentences=["exact_account.unexplained"],
            params=params,
            method=METHOD,
            n=len(differing),
            estimates=[],
        )
    value, run = equal[-1]
    parts = _parts(sweep, account, run) or {}
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    name, size = ordered[0]
    params |= {
        "value": value,
        "whole": rounded(total, 6),
        "largest_part": dict(account.labels[name]),
        "part_size": rounded(size, 6),
        "share": rounded(100 * size / total),
    }
    sentences = ["exact_account.explained"]
    full_at = _full_at(sweep, account, run)
    capacity = account.capacity(run["device_name"])
    if full_at is not None and capacity is not None:
        params |= {"full_at": full_at, "capacity": rounded(capacity, 6)}
        sentences.append("exact_account.full")
        if sweep.covaried:
            sentences.append("exact_account.full.others")
    if differing:
        sentences.append("exact_account.differs")
    return build_finding(
        "exact_account",
        [series],
        "explained",
        sentences=sentences,
        params=params,
        method=METHOD,
        n=len(equal),
        estimates=[
            {
                "value": at,
                "parts": {
                    part: rounded(amount, EVIDENCE_DIGITS)
                    for part, amount in (_parts(sweep, account, row) or {}).items()
                },
            }
            for at, row in equal
        ],
    )


def accounts(sweep: Sweep, _: object) -> Iterator[Finding]:
    """What an exact metric consists of, for each series whose values its model gives."""
    metrics = [m for m in metrics_of(sweep.benchmark, exact=True) if m.account]
    for series in each_series(sweep, metrics):
        assert series.metric.account is not None
        found = _finding(series, series.metric.account)
        if found is not None:
            yield found
