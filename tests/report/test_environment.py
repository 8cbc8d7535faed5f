from __future__ import annotations

from typing import Any

import pytest

from flashlab.devices import known_devices
from flashlab.files import read_json, write_json
from flashlab.report import environment
from flashlab.report.data import stretches
from flashlab.report.document import Cell, Environment, Report


def composed(results: Any) -> Report:
    """The report, after its findings were derived from the tables as they were changed."""
    results.derive_findings()
    report: Report = results.compose()
    return report


def disagreements(environment: Environment) -> list[list[str]]:
    """The rows on what the records state differently, in English."""
    rows = environment.varying.rows if environment.varying else []
    return [[c.text if isinstance(c, Cell) else c["en"] for c in row.cells] for row in rows]


def warns(report: Report) -> bool:
    """Whether page one says that the records disagree."""
    return any("differ" in notice["en"] for notice in report.front.notices)


def test_records_of_one_machine_agree(results: Any) -> None:
    report = composed(results)
    assert disagreements(report.environment) == []
    assert report.environment.agreement["en"].startswith("The records of the experiments agree")
    assert not warns(report)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("driver", "Driver"),
        ("torch", "torch"),
        ("dtype", "Number format"),
        ("protocol", "Protocol"),
        ("device_name", "Device"),
    ],
)
def test_records_that_disagree_are_listed_with_what_each_states(
    results: Any, column: str, name: str
) -> None:
    if column == "driver":  # which a machine without a GPU has none of
        results.change_all_runs({column: "580.1"})
    another = {"protocol": "lab5", "dtype": "bfloat16"}.get(column, "another")
    results.change_runs("num_heads", {column: another}, first=2)
    report = composed(results)
    rows = disagreements(report.environment)
    assert [row[0] for row in rows if row[0]] == [name]
    ((_, _, count, numbers),) = (row for row in rows if row[1] == another)
    assert (len(rows), count) == (2, "2") and numbers
    assert report.environment.agreement["en"].startswith("The records disagree")
    assert warns(report)


def test_an_implementation_with_two_providers_is_a_disagreement(results: Any) -> None:
    results.change_runs("num_heads", {"provider": "a fork"}, first=1)
    rows = disagreements(composed(results).environment)
    assert rows[0][0] in ("Package of Pytorch", "Package of Flash2")
    assert sorted(row[2] for row in rows if row[1] == "a fork") == ["1"]


def test_a_failed_run_may_be_without_a_provider(results: Any) -> None:
    results.change_runs("num_heads", {"provider": "", "status": "oom", "message": "none"}, first=1)
    environment = composed(results).environment
    assert disagreements(environment) == []
    assert environment.failures is not None and len(environment.failures.rows) == 1


UNSTATED = dict.fromkeys(["device_name", "driver", "torch", "provider", "commit"], "")


def test_a_record_that_states_nothing_contradicts_no_other(results: Any) -> None:
    died = {"status": "error", "message": "timed out after 300 s", **UNSTATED}
    results.change_runs("num_heads", died, first=1)
    report = composed(results)
    assert not warns(report)
    assert "contradict" in report.environment.agreement["en"]
    rows = disagreements(report.environment)
    assert [row[0] for row in rows] == ["Device", "", "torch", ""]
    assert [row[1] for row in rows].count("not recorded") == 2


def test_records_that_disagree_do_so_beside_one_that_states_nothing(results: Any) -> None:
    results.change_runs("num_heads", {"torch": "1.0"}, first=2)
    results.change_runs("num_heads", {"torch": ""}, first=1)
    report = composed(results)
    assert [row[0] for row in disagreements(report.environment)] == ["torch", "", ""]
    assert warns(report)


def test_what_a_record_states_is_printed_in_the_reports_own_fonts(results: Any) -> None:
    results.change_runs("num_heads", {"torch": "2.0😀"}, first=1)
    assert "2.0〓" in [row[1] for row in disagreements(composed(results).environment)]


def test_on_a_cpu_no_gpu_stands_beside_the_ceilings(results: Any) -> None:
    peaks = results.compose().environment.peaks
    assert [len(row.cells) for row in peaks.rows] == [3]
    assert peaks.columns[1]["en"] == "float32 (TFLOP/s)"


def test_on_a_gpu_the_vendors_peaks_stand_below_the_ceilings(results: Any) -> None:
    results.change_all_runs({"device": "cuda", "device_name": "NVIDIA H100 PCIe"})
    peaks = results.compose().environment.peaks
    assert len(peaks.rows) == 1 + len(known_devices())
    (own,) = (row for row in peaks.rows if row.cells[0]["en"] == "Data sheet: H100 PCIe")
    assert [cell.text for cell in own.cells[1:4]] == ["756", "51.2", "2,039"]


def test_the_ceilings_are_those_of_the_number_format_that_was_measured(results: Any) -> None:
    """A report on bfloat16 has its rate beside the formats that vendors state."""
    measured = {"device": "cuda", "device_name": "NVIDIA H200", "dtype": "bfloat16"}
    results.change_all_runs(measured)
    peaks = results.compose().environment.own_peaks
    headings = [column["en"].partition(" ")[0] for column in peaks.columns[1:4]]
    assert headings == ["bfloat16", "float16", "float32"]


def test_runs_with_uncommitted_changes_are_named(results: Any) -> None:
    results.change_all_runs({"commit": "abc"})
    assert not any("uncommitted" in notice["en"] for notice in notices(results))
    results.change_runs("num_heads", {"commit": "abc-dirty"}, first=2)
    (named,) = (notice for notice in notices(results) if "uncommitted" in notice["en"])
    assert named["en"].startswith("2 runs were measured with uncommitted changes")
    assert "未提交的修改" in named["zh_TW"]


def test_many_runs_with_uncommitted_changes_are_counted(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "MOST_STRETCHES", 0)
    results.change_all_runs({"commit": "abc-dirty"})
    (counted,) = (notice for notice in notices(results) if "uncommitted" in notice["en"])
    assert "runs.csv" in counted["en"] and "runs.csv" in counted["zh_TW"]


def notices(results: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = results.compose().environment.notices
    return found


def test_both_states_of_a_ceiling_are_listed(results: Any) -> None:
    ceilings = read_json(results.ceilings)
    product = ceilings["matrix_product"]["float32"]
    product["samples"] = [1e-3 * (1 + i % 3 / 1000) * (1.1 if i > 20 else 1) for i in range(50)]
    write_json(results.ceilings, ceilings)
    unthrottled, sustained = results.compose().environment.peaks.rows
    assert unthrottled.cells[0]["en"].startswith("Measured, unthrottled:")
    assert sustained.cells[0]["en"].startswith("Measured, sustained:")
    rates = [float(row.cells[1].text.replace(",", "")) for row in (unthrottled, sustained)]
    assert rates[0] / rates[1] == pytest.approx(1.1, rel=0.01)
    assert unthrottled.cells[2].text == sustained.cells[2].text  # the copy did not fall


def test_numbers_are_told_in_stretches() -> None:
    assert stretches([7, 1, 2, 3, 9, 8]) == [(1, 3), (7, 9)]
    assert stretches([5, 5]) == [(5, 5)]
    assert stretches([]) == []
