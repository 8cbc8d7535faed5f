"""The tables of an experiment: what of its records becomes a number, and what never does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted.experiments import noisy
from planted.records import counters_of, plan_of, record_of

from flashlab.analysis.ceilings import Ceiling, Ceilings, read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import PROCESSES_DIFFER, Runs
from flashlab.analysis.tables import metric_rows, read_runs, run_rows
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.records import RecordError
from flashlab.runs import Run
from flashlab.statistics import Estimate, median_interval

FORWARD = tuple(0.001 + 0.00001 * i for i in range(11))
TIMES = ("forward_time", "backward_time", "forward_backward_time")
METRICS = [metric.name for metric in ATTENTION.having(()).metrics]
Made = Callable[..., tuple[list[dict[str, Any]], dict[str, dict[str, Any]], Runs]]


def forward(factor: float) -> dict[str, Any]:
    """A process whose forward pass takes so many times as long."""
    return {"forward": [factor * seconds for seconds in FORWARD]}


@pytest.fixture
def made(run: Run, tmp_path: Path) -> Made:
    """The rows of the tables of a run whose processes' records have these fields, and its runs.

    Metrics are by name; `counted` are fields of its counters' record.
    """

    def call(*processes: dict[str, Any], on: Any = None, counted: Any = None, **of: Any) -> Any:
        records = [
            record_of(replace(run, **of), **{"sources": {"process": i}, **fields})
            for i, fields in enumerate(processes)
        ]
        counters = [counters_of(records[0], **counted)] if counted else []
        plan = plan_of(tmp_path, records, counters=counters)
        x = read_runs(plan, plan, on)
        rows = list(run_rows(x, plan["sources"])), {row["metric"]: row for row in metric_rows(x)}
        return *rows, x

    return call


def test_a_time_has_its_median_and_its_interval_and_a_rate_follows(made: Made, run: Run) -> None:
    _, found, _ = made(forward(1.0))
    (time, backward, both), rate = (found[name] for name in TIMES), found["forward_rate"]
    flops = costs.flops(Shape.of(run))["forward"]
    assert (time["value"], time["unit"], time["stopped"]) == (pytest.approx(1.05), "ms", "interval")
    assert (time["low"], time["high"]) == pytest.approx((1.01, 1.09), abs=0.002)
    assert (rate["value"], rate["unit"]) == (pytest.approx(flops / 1.05e-3 / 1e9), "GFLOP/s")
    assert rate["low"] == pytest.approx(flops / (time["high"] / 1e3) / 1e9)
    assert backward["low"] == backward["value"] == backward["high"] == 2.5
    assert both["value"] == pytest.approx(1.05 + 2.5)


def test_a_run_that_failed_has_its_status_and_empty_cells_never_a_zero(made: Made) -> None:
    message = 'no room, "at all"\n頭數'
    (row,), found, _ = made({"status": "oom", "message": message})
    assert row["message"] == message and [*found] == METRICS
    for row in found.values():
        assert row["status"] == "oom"
        assert {row[column] for column in ("value", "low", "high", "samples")} == {None}


ENVIRONMENT = {"device_name": "Abacus", "packages": {}, "commit": "abc"}


def test_a_run_says_of_what_code_it_is(made: Made) -> None:
    for digit, is_changed in (("b", True), ("a", False)):
        (row,), *_ = made({"sources": {"implementation_digest": digit * 64}})
        assert row["source_changed"] == is_changed
    for dirty, commit in ((True, "abc-dirty"), (None, "abc")):
        assert made({"environment": {**ENVIRONMENT, "dirty": dirty}})[0][0]["commit"] == commit


@pytest.mark.parametrize(("key", "said"), [("path", "was asked for"), ("sha256", "sha256")])
def test_the_record_of_another_run_or_manifest_makes_no_table(
    run: Run, tmp_path: Path, key: str, said: str
) -> None:
    plan = plan_of(tmp_path, [record_of(run), record_of(replace(run, implementation="Pytorch"))])
    first, second = plan["records"]
    first[key] = second["path"] if key == "path" else "0" * 64
    with pytest.raises(RecordError, match=said):
        read_runs(plan, plan)


def test_the_metrics_of_a_run_are_those_of_all_its_processes(made: Made) -> None:
    rows, found, x = made(forward(1.0), forward(1.02), forward(1.05))
    assert [row["process"] for row in rows] == [0, 1, 2]
    time, rate = found["forward_time"], found["forward_rate"]
    assert (time["processes"], time["samples"]) == (3, 33)
    assert time["value"] == pytest.approx(1.05 * (1.02 * 1.05) ** (1 / 3))
    assert time["deviation"] == pytest.approx(np.std(np.log([1, 1.02, 1.05]), ddof=1))
    alone = median_interval([1e3 * seconds for seconds in FORWARD])
    assert (time["low"], time["high"]) == pytest.approx((alone.low, 1.05 * alone.high))
    assert rate["high"] / rate["value"] == pytest.approx(time["value"] / time["low"])
    for name in TIMES:  # which comparisons have, too
        (estimate,) = Estimates([x]).of(ATTENTION.metric(name)).values()
        assert estimate.median == pytest.approx(found[name]["value"], rel=1e-7), name


@pytest.mark.parametrize("statuses", ["ok ok", "error ok", "ok incorrect", "oom error"])
def test_processes_that_end_differently_are_a_warning(made: Made, statuses: str) -> None:
    """One that gave numbers counts, but not beside wrong ones."""
    each = statuses.split()
    _, found, x = made(*({"status": status} for status in each))
    status = "incorrect" if "incorrect" in each else "ok" if "ok" in each else "oom"
    assert {row["status"] for row in found.values()} == {status}
    assert status != "ok" or found["forward_time"]["processes"] == each.count("ok")
    codes = [warning["code"] for warning in x.runs[0].warnings]
    assert codes == [PROCESSES_DIFFER] * (len({*each}) > 1)


@pytest.mark.parametrize(("least", "ends"), [(10.0, (10.0, 12.0)), (11.9999, (None, None))])
def test_where_processes_differ_in_an_exact_value_the_worst_counts(
    made: Made, least: float, ends: tuple[float | None, ...]
) -> None:
    peak = made({"peak": least}, {"peak": 12.0}, {"peak": least})[1]["peak_memory"]
    assert (peak["value"], peak["low"], peak["high"]) == (12.0, *ends)


@pytest.mark.parametrize("key", ["device_name", "provider"])
def test_counters_of_another_device_or_code_are_left_out(made: Made, key: str) -> None:
    own = {**ENVIRONMENT, "provider": "own"}
    for other, is_counted in ((own, True), ({**own, key: "other"}, False)):
        _, found, _ = made({"environment": own}, counted={"environment": other})
        assert (len(found) > len(METRICS)) == is_counted


@pytest.mark.parametrize(
    ("device", "share", "status"),
    [("cuda", 1.14, "ok"), ("cuda", 1.16, "implausible"), ("cpu", 1.49, "ok")],
)
def test_a_rate_far_beyond_the_ceiling_makes_a_run_implausible_and_keeps_its_numbers(
    made: Made, run: Run, device: str, share: float, status: str
) -> None:
    product = Ceiling(costs.flops(Shape.of(run))["forward"] / share, Estimate(1.0, 1, None))
    known = Ceilings("Abacus", dict.fromkeys(("float16", "float32"), product), product)
    slow = {"forward": [1.0] * 12, "backward": [1.0] * 12}
    both = {**slow, "forward": [0.001] * 12}, slow
    rows, found, _ = made(*both, on=known, device=device)
    assert [row["status"] for row in rows] == [status, "ok"]
    assert {row["status"] for row in found.values()} == {status}
    assert all(row["value"] for row in found.values())
    told = {"code": "implausible", "metric": "forward_time", "share": pytest.approx(share)}
    assert json.loads(rows[0]["warnings"] or "[]") == [told] * (status == "implausible")
    for other in (replace(known, device_name="Slide rule"), None):
        assert made(*both, on=other, device=device)[0][0]["status"] == "ok"


# The states of a ceiling: what a device did before it lowered its clocks, and after

STEADY = [1.0] * 20
FALLING = [1.0] * 16 + [1.054] * 27 + [1.16 + 0.02 * math.sin(i / 100) for i in range(1000)]
"""As the H200's float16: 16 calls at 772 TFLOP/s, 27 at 734, the rest at about 670."""


