from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.records import RecordError
from flashlab.runs import Run
from flashlab.tables import (
    PASS_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    read_csv,
    tables_of,
    write_csv,
    write_tables,
)

Build = Callable[..., dict[str, Any]]
FORWARD = tuple(0.001 + 0.00001 * i for i in range(11))
BACKWARD = (0.0025,) * 11


@pytest.fixture
def failed(run: Run) -> Run:
    return replace(run, implementation="Pytorch")


@pytest.fixture
def plan(run: Run, failed: Run, record_of: Build, planned: Build) -> dict[str, Any]:
    warnings = [{"code": "drift", "pass": "forward", "share": 0.1}]
    return planned(
        [
            record_of(run, forward=FORWARD, backward=BACKWARD, warnings=warnings),
            record_of(failed, "oom", message='no room, "at all"\n頭數'),
        ]
    )


def test_there_is_a_row_a_run_a_row_a_pass_and_a_row_a_sample(plan: dict[str, Any]) -> None:
    tables = tables_of(plan)
    assert [row["status"] for row in tables.runs] == ["ok", "oom"]
    assert len(tables.passes) == 2 * 3
    assert len(tables.samples) == 2 * 11


def test_a_pass_has_its_median_its_interval_and_its_rate(plan: dict[str, Any], run: Run) -> None:
    forward, backward, both = tables_of(plan).passes[:3]
    flops = costs.flops(Shape.of(run))
    assert forward["time_ms"] == pytest.approx(1.05)
    assert (forward["time_low_ms"], forward["time_high_ms"]) == pytest.approx((1.01, 1.09))
    assert forward["rate_TFLOPs"] == pytest.approx(flops["forward"] / 1.05e-3 / 1e12)
    assert forward["rate_low_TFLOPs"] == pytest.approx(flops["forward"] / 1.09e-3 / 1e12)
    assert forward["GFLOPs"] == flops["forward"] / 1e9
    assert (forward["samples"], forward["stopped"]) == (11, "interval")
    assert backward["time_low_ms"] == backward["time_ms"] == backward["time_high_ms"] == 2.5
    assert both["time_ms"] == pytest.approx(1.05 + 2.5)
    assert both["time_low_ms"] < both["time_ms"] < both["time_high_ms"]


def test_a_run_that_failed_has_its_status_and_empty_cells_never_a_zero(
    plan: dict[str, Any], failed: Run
) -> None:
    tables = tables_of(plan)
    (row,) = [row for row in tables.runs if row["implementation"] == "Pytorch"]
    assert row["peak_memory_MiB"] is None
    assert row["message"] == 'no room, "at all"\n頭數'
    for row in tables.passes[3:]:
        numbers = {column for column in PASS_COLUMNS if column.endswith(("_ms", "_TFLOPs"))}
        assert {row[column] for column in numbers | {"samples"}} == {None}
        assert row["GFLOPs"] == costs.flops(failed.shape)[row["pass"]] / 1e9
    assert all(row["implementation"] == "Flash2" for row in tables.samples)


def test_a_mean_without_samples_has_no_interval(run: Run, record_of: Build, planned: Build) -> None:
    record = record_of(run, samples={"forward": [], "backward": []})
    for row in tables_of(planned([record])).passes:
        assert row["time_ms"] > 0
        assert (row["time_low_ms"], row["rate_high_TFLOPs"], row["samples"]) == (None, None, 0)


def test_a_record_that_was_measured_with_another_source_is_marked(
    run: Run, record_of: Build, planned: Build
) -> None:
    def marked(**sources: str) -> bool:
        (row,) = tables_of(planned([record_of(run, sources=sources)])).runs
        return bool(row["source_changed"])

    same, other = {"implementation_sha256": "0" * 64}, {"implementation_sha256": "1" * 64}
    assert marked(**other) and not marked(**same)
    # A file that differs in comments alone has another hash and the same digest.
    assert not marked(**other, implementation_digest="a" * 64)
    assert marked(**same, implementation_digest="b" * 64)
    assert not marked()


def test_tables_name_the_record_that_each_run_comes_from(plan: dict[str, Any]) -> None:
    for row in tables_of(plan).runs:
        assert row["sha256"] == hashlib.sha256(Path(row["record"]).read_bytes()).hexdigest()


def test_the_record_of_another_run_makes_no_table(plan: dict[str, Any]) -> None:
    first, second = plan["records"]
    first["path"], second["path"] = second["path"], first["path"]
    with pytest.raises(RecordError, match="was asked for"):
        tables_of(plan)


def test_a_record_that_differs_from_its_manifest_makes_no_table(plan: dict[str, Any]) -> None:
    plan["records"][0]["sha256"] = "0" * 64
    with pytest.raises(RecordError, match="sha256"):
        tables_of(plan)


def test_what_is_written_is_read_back_cell_by_cell(plan: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    files = [tmp_path / f"{name}.csv" for name in ("runs", "passes", "samples")]
    write_tables(tmp_path / "plan.json", *files)
    tables = tables_of(plan)
    for file, columns, rows in zip(
        files,
        (RUN_COLUMNS, PASS_COLUMNS, SAMPLE_COLUMNS),
        (tables.runs, tables.passes, tables.samples),
        strict=True,
    ):
        for read, row in zip(read_csv(file), rows, strict=True):
            assert tuple(read) == columns
            for column in columns:
                expected = row[column]
                if column == "warnings":
                    expected = json.loads(expected) if expected else None
                if isinstance(expected, float):
                    expected = float(f"{expected:.9g}")
                assert read[column] == expected, column


def test_the_files_are_plain_csv_with_units_in_their_columns(
    plan: dict[str, Any], tmp_path: Path
) -> None:
    write_csv(tmp_path / "passes.csv", PASS_COLUMNS, tables_of(plan).passes)
    content = (tmp_path / "passes.csv").read_bytes()
    assert b"\r" not in content
    header, *rows = csv.reader(content.decode().splitlines())
    assert {"time_ms", "rate_TFLOPs", "GFLOPs", "causal"} <= set(header)
    assert {row[header.index("causal")] for row in rows} == {"false"}
