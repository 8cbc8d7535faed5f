"""What a reader of the report before is told of a new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flashlab.files import write_json
from flashlab.plan_files import records_file
from flashlab.verdicts import KEPT, compare_verdicts


def finding(implementation: str, verdict: str, kind: str = "speedup") -> dict[str, Any]:
    subject = {"implementation": implementation, "baseline": "Pytorch", "mask": "full"}
    return {"kind": kind, "experiment": "seq_len", "subject": subject, "verdict": verdict}


class Folder:
    """A dataset's results: the findings, and a plan of one record."""

    def __init__(self, results: Path) -> None:
        self.results, self.record = results, results / "record.json"
        self.record.touch()
        write_json(results / "plan" / "experiments.json", ["seq_len"])
        planned = {"records": [{"path": str(self.record)}]}
        write_json(records_file(results, "seq_len"), planned)

    def report(self, *findings: dict[str, Any]) -> list[str]:
        write_json(self.results / "findings.json", findings)
        return compare_verdicts(self.results)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_first_report_differs_from_none(folder: Folder) -> None:
    assert folder.report(finding("Flash2", "faster")) == []


def test_a_verdict_that_changed_is_told_once(folder: Folder) -> None:
    others = (finding("Flex", "slower"), finding("Flash2", "below", kind="memory_ratio"))
    folder.report(finding("Flash2", "faster"), *others)
    assert folder.report(finding("Flash2", "inconclusive"), *others) == [
        "1 verdict differs from the report before, from the same records:",
        "speedup seq_len Flash2 Pytorch full: faster is now inconclusive",
    ]
    assert folder.report(finding("Flash2", "inconclusive"), *others) == []


def test_findings_that_are_new_or_gone_are_no_changed_verdicts(folder: Folder) -> None:
    folder.report(finding("Flash2", "faster"))
    assert folder.report(finding("Flex", "slower")) == []


def test_runs_that_were_measured_since_are_told_apart_from_an_upgrade(folder: Folder) -> None:
    folder.report(finding("Flash2", "faster"), finding("Flex", "faster"))
    os.utime(folder.record, ns=(1, 1))
    said = folder.report(finding("Flash2", "slower"), finding("Flex", "slower"))
    assert said[0] == (
        "2 verdicts differ from the report before, with runs that were measured since:"
    )


def test_a_file_that_cannot_be_read_is_no_report_before(folder: Folder) -> None:
    folder.results.joinpath(KEPT).write_text("[]")
    assert folder.report(finding("Flash2", "faster")) == []