@pytest.mark.parametrize(
    ("factors", "sustained"),
    [
        pytest.param(STEADY * 2, None, id="steady"),
        pytest.param([1.0] * 14 + [1.08] * 36, 1.08, id="an H200's float16"),
        pytest.param(FALLING, 1.16, id="several falls"),
        pytest.param([*STEADY, *[1.04] * 20], None, id="within the margin"),
        pytest.param([1.08] * 20 + STEADY, None, id="it became faster"),
        pytest.param([1 + i / 5000 for i in range(1000)], 1.15, id="a drift"),
    ],
)
def test_a_ceiling_is_of_the_fastest_calls_and_says_what_is_sustained(
    factors: list[float], sustained: float | None
) -> None:
    """Calls of 1 ms, each made longer by a factor; how slow those of the second half are."""
    calls = np.array(factors) * noisy(1e-3, count=len(factors), spread=0.002)
    timed = {"samples": calls.tolist(), "time(s)": 1e-3, "bytes": 2**30}
    document = {"device": "cuda", "matrix_product": {}, "copy": timed, "environment": {}}
    ceiling = read_ceilings(document).copy
    assert (ceiling.time.count, ceiling.time.median) == (10, pytest.approx(1.0, rel=0.01))
    assert bool(ceiling.sustained) == bool(sustained)
    if sustained:
        assert ceiling.sustained_rate == pytest.approx(ceiling.rate / sustained, rel=0.02)
