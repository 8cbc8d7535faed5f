"""Changed verdicts, as told to a reader of the report before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.experiment import COMPARISONS
from flashlab.analysis.verdict_changes import KEPT, MOST_LISTED, compare_verdicts
from flashlab.files import write_json
from flashlab.plan.plan_files import RECORDS

COLUMNS = "experiment,compared,variant,metric,subject,reference,value,ratio,low,high,verdict"


def row(implementation: str, verdict: str, value: int | str = 128) -> str:
    about = f"seq_len,{IMPLEMENTATIONS},causal=false,forward_time,{implementation},Pytorch"
    return f"{about},{value},2.0,,,{verdict}"


class Folder:
    """A dataset's results: the comparisons, and a plan of one record."""

    def __init__(self, results: Path) -> None:
        self.results, self.record = results, results / "record.json"
        self.record.touch()
        self.plan(self.record)

    def plan(self, record: Path) -> None:
        write_json(self.results / RECORDS, {"experiments": {"seq_len": [{"path": str(record)}]}})

    def report(self, *rows: str) -> list[str]:
        (self.results / COMPARISONS).write_text("\n".join([COLUMNS, *rows, ""]))
        return compare_verdicts(self.results)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_verdict_that_changed_is_told_once(folder: Folder) -> None:
    others = (row("Flex", "below"), row("Flash2", "below", ""))
    folder.report(row("Flash2", "above"), *others)
    assert folder.report(row("Flash2", "inconclusive"), *others) == [
        "1 of 3 verdicts changed since the report before, from the same records:",
        "seq_len causal=false forward_time at 128: Flash2 / Pytorch: above is now inconclusive",
    ]
    assert folder.report(row("Flash2", "inconclusive"), *others) == []
    pooled = folder.report(row("Flash2", "inconclusive"), others[0], row("Flash2", "equal", ""))
    assert pooled[1:] == [
        "seq_len causal=false forward_time pooled: Flash2 / Pytorch: below is now equal"
    ]


def test_of_many_changes_the_first_are_listed(folder: Folder) -> None:
    folder.report(*(row("Flash2", "above", n) for n in range(MOST_LISTED + 3)))
    said = folder.report(*(row("Flash2", "equal", n) for n in range(MOST_LISTED + 3)))
    assert len(said) == MOST_LISTED + 2 and said[-1] == "and 3 more"


def test_comparisons_that_are_new_or_gone_are_no_changed_verdicts(folder: Folder) -> None:
    folder.report(row("Flash2", "above"))
    assert folder.report(row("Flex", "below")) == []


def test_runs_that_were_measured_since_are_told_apart_from_an_upgrade(folder: Folder) -> None:
    folder.report(row("Flash2", "above"), row("Flex", "above"))
    os.utime(folder.record, ns=(1, 1))
    said = folder.report(row("Flash2", "below"), row("Flex", "below"))
    assert said[0] == (
        "2 of 2 verdicts changed since the report before, with runs that were measured since:"
    )


def test_a_removed_experiment_measures_nothing(folder: Folder) -> None:
    folder.report(row("Flash2", "above"))
    (other := folder.results / "other.json").touch()
    os.utime(other, ns=(1, 1))  # measured long ago, and reported again
    folder.plan(other)
    said = folder.report(row("Flash2", "below"))
    assert said[0] == "1 of 1 verdicts changed since the report before, which had other runs:"
    other.touch()
    said = folder.report(row("Flash2", "above"))
    assert said[0].endswith("with runs that were measured since:")


def test_a_record_that_is_new_was_measured_since_if_it_is_newer_than_the_report(
    folder: Folder,
) -> None:
    """As after an upgrade, which gives each record another name."""
    folder.report(row("Flash2", "above"))
    (other := folder.results / "other.json").touch()
    os.utime(other, (2**31, 2**31))
    folder.plan(other)
    said = folder.report(row("Flash2", "below"))
    assert said[0].endswith("with runs that were measured since:")


def test_a_file_that_cannot_be_read_is_no_report_before(folder: Folder) -> None:
    folder.results.joinpath(KEPT).write_text("[]")
    assert folder.report(row("Flash2", "above")) == []
