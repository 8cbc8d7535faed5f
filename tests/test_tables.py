"""The tables of an experiment: what of its records becomes a number, and what never does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted.experiments import Planter
from planted.records import counters_of, record_of

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import PROCESSES_DIFFER
from flashlab.analysis.tables import metric_rows, read_runs, run_rows
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.records import Record, RecordError
from flashlab.runs import Run
from flashlab.statistics import Estimate, median_interval

Planned = Callable[..., dict[str, Any]]
FORWARD = tuple(0.001 + 0.00001 * i for i in range(11))
TIMES = ("forward_time", "backward_time", "forward_backward_time")


def runs_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the run table."""
    return list(run_rows(read_runs(plan, plan), plan["sources"]))


def metrics_of(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of the metric table, by metric."""
    return {row["metric"]: row for row in metric_rows(read_runs(plan, plan))}


def processes(run: Run, *factors: float, **fields: Any) -> list[Record]:
    """The records of a run whose forward pass takes so many times as long in each process."""
    return [
        record_of(run, forward=[f * s for s in FORWARD], sources={"process": i}, **fields)
        for i, f in enumerate(factors)
    ]


def test_a_time_has_its_median_and_its_interval_and_a_rate_follows(
    run: Run, planned: Planned
) -> None:
    found = metrics_of(planned(processes(run, 1.0)))
    forward, backward, both = (found[name] for name in TIMES)
    rate, flops = found["forward_rate"], costs.flops(Shape.of(run))["forward"]
    assert (forward["value"], forward["unit"]) == (pytest.approx(1.05), "ms")
    assert (forward["low"], forward["high"]) == pytest.approx((1.01, 1.09), abs=0.002)
    assert (forward["samples"], forward["stopped"]) == (11, "interval")
    assert (rate["value"], rate["unit"]) == (pytest.approx(flops / 1.05e-3 / 1e9), "GFLOP/s")
    assert rate["low"] == pytest.approx(flops / (forward["high"] / 1e3) / 1e9)
    assert backward["low"] == backward["value"] == backward["high"] == 2.5
    assert both["value"] == pytest.approx(1.05 + 2.5)


def test_a_run_that_failed_has_its_status_and_empty_cells_never_a_zero(
    run: Run, planned: Planned
) -> None:
    plan = planned([record_of(run, "oom", message='no room, "at all"\n頭數')])
    assert runs_of(plan)[0]["message"] == 'no room, "at all"\n頭數'
    found = metrics_of(plan)
    assert list(found) == [metric.name for metric in ATTENTION.having(()).metrics]
    for row in found.values():
        assert row["status"] == "oom"
        assert {row[column] for column in ("value", "low", "high", "samples")} == {None}


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"sources": {"implementation_digest": "b" * 64}}, "source_changed", True),
        ({"sources": {"implementation_digest": "a" * 64}}, "source_changed", False),
        ({}, "source_changed", False),
        ({"environment": {"commit": "abc", "dirty": True}}, "commit", "abc-dirty"),
        ({"environment": {"commit": "abc", "dirty": None}}, "commit", "abc"),
    ],
)
def test_a_run_says_of_what_code_it_is(
    run: Run, planned: Planned, fields: dict[str, Any], column: str, value: object
) -> None:
    record = record_of(run)
    environment = {**record.environment, **fields.get("environment", {})}
    (row,) = runs_of(planned([replace(record, **{**fields, "environment": environment})]))
    assert row[column] == value


@pytest.mark.parametrize(("key", "said"), [("path", "was asked for"), ("sha256", "sha256")])
def test_the_record_of_another_run_or_manifest_makes_no_table(
    run: Run, planned: Planned, key: str, said: str
) -> None:
    plan = planned([record_of(run), record_of(replace(run, implementation="Pytorch"))])
    first, second = plan["records"]
    first[key] = second["path"] if key == "path" else "0" * 64
    with pytest.raises(RecordError, match=said):
        read_runs(plan, plan)


def test_the_metrics_of_a_run_are_those_of_all_its_processes(run: Run, planned: Planned) -> None:
    """And comparisons have the values of the table."""
    plan = planned(processes(run, 1.0, 1.02, 1.05))
    assert [row["process"] for row in runs_of(plan)] == [0, 1, 2]
    found = metrics_of(plan)
    forward, rate = found["forward_time"], found["forward_rate"]
    assert (forward["processes"], forward["samples"]) == (3, 33)
    assert forward["value"] == pytest.approx(1.05 * (1.02 * 1.05) ** (1 / 3))
    assert forward["deviation"] == pytest.approx(np.std(np.log([1, 1.02, 1.05]), ddof=1))
    alone = median_interval([1e3 * seconds for seconds in FORWARD])
    assert (forward["low"], forward["high"]) == pytest.approx((alone.low, 1.05 * alone.high))
    assert rate["high"] / rate["value"] == pytest.approx(forward["value"] / forward["low"])
    estimates = Estimates([read_runs(plan, plan)])
    for name in TIMES:
        (estimate,) = estimates.of(ATTENTION.metric(name)).values()
        assert estimate.median == pytest.approx(found[name]["value"], rel=1e-7), name


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (("ok", "ok"), "ok"),
        (("error", "ok"), "ok"),
        (("ok", "incorrect"), "incorrect"),
        (("oom", "error"), "oom"),
    ],
)
def test_processes_that_end_differently_are_a_warning(
    run: Run, planter: Planter, statuses: Sequence[str], status: str
) -> None:
    records = [record_of(run, each, sources={"process": i}) for i, each in enumerate(statuses)]
    (measured,) = planter.records(records).runs
    assert {measured.status, *(row["status"] for row in measured.rows.values())} == {status}
    codes = [warning["code"] for warning in measured.warnings]
    assert codes == ([] if len(set(statuses)) == 1 else [PROCESSES_DIFFER])
    if status == "ok":
        assert measured.rows["forward_time"]["processes"] == statuses.count("ok")


@pytest.mark.parametrize(("least", "is_told"), [(10.0, True), (11.9999, False)])
def test_where_processes_differ_in_an_exact_value_the_worst_counts(
    run: Run, planned: Planned, least: float, is_told: bool
) -> None:
    peaks = enumerate((least, 12.0, least))
    records = [record_of(run, peak=peak, sources={"process": i}) for i, peak in peaks]
    peak = metrics_of(planned(records))["peak_memory"]
    ends = (least, 12.0) if is_told else (None, None)
    assert (peak["value"], peak["low"], peak["high"]) == (12.0, *ends)


@pytest.mark.parametrize("key", ["device_name", "provider"])
def test_counters_of_another_device_or_code_are_left_out(
    run: Run, planned: Planned, key: str
) -> None:
    record = record_of(run)
    counters = counters_of(record, environment={**record.environment, key: "other"})
    found = metrics_of(planned([record], counters=[counters]))
    assert len(found) == len(ATTENTION.having(()).metrics)


@pytest.mark.parametrize(
    ("device", "share", "status"),
    [
        *[("cuda", 1.14, "ok"), ("cuda", 1.16, "implausible")],
        *[("cpu", 1.49, "ok"), ("cpu", 1.51, "implausible")],
    ],
)
def test_a_rate_far_beyond_the_ceiling_makes_a_run_implausible_and_keeps_its_numbers(
    planned: Planned, run: Run, device: str, share: float, status: str
) -> None:
    run = replace(run, device=device)
    plan = planned(
        [
            record_of(run, forward=[0.001] * 12, backward=[1.0] * 12),
            record_of(run, forward=[1.0] * 12, backward=[1.0] * 12, sources={"process": 1}),
        ]
    )
    rate = costs.flops(Shape.of(run))["forward"] / share  # a ms, of 1,000 ms
    product = Ceiling(rate, Estimate(1.0, 1, None))
    known = Ceilings("Abacus", dict.fromkeys(("float16", "float32"), product), product)
    x = read_runs(plan, plan, known)
    rows, metrics = list(run_rows(x, plan["sources"])), list(metric_rows(x))
    assert [row["status"] for row in rows] == [status, "ok"]
    assert {row["status"] for row in metrics} == {status} and all(row["value"] for row in metrics)
    found = {"code": "implausible", "metric": "forward_time", "share": pytest.approx(share)}
    assert json.loads(rows[0]["warnings"] or "[]") == [found] * (status == "implausible")
    for other in (replace(known, device_name="Slide rule"), None):
        assert read_runs(plan, plan, other).runs[0].status == "ok"
