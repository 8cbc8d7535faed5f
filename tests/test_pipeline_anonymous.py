"""An anonymous report: made of the records that are there, and consistent with what it attaches."""

from __future__ import annotations

import gzip
from typing import Any

from flashlab import machine
from flashlab_grading.report_pdf import attachments_of

ANONYMOUS = ("--config", "anonymous=true")


def texts(project: Any) -> dict[str, str]:
    """The attachments of the project's report as text, by name."""
    found = attachments_of(project.pdf.read_bytes())
    return {
        name: (gzip.decompress(content) if name.endswith(".gz") else content).decode(
            errors="replace"
        )
        for name, content in found.items()
    }


def test_an_anonymous_report_measures_nothing_names_no_machine_and_can_be_verified(
    project: Any,
) -> None:
    before, boot = project.records, machine.boot_id()
    assert boot and any(boot in text for text in texts(project).values())
    project.make("report/lab5.pdf", *ANONYMOUS)
    assert project.records == before
    found = texts(project)
    private = [boot, str(project.folder)]
    assert not [(name, part) for name, text in found.items() for part in private if part in text]
    assert "anonymous-" in found["records.jsonl.gz"] and "anonymous-" in found["seq_len-runs.csv"]
    assert "consistent" in project.make("verify", "--config", "pdf=report/lab5.pdf")
