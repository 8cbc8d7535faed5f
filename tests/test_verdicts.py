"""What a reader of the report before is told of a new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashlab.analysis.finding import Finding
from flashlab.analysis.verdict_changes import KEPT, compare_verdicts
from flashlab.files import write_json
from flashlab.plan.plan_files import records_file


def finding(implementation: str, verdict: str, kind: str = "comparison") -> Finding:
    return Finding(
        kind=kind,
        experiment="seq_len",
        subject={"implementation": implementation, "baseline": "Pytorch"}
        | {"metric": "forward_time", "variant": {"causal": False}},
        verdict=verdict,
    )


class Folder:
    """A dataset's results: the findings, and a plan of one record."""

    def __init__(self, results: Path) -> None:
        self.results, self.record = results, results / "record.json"
        self.record.touch()
        write_json(results / "plan" / "experiments.json", ["seq_len"])
        planned = {"benchmark": "attention", "records": [{"path": str(self.record)}]}
        write_json(records_file(results, "seq_len"), planned)

    def report(self, *findings: Finding) -> list[str]:
        documents = [finding.to_json() for finding in findings]
        write_json(self.results / "findings.json", documents)
        return compare_verdicts(self.results)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_verdict_that_changed_is_told_once(folder: Folder) -> None:
    others = (finding("Flex", "worse"), finding("Flash2", "below", kind="exact_comparison"))
    folder.report(finding("Flash2", "better"), *others)
    assert folder.report(finding("Flash2", "inconclusive"), *others) == [
        "1 verdict differs from the report before, from the same records:",
        "comparison seq_len Flash2 Pytorch forward_time causal=false: better is now inconclusive",
    ]
    assert folder.report(finding("Flash2", "inconclusive"), *others) == []


def test_all_verdicts_on_one_matter_are_compared(folder: Folder) -> None:
    less, more = (finding("Flash2", side, kind="exact_comparison") for side in ("less", "more"))
    folder.report(less, more)
    assert folder.report(more, less) == []
    about = "exact_comparison seq_len Flash2 Pytorch forward_time causal=false"
    assert folder.report(more)[1:] == [f"{about}: less, more is now more"]


def test_findings_that_are_new_or_gone_are_no_changed_verdicts(folder: Folder) -> None:
    folder.report(finding("Flash2", "better"))
    assert folder.report(finding("Flex", "worse")) == []


def test_runs_that_were_measured_since_are_told_apart_from_an_upgrade(folder: Folder) -> None:
    folder.report(finding("Flash2", "better"), finding("Flex", "better"))
    os.utime(folder.record, ns=(1, 1))
    said = folder.report(finding("Flash2", "worse"), finding("Flex", "worse"))
    assert said[0] == (
        "2 verdicts differ from the report before, with runs that were measured since:"
    )


def test_a_removed_experiment_measures_nothing(folder: Folder) -> None:
    folder.report(finding("Flash2", "better"))
    (other := folder.results / "other.json").touch()
    os.utime(other, ns=(1, 1))  # measured long ago, and reported again
    planned = {"benchmark": "attention", "records": [{"path": str(other)}]}
    write_json(records_file(folder.results, "seq_len"), planned)
    said = folder.report(finding("Flash2", "worse"))
    assert said[0] == "1 verdict differs from the report before, which had other runs:"
    other.touch()
    said = folder.report(finding("Flash2", "better"))
    assert said[0].endswith("with runs that were measured since:")


def test_a_file_that_cannot_be_read_is_no_report_before(folder: Folder) -> None:
    folder.results.joinpath(KEPT).write_text("[]")
    assert folder.report(finding("Flash2", "better")) == []
