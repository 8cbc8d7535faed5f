from __future__ import annotations

from typing import Any

import pytest
from flashlab.report.material import Material, stretches

from flashlab.devices import known_devices
from flashlab.report.environment import disagreements


def material(results: Any) -> Material:
    return Material(results.config, results.local, results.ceilings)


def test_records_of_one_machine_agree(results: Any) -> None:
    assert disagreements(material(results)) == []
    environment = results.compose().environment
    assert environment.varying is None
    assert environment.agreement["en"].startswith("All records agree")


@pytest.mark.parametrize("column", ["driver", "torch", "dtype", "protocol", "device_name"])
def test_records_that_disagree_are_named_with_what_each_says(results: Any, column: str) -> None:
    another = "lab5" if column == "protocol" else "another"
    if column == "driver":  # which a machine without a GPU has none of
        results.change_all_runs({column: "580.1"})
    results.change_runs("num_heads", {column: another}, first=2)
    ((field, name, by_value),) = disagreements(material(results))
    assert (field, name) == (column, "")
    assert len(by_value[another]) == 2
    composed = results.compose()
    assert composed.environment.varying is not None
    assert any("differ" in notice["en"] for notice in composed.front.notices)


def test_an_implementation_with_two_providers_is_a_disagreement(results: Any) -> None:
    results.change_runs("num_heads", {"provider": "a fork"}, first=1)
    ((field, name, by_value),) = disagreements(material(results))
    assert field == "provider" and name in ("Pytorch", "Flash2")
    assert len(by_value["a fork"]) == 1


def test_a_failed_run_may_be_without_a_provider(results: Any) -> None:
    results.change_runs("num_heads", {"provider": "", "status": "oom", "message": "none"}, first=1)
    assert disagreements(material(results)) == []
    failures = results.compose().environment.failures
    assert failures is not None and len(failures.rows) == 1


UNSTATED = dict.fromkeys(["device_name", "driver", "torch", "provider", "commit"], "")


def test_a_record_that_states_nothing_contradicts_no_other(results: Any) -> None:
    died = {"status": "error", "message": "timed out after 300 s", **UNSTATED}
    results.change_runs("num_heads", died, first=1)
    assert disagreements(material(results)) == []
    composed = results.compose()
    assert not any("differ" in notice["en"] for notice in composed.front.notices)
    assert "contradict" in composed.environment.agreement["en"]
    listed = [row.cells[1] for row in composed.environment.varying.rows]
    assert sum(cell == {"zh_TW": "未記載", "en": "not recorded"} for cell in listed) == 2
    assert len(listed) == 4  # the device's name and torch, each with what the others state


def test_records_that_disagree_do_so_beside_one_that_states_nothing(results: Any) -> None:
    results.change_runs("num_heads", {"torch": "1.0"}, first=2)
    results.change_runs("num_heads", {"torch": ""}, first=1)
    ((field, _, by_value),) = disagreements(material(results))
    assert field == "torch" and len(by_value) == 3
    assert any("differ" in notice["en"] for notice in results.compose().front.notices)


def test_on_a_cpu_no_gpu_stands_beside_the_ceilings(results: Any) -> None:
    peaks = results.compose().environment.peaks
    assert [len(row.cells) for row in peaks.rows] == [3]
    assert peaks.columns[1]["en"] == "float32 (TFLOP/s)"


def test_on_a_gpu_the_vendors_peaks_stand_below_the_ceilings(results: Any) -> None:
    results.change_all_runs({"device": "cuda", "device_name": "NVIDIA H100 PCIe"})
    peaks = results.compose().environment.peaks
    assert len(peaks.rows) == 1 + len(known_devices())
    (own,) = (row for row in peaks.rows if str(row.cells[0]).count("●"))
    assert [cell.text for cell in own.cells[:4]] == ["● H100 PCIe", "756", "51.2", "2,039"]


def test_numbers_are_told_in_stretches() -> None:
    assert stretches([7, 1, 2, 3, 9, 8]) == [(1, 3), (7, 9)]
    assert stretches([5, 5]) == [(5, 5)]
    assert stretches([]) == []
