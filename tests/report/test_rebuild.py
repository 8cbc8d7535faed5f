"""The records attached to a report, planned again run by run and process by process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted.records import record_of

from flashlab.report import rebuild
from flashlab.report.rebuild import AttachmentError
from flashlab.runs import Run


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ((2, 0, 1), None),
        ((0, 0), "is attached twice"),
        *(((0, each), r"sources\.process") for each in (-1, "1", None)),
    ],
)
def test_the_processes_of_a_run_are_one_planned_run_or_refused(
    run: Run, tmp_path: Path, processes: tuple[object, ...], why: str | None
) -> None:
    """One that is there already, or is no number, is no process."""
    documents = {
        f"{i}.json": replace(record_of(run), sources={"process": process}).to_json()
        for i, process in enumerate(processes)
    }
    if why:
        with pytest.raises(AttachmentError, match=why):
            rebuild._write_records(documents, tmp_path)
    else:
        entry = rebuild._write_records(documents, tmp_path)
        found = [(part.process, part.path.name) for part in entry]
        assert found == [(0, "1.json"), (1, "2.json"), (2, "0.json")]
