"""What an exact metric consists of by its model, and up to which size the device would hold it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence

from flashlab.analysis.experiment import EXACT_DIGITS, Experiment, Row, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.kinds.exact_comparison import modelled_value
from flashlab.analysis.ratios import rounded
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.benchmarks.model import Account
from flashlab.runs import Run
from flashlab.telling.values import Label, Listed, Measured, Number, Statement, say

FULL_DIGITS = 3
"""Significant digits, rounded down, of the size at which a device is full."""

LARGEST_SIZE = 2**40
"""What fits even so does not fill the device."""


def _parts(experiment: Experiment, account: Account, row: Row) -> dict[str, float] | None:
    found = account.parts(Run.of(experiment.benchmark, row), row["provider"], row["device_name"])
    return None if found is None else dict(found)


def _full_at(experiment: Experiment, account: Account, row: Row) -> int | None:
    """The largest value of the sweep's parameter that the device would hold, by the model.

    The other given parameters stay as in `row`. None where the capacity is not known, the model
    does not describe such sizes, or the parameter does not fill the device.
    """
    capacity, parameter = account.capacity(row["device_name"]), experiment.parameter
    if capacity is None or parameter.derive is not None:
        return None

    def excess(value: int) -> float:
        parts = _parts(experiment, account, {**row, parameter.name: value})
        return math.nan if parts is None else sum(parts.values()) - capacity

    low = high = experiment.value_of(row)
    while excess(high) <= 0 and high < LARGEST_SIZE:
        low, high = high, 2 * high
    if not excess(high) > 0 or low == high:
        return None
    full = bisect.bisect_right(range(high), 0.0, lo=low, key=excess) - 1
    # The first significant digits, the others zero.
    unit: int = 10 ** max(0, len(str(full)) - FULL_DIGITS)
    return full // unit * unit


_Explained = tuple[int, Row, dict[str, float]]
"""A value of the sweep, the run there, and its parts."""


def _explained(series: Series, account: Account) -> tuple[list[_Explained], list[int]]:
    """The runs whose value the model gives, and the values at which it gives another one."""
    experiment, equal, differing = series.experiment, [], []
    for measured in series.measured_rows:
        value = experiment.value_of(measured)
        run = experiment.run_at(series.implementation, series.variant, value)
        assert run is not None  # a measured row has its run
        parts, model = _parts(experiment, account, run), modelled_value(series, run)
        if model is None or parts is None:
            continue
        if rounded(model, EXACT_DIGITS) == measured["value"]:
            equal.append((value, run, parts))
        else:
            differing.append(value)
    return equal, differing


def _statements(
    series: Series,
    account: Account,
    run: Row,
    parts: Mapping[str, float],
    largest: str,
    differing: Sequence[int],
) -> Iterator[Statement]:
    """The largest part at a run, the size that would fill the device, and where the model fails."""
    experiment, total = series.experiment, sum(parts.values())
    symbol, unit, value = experiment.parameter.symbol, series.metric.unit, experiment.value_of(run)
    label = Label(account.labels[largest])
    yield say(
        "exact_account.explained",
        **quoted([series], value=value, unit=unit, largest_part=label),
        whole=Number(rounded(total, 6)),
        part_size=Number(rounded(parts[largest], 6)),
        share=Measured(rounded(100 * parts[largest] / total)),
    )
    full_at, capacity = _full_at(experiment, account, run), account.capacity(run["device_name"])
    if full_at is not None and capacity is not None:
        held = Number(rounded(capacity, 6))
        yield say("exact_account.full", capacity=held, unit=unit, symbol=symbol, full_at=full_at)
        if experiment.covaried:
            yield say("exact_account.full.others", symbol=symbol, value=value)
    if differing:
        yield say("exact_account.differs", symbol=symbol, model_differs_at=Listed(differing))


def accounts(experiment: Experiment, _: Given) -> Iterator[Finding]:
    """What an exact metric consists of, for each series whose values its model gives."""
    for series in each_series(experiment, metrics_of(experiment.benchmark, exact=True)):
        if (account := series.metric.account) is None:
            continue
        equal, differing = _explained(series, account)
        if equal:
            value, run, last = equal[-1]
            largest = min(last, key=lambda name: (-last[name], name))
            share = rounded(100 * last[largest] / sum(last.values()))
            yield build_finding(
                "exact_account",
                [series],
                "explained",
                statements=list(_statements(series, account, run, last, largest, differing)),
                facts={"value": value, "share": share},
                estimates=[
                    {"value": at, "parts": {k: rounded(v, EXACT_DIGITS) for k, v in of_run.items()}}
                    for at, _, of_run in equal
                ],
            )
        elif differing:
            yield build_finding("exact_account", [series], "unexplained")


def _strength(finding: Finding) -> float:
    """The largest part's share; before all others where a run did not fit into memory."""
    ran_out = any(reason.status == "oom" for reason in finding.reasons)
    return float(finding.facts["share"]) + 100 * ran_out


EXACT_ACCOUNT = Kind(
    label="kind.exact_account",
    verdicts=("explained", "unexplained"),
    of_experiment=[(SWEEPS, accounts)],
    told="briefly",
    strength=_strength,
)
