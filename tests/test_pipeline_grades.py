"""Grading and verifying through Snakemake: any names, afresh at each call, without machines."""

from __future__ import annotations

import csv
import gzip
import os
import shutil
from pathlib import Path

from pdf import squeezed, text_of
from planted.course import write
from planted.project import LINKED, Project

from flashlab import machine
from flashlab_grading.verification import attachments_of


def rows(project: Project, name: str = "grades.csv") -> list[dict[str, str]]:
    with project.folder.joinpath("report", name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


WILD, MARKUP = "{wild} $(card) 'x'", "<b>&\u202e"


def test_grades_are_made_of_any_names_afresh_at_each_call(project: Project, tmp_path: Path) -> None:
    for name in LINKED:  # to read recorded datasets takes most of a grading's time
        project.folder.joinpath(name).unlink()
    folder = tmp_path / "{class}"
    for name in (WILD, MARKUP):
        write(folder / name, {"{record}.json": "{}", "a\nb.json": "["})
    folder.joinpath("{loose}\n.json").write_text("{}")
    order = ("--config", f"submissions={folder}")
    project.make("report/grades.pdf", *order)
    shown = MARKUP.replace("\u202e", "\\u202e")
    assert {row["submission"] for row in rows(project, "grades-summary.csv")} == {WILD, shown}
    text = text_of(project.folder / "report" / "grades.pdf")
    loose = "were not graded (1): {loose}\\n.json"
    for said in ("成績檢核報告", "Grading report", WILD, shown, loose):
        assert squeezed(said) in text
    (row,) = [row for row in rows(project) if row["submission"] == ""]
    assert (row["file"], row["verdict"]) == ("{loose}\\n.json", "warn")
    changed = folder / WILD / "{record}.json"
    before = changed.stat()
    changed.write_text("{,")  # of the same size, and as old
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = project.make("report/grades.csv", *order)
    assert "Grading the submissions" in said and "Measuring" not in said
    codes = {row["message.zh_TW"] for row in rows(project) if row["file"] == "{record}.json"}
    assert len(codes) == 2


def texts_attached_to(pdf: Path) -> dict[str, str]:
    return {
        name: (gzip.decompress(data) if name.endswith(".gz") else data).decode(errors="replace")
        for name, data in attachments_of(pdf.read_bytes()).items()
    }


def test_an_anonymous_report_names_no_machine_and_is_verified(
    project: Project, tmp_path: Path
) -> None:
    boot = machine.surroundings()["boot"]
    assert boot and any(boot in text for text in texts_attached_to(project.pdf).values())
    before = project.records
    with project.config() as config:
        del config["experiments"][1:]
        config["experiments"][0]["figures"] = ["time"]
    project.make("report/lab5.pdf", "--config", "anonymous=true")
    assert project.records == before, "it is made of the records that are there"
    found = texts_attached_to(project.pdf)
    private = [boot, str(project.folder)]
    assert not [(name, part) for name, text in found.items() for part in private if part in text]
    assert "anonymous-" in found["records.jsonl.gz"] and "anonymous-" in found["seq_len-runs.csv"]

    report = tmp_path / "{my} report's.pdf"  # a name that would break a rule
    shutil.copy(project.pdf, report)
    said = project.make("verify", "--config", f"pdf={report}")
    assert not [line for line in said.splitlines() if line.startswith("difference: ")], said
    assert "verdict: consistent: its data give this file, byte for byte" in said
    assert "Measuring" not in said
