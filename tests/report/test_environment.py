from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from flashlab.report.environment import disagreements, is_device, published_peaks
from flashlab.report.material import Material, stretches


@pytest.mark.parametrize(
    ("peak", "name", "same"),
    [
        ("H200", "NVIDIA H200", True),
        ("RTX 3070", "NVIDIA GeForce RTX 3070", True),
        ("V100-SXM2", "Tesla V100-SXM2-32GB", True),
        ("RTX 4070", "NVIDIA GeForce RTX 4070 Ti", False),
        ("L4", "NVIDIA L40S", False),
        ("H200", "NVIDIA H200 NVL", False),
    ],
)
def test_a_peak_is_that_of_the_device_of_its_name_and_no_other(
    peak: str, name: str, same: bool
) -> None:
    assert is_device(peak, name) is same


def test_every_published_peak_has_its_figures_and_its_source() -> None:
    peaks = published_peaks()
    assert {"H200", "RTX 3070"} <= {peak["device"] for peak in peaks}
    assert len({peak["device"] for peak in peaks}) == len(peaks)
    for peak in peaks:
        assert float(peak["float16_TFLOPs"]) > float(peak["float32_TFLOPs"]) > 0
        assert float(peak["bandwidth_GBs"]) > 100
        assert peak["source"].startswith("NVIDIA")


def change_runs(results: Any, experiment: str, change: dict[str, str], first: int) -> None:
    """Write these cells into the first rows of an experiment's table of runs."""
    path: Path = results.local / "tables" / experiment / "runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows[:first]:
        row.update(change)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def material(results: Any) -> Material:
    return Material(results.config, results.local, results.ceilings)


def test_records_of_one_machine_agree(results: Any) -> None:
    assert disagreements(material(results)) == []
    environment = results.compose().environment
    assert environment.disagreements is None
    assert environment.agreement["en"].startswith("All records agree")


@pytest.mark.parametrize("column", ["driver", "torch", "dtype", "protocol", "device_name"])
def test_records_that_disagree_are_named_with_what_each_says(results: Any, column: str) -> None:
    another = "lab5" if column == "protocol" else "another"
    change_runs(results, "num_heads", {column: another}, first=2)
    ((field, name, by_value),) = disagreements(material(results))
    assert (field, name) == (column, "")
    assert len(by_value[another]) == 2
    composed = results.compose()
    assert composed.environment.disagreements is not None
    assert any("differ" in notice["en"] for notice in composed.front.notices)


def test_an_implementation_with_two_providers_is_a_disagreement(results: Any) -> None:
    change_runs(results, "num_heads", {"provider": "a fork"}, first=1)
    ((field, name, by_value),) = disagreements(material(results))
    assert field == "provider" and name in ("Pytorch", "Flash2")
    assert len(by_value["a fork"]) == 1


def test_a_failed_run_may_be_without_a_provider(results: Any) -> None:
    change_runs(results, "num_heads", {"provider": "", "status": "oom", "message": "none"}, first=1)
    assert disagreements(material(results)) == []
    failures = results.compose().environment.failures
    assert failures is not None and len(failures.rows) == 1


def test_numbers_are_told_in_stretches() -> None:
    assert stretches([7, 1, 2, 3, 9, 8]) == [(1, 3), (7, 9)]
    assert stretches([5, 5]) == [(5, 5)]
    assert stretches([]) == []
