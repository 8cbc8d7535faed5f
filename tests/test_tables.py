from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted.experiments import Planter
from planted.records import counters_of, record_of

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    METRIC_COLUMNS,
    PROCESSES_DIFFER,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    TABLES,
    Runs,
    run_keys,
)
from flashlab.analysis.tables import metric_rows, read_runs, run_rows, write_tables
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.records import Record, RecordError
from flashlab.runs import Run
from flashlab.statistics import Estimate, median_interval

Planned = Callable[..., dict[str, Any]]
Rows = dict[str, dict[str, Any]]
FORWARD = tuple(0.001 + 0.00001 * i for i in range(11))
BACKWARD = (0.0025,) * 11
TIMES = ("forward_time", "backward_time", "forward_backward_time")


def runs_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the run table."""
    return list(run_rows(read_runs(plan, plan), plan["sources"]))


def metrics_of(plan: dict[str, Any], implementation: str = "Flash2") -> Rows:
    """The rows of the metric table for one implementation, by metric."""
    rows = metric_rows(read_runs(plan, plan))
    return {row["metric"]: row for row in rows if row["implementation"] == implementation}


@pytest.fixture
def failed(run: Run) -> Run:
    return replace(run, implementation="Pytorch")


@pytest.fixture
def plan(run: Run, failed: Run, planned: Planned) -> dict[str, Any]:
    warnings = ({"code": "drift", "metric": "forward_time", "share": 0.1},)
    return planned(
        [
            record_of(run, forward=FORWARD, backward=BACKWARD, warnings=warnings),
            record_of(failed, "oom", message='no room, "at all"\n頭數'),
        ]
    )


def test_a_time_has_its_median_and_its_interval_and_a_rate_follows(
    plan: dict[str, Any], run: Run
) -> None:
    found = metrics_of(plan)
    forward, backward, both = (found[name] for name in TIMES)
    rate, flops = found["forward_rate"], costs.flops(Shape.of(run))["forward"]
    assert (forward["value"], forward["unit"]) == (pytest.approx(1.05), "ms")
    assert (forward["low"], forward["high"]) == pytest.approx((1.01, 1.09), abs=0.002)
    assert (rate["value"], rate["unit"]) == (pytest.approx(flops / 1.05e-3 / 1e9), "GFLOP/s")
    assert rate["low"] == pytest.approx(flops / (forward["high"] / 1e3) / 1e9)
    assert rate["high"] == pytest.approx(flops / (forward["low"] / 1e3) / 1e9)
    assert (rate["samples"], rate["stopped"]) == (11, None)
    assert forward["GFLOP"] == flops / 1e9
    assert (forward["samples"], forward["stopped"]) == (11, "interval")
    assert backward["low"] == backward["value"] == backward["high"] == 2.5
    assert both["value"] == pytest.approx(1.05 + 2.5)
    assert both["low"] < both["value"] < both["high"]


def test_the_white_space_of_a_record_changes_no_table(plan: dict[str, Any]) -> None:
    """A report attaches records without it, and its tables must follow from these."""
    before = runs_of(plan), metrics_of(plan)
    for entry in plan["records"]:
        path = Path(entry["path"])
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=7), "utf-8")
    assert (runs_of(plan), metrics_of(plan)) == before


def test_a_run_that_failed_has_its_status_and_empty_cells_never_a_zero(
    plan: dict[str, Any], failed: Run
) -> None:
    (row,) = [row for row in runs_of(plan) if row["implementation"] == "Pytorch"]
    assert row["message"] == 'no room, "at all"\n頭數'
    found = metrics_of(plan, "Pytorch")
    assert list(found) == [metric.name for metric in ATTENTION.having(()).metrics]
    for row in found.values():
        assert row["status"] == "oom"
        assert {row[column] for column in ("value", "low", "high", "samples")} == {None}
    for name in ("forward", "backward"):
        assert found[f"{name}_time"]["GFLOP"] == costs.flops(Shape.of(failed))[name] / 1e9


def test_a_record_that_was_measured_with_another_source_is_marked(
    run: Run, planned: Planned
) -> None:
    def marked(**sources: str) -> bool:
        (row,) = runs_of(planned([record_of(run, sources=sources)]))
        return bool(row["source_changed"])

    assert marked(implementation_digest="b" * 64)
    assert not marked(implementation_digest="a" * 64)
    assert not marked()


@pytest.mark.parametrize(("key", "said"), [("path", "was asked for"), ("sha256", "sha256")])
def test_the_record_of_another_run_or_manifest_makes_no_table(
    plan: dict[str, Any], key: str, said: str
) -> None:
    first, second = plan["records"]
    first[key] = second["path"] if key == "path" else "0" * 64
    with pytest.raises(RecordError, match=said):
        read_runs(plan, plan)


def test_what_is_written_is_read_back_cell_by_cell(plan: dict[str, Any], tmp_path: Path) -> None:
    x = read_runs(plan, plan)
    write_tables(x, plan["sources"], tmp_path)
    (measured,) = (each for each in x.runs if each.status == "ok")
    samples = [
        {**measured.run.to_row(), "process": 0, "metric": name, "index": index, "value": value}
        for name, found in measured.with_numbers[0].metrics.items()
        for index, value in enumerate(found.samples)
    ]
    rows_of = {"runs": runs_of(plan), "metrics": list(metric_rows(x)), "samples": samples}
    keys, derived = run_keys(ATTENTION), [p.name for p in ATTENTION.parameters if p.derive]
    columns_of = {
        "runs": (*keys, *derived, *RUN_COLUMNS),
        "metrics": (*keys, *METRIC_COLUMNS),
        "samples": (*keys, *SAMPLE_COLUMNS),
    }
    assert set(columns_of) == set(TABLES)
    for name, columns in columns_of.items():
        found = pd.read_csv(tmp_path / f"{name}.csv", dtype=str, keep_default_na=False)
        assert tuple(found) == columns
        digits = 9 if name == "samples" else 12
        for read, row in zip(found.to_dict("records"), rows_of[name], strict=True):
            for column in columns:
                cell = row[column]
                written = f"{cell:.{digits}g}" if isinstance(cell, float) else str(cell)
                written = written.lower() if isinstance(cell, bool) else written
                assert read[column] == ("" if cell is None else written), column


@pytest.mark.parametrize(("dirty", "commit"), [(True, "abc-dirty"), (False, "abc"), (None, "abc")])
def test_a_run_measured_with_uncommitted_changes_says_so(
    run: Run, planned: Planned, dirty: bool | None, commit: str
) -> None:
    record = record_of(run)
    environment = {**record.environment, "commit": "abc", "dirty": dirty}
    (row,) = runs_of(planned([replace(record, environment=environment)]))
    assert row["commit"] == commit


# Several processes of a run


def times(factor: float) -> dict[str, tuple[float, ...]]:
    return {"forward": tuple(factor * seconds for seconds in FORWARD), "backward": BACKWARD}


def replicated(run: Run, *factors: float) -> list[Record]:
    """The records of a run whose forward pass takes so many times as long in each process."""
    return [
        record_of(run, **times(factor), sources={"process": process})
        for process, factor in enumerate(factors)
    ]


def experiment_of(folder: Path, records: list[Record]) -> Runs:
    """The experiment of these records."""
    planter = Planter(folder)
    return planter.write_plan(records)


def test_the_metrics_of_a_run_are_those_of_all_its_processes(run: Run, planned: Planned) -> None:
    plan = planned(replicated(run, 1.0, 1.02, 1.05))
    assert [row["process"] for row in runs_of(plan)] == [0, 1, 2]
    found = metrics_of(plan)
    forward, rate = found["forward_time"], found["forward_rate"]
    assert (forward["processes"], forward["samples"]) == (3, 33)
    assert forward["value"] == pytest.approx(1.05 * (1.02 * 1.05) ** (1 / 3))
    assert forward["deviation"] == pytest.approx(np.std(np.log([1, 1.02, 1.05]), ddof=1))
    alone = median_interval([1e3 * seconds for seconds in FORWARD])
    assert (forward["low"], forward["high"]) == pytest.approx((alone.low, 1.05 * alone.high))
    assert rate["high"] / rate["value"] == pytest.approx(forward["value"] / forward["low"])
    assert found["forward_backward_time"]["deviation"] > 0


def test_comparisons_have_the_value_of_the_table(run: Run, planned: Planned) -> None:
    plan = planned(replicated(run, 1.0, 1.02, 1.05))
    estimates = Estimates([read_runs(plan, plan)])
    for name in TIMES:
        (found,) = estimates.of(ATTENTION.metric(name)).values()
        assert found.median == pytest.approx(metrics_of(plan)[name]["value"], rel=1e-7), name


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
    run: Run, tmp_path: Path, statuses: Any, status: str
) -> None:
    records = [
        record_of(run, each, sources={"process": process}) for process, each in enumerate(statuses)
    ]
    (measured,) = experiment_of(tmp_path, records).runs
    assert measured.status == status
    assert {metric["status"] for metric in measured.rows.values()} == {status}
    codes = [warning["code"] for warning in measured.warnings]
    assert codes == ([] if len(set(statuses)) == 1 else [PROCESSES_DIFFER])
    if status == "ok":
        assert measured.rows["forward_time"]["processes"] == statuses.count("ok")


@pytest.mark.parametrize(("least", "is_told"), [(10.0, True), (11.9999, False)])
def test_where_processes_differ_in_an_exact_value_the_worst_counts(
    run: Run, planned: Planned, least: float, is_told: bool
) -> None:
    records = [
        record_of(run, peak=peak, sources={"process": process})
        for process, peak in enumerate((least, 12.0, least))
    ]
    peak = metrics_of(planned(records))["peak_memory"]
    ends = (least, 12.0) if is_told else (None, None)
    assert (peak["value"], peak["low"], peak["high"]) == (12.0, *ends)


# Counters


@pytest.mark.parametrize("key", ["device_name", "provider"])
def test_counters_of_another_device_or_code_are_left_out(
    run: Run, planned: Planned, key: str
) -> None:
    record = record_of(run)
    counters = counters_of(record, environment={**record.environment, key: "other"})
    rows = metrics_of(planned([record], counters=[counters]))
    assert len(rows) == len(ATTENTION.having(()).metrics)


# Rates that cannot be


def ceilings(rate: float, name: str = "Abacus") -> Ceilings:
    """Those of a device whose matrix products of any dtype do so many operations a second."""
    product = Ceiling(rate / 1e3, Estimate(1.0, 1, None))
    return Ceilings(name, dict.fromkeys(("float16", "float32"), product), product)


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
    forward = ATTENTION.metric("forward_time")
    assert forward.work is not None
    ceiling = forward.work(run) / 1e-3 / share
    records = [
        record_of(run, forward=[0.001] * 12, backward=[1.0] * 12),
        record_of(run, forward=[1.0] * 12, backward=[1.0] * 12, sources={"process": 1}),
    ]
    plan = planned(records)
    x = read_runs(plan, plan, ceilings(ceiling))
    rows = list(run_rows(x, plan["sources"]))
    assert [row["status"] for row in rows] == [status, "ok"]
    metrics = list(metric_rows(x))
    assert {row["status"] for row in metrics} == {status} and all(row["value"] for row in metrics)
    found = [{"code": "implausible", "metric": "forward_time", "share": pytest.approx(share)}] * (
        status == "implausible"
    )
    assert json.loads(rows[0]["warnings"] or "[]") == found
    for other in (ceilings(ceiling, "Slide rule"), None):
        assert read_runs(plan, plan, other).runs[0].status == "ok"
