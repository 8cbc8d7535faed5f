from __future__ import annotations

from typing import Any

import pytest
from report.reading import cells, en

from flashlab.analysis.experiment import metrics_of
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.devices import known_devices
from flashlab.files import read_json, write_json
from flashlab.report import environment
from flashlab.report.document import Environment, Report


def composed(results: Any) -> Report:
    """The report, after it was observed from the tables as they were changed."""
    results.observe()
    report: Report = results.compose()
    return report


def disagreements(environment: Environment) -> list[list[str]]:
    """The rows on what the records state differently, in English."""
    return [cells(row) for row in environment.varying.rows] if environment.varying else []


def warns(report: Report) -> bool:
    """True if page one says that the records disagree."""
    return any("differ" in en(notice) for notice in report.front.notices)


UNSTATED = dict.fromkeys(["device_name", "driver", "torch", "provider", "commit"], "")


def test_a_record_that_states_nothing_contradicts_no_other(results: Any) -> None:
    died = {"status": "error", "message": "timed out after 300 s", **UNSTATED}
    results.change_runs("num_heads", died, first=1)
    report = composed(results)
    assert not warns(report)
    assert "contradict" in en(report.environment.agreement)
    rows = disagreements(report.environment)
    assert [row[0] for row in rows] == ["Device", "", "torch", ""]
    assert [row[1] for row in rows].count("not recorded") == 2
    another = {"torch": "1.0", "driver": "580.1", "dtype": "bfloat16", "protocol": "lab5"}
    results.change_runs("emb_dim", another, first=2)
    report = composed(results)
    rows = disagreements(report.environment)
    fields = {"Device", "Driver", "torch", "Number format", "Protocol"}
    assert {row[0] for row in rows if row[0]} == fields
    assert [row[2] for row in rows if row[1] in another.values()] == ["2"] * len(another)
    assert en(report.environment.agreement).startswith("The records disagree")
    assert warns(report)


def test_the_ceilings_stand_above_the_vendors_peaks_where_a_gpu_was_measured(results: Any) -> None:
    found = read_json(results.ceilings)
    for timed in (found["copy"], *found["matrix_product"].values()):
        timed["samples"] = [timed["time(s)"]] * 9  # on a machine that was busy now and then, too
    write_json(results.ceilings, found)
    peaks = results.compose().environment.peaks
    assert [len(row.cells) for row in peaks.rows] == [3]  # of a CPU, in the format measured
    assert en(peaks.columns[1]) == "float32 (GFLOP/s)"
    results.change_all_runs({"device": "cuda", "device_name": "NVIDIA H100 PCIe"})
    peaks = results.compose().environment.peaks
    assert len(peaks.rows) == 1 + len(known_devices())
    (own,) = (row for row in map(cells, peaks.rows) if row[0] == "Data sheet: H100 PCIe")
    assert own[1:4] == ["756", "51.2", "2,039"]
    # A report on bfloat16 has its rate beside the formats that vendors state.
    measured = {"device": "cuda", "device_name": "NVIDIA H200", "dtype": "bfloat16"}
    results.change_all_runs(measured)
    headings = [en(column) for column in results.compose().environment.own_peaks.columns[1:4]]
    assert [heading.partition(" ")[0] for heading in headings] == ["bfloat16", "float16", "float32"]


def uncommitted(results: Any) -> list[str]:
    """The notices on uncommitted changes."""
    notices = map(en, results.compose().environment.notices)
    return [notice for notice in notices if "uncommitted" in notice]


def test_runs_with_uncommitted_changes_are_named_or_counted(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.change_all_runs({"commit": "abc"})
    assert uncommitted(results) == []
    results.change_runs("num_heads", {"commit": "abc-dirty"}, first=2)
    (named,) = uncommitted(results)
    assert named.startswith("2 runs were measured with uncommitted changes")
    monkeypatch.setattr(environment, "MOST_STRETCHES", 0)
    (counted,) = uncommitted(results)
    assert "runs.csv" in counted


def test_both_states_of_a_ceiling_are_listed(results: Any) -> None:
    ceilings = read_json(results.ceilings)
    product = ceilings["matrix_product"]["float32"]
    product["samples"] = [1e-3 * (1 + i % 3 / 1000) * (1.1 if i > 20 else 1) for i in range(50)]
    write_json(results.ceilings, ceilings)
    initial, sustained = map(cells, results.compose().environment.peaks.rows)
    assert initial[0].startswith("Measured, at first:")
    assert sustained[0].startswith("Measured, sustained:")
    rates = [float(row[1].replace(",", "")) for row in (initial, sustained)]
    assert rates[0] / rates[1] == pytest.approx(1.1, rel=0.01)
    assert initial[2] == sustained[2]  # the copy did not fall


def test_medians_are_counted_whose_interval_is_wider_than_the_margin(results: Any) -> None:
    """Half of it: a median that is known to within 4% is known to within 5%."""

    def know(experiment: str, metric: str, low: str, high: str) -> None:
        def edit(rows: Any) -> Any:
            known = {"value": "1", "low": low, "high": high}
            return [row | known if row["metric"] == metric else row for row in rows]

        results.edit_table(experiment, "metrics", edit)

    def wide() -> list[str]:
        notices = map(en, results.compose().environment.notices)
        return [notice for notice in notices if "are not known to within ±5%" in notice]

    for name in results.names:
        for metric in metrics_of(ATTENTION, exact=False):
            know(name, metric.name, "0.96", "1.04")
    assert wide() == []
    know("num_heads", "forward_time", "0.94", "1.06")
    (counted,) = wide()
    assert not counted.startswith("0 of ")
