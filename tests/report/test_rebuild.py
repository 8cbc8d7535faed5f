"""The records attached to a report, planned again run by run and process by process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flashlab.records import Record
from flashlab.report import rebuild
from flashlab.report.rebuild import AttachmentError
from flashlab.runs import Run

Build = Callable[..., Record]


def attached(record_of: Build, run: Run, *processes: int) -> dict[str, object]:
    return {
        f"{position}.json": replace(record_of(run), sources={"process": process}).to_json()
        for position, process in enumerate(processes)
    }


def test_the_processes_of_a_run_are_one_planned_run(
    run: Run, record_of: Build, tmp_path: Path
) -> None:
    entry = rebuild._write_records(attached(record_of, run, 2, 0, 1), tmp_path)
    assert [part.process for part in entry] == [0, 1, 2]
    assert [part.path.name for part in entry] == ["1.json", "2.json", "0.json"]


@pytest.mark.parametrize(
    ("process", "why"),
    [(0, "is attached twice"), *((each, r"sources\.process") for each in (-1, "1", None))],
)
def test_a_process_that_is_there_already_or_no_number_is_refused(
    run: Run, record_of: Build, tmp_path: Path, process: object, why: str
) -> None:
    documents = attached(record_of, run, 0, 1)
    documents["1.json"]["record"]["sources"]["process"] = process  # type: ignore[index]
    with pytest.raises(AttachmentError, match=why):
        rebuild._write_records(documents, tmp_path)
