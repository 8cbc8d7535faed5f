"""Grading and verifying through Snakemake: any names, afresh at each call, reproduction."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import LINKED
from planted.course import course_result, write_results

from flashlab import machine
from flashlab.benchmarks.attention.shape import Shape
from flashlab_grading.verification import attachments_of

GRADES = "report/grades.csv"
SHAPE = Shape(2, 256, 8, 256, False)
NAMES = {"Pytorch": "naive.json", "Flash2": "{flash} 2.json"}


@pytest.fixture(scope="module")
def grader(copy_finished: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder for grading, with a finished report.

    It has no recorded datasets: to read them takes most of a grading's time.
    """
    project = copy_finished(tmp_path_factory.mktemp("grader") / "lab", short_report=True)
    for name in LINKED:
        project.folder.joinpath(name).unlink()
    return project


def rows(project: Any, name: str = "grades.csv") -> list[dict[str, str]]:
    with project.folder.joinpath("report", name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of_check(project: Any, check: str) -> list[tuple[str, str, str]]:
    """(submission, file, verdict) of a check."""
    found = (row for row in rows(project) if row["check"] == check)
    return sorted((row["submission"], row["file"], row["verdict"]) for row in found)


def write_class(folder: Path) -> Path:
    """Two submissions under names that would break a rule, one with a file that is no JSON."""
    for name in ("{wild} $(card) 'x'", "<b>&\u202e"):
        own = folder / name
        own.mkdir(parents=True)
        own.joinpath("{record}.json").write_text("{}")
        own.joinpath("a\nb.json").write_text("[")
    return folder


def test_grades_are_made_of_any_names_and_afresh_at_each_call(
    grader: Any, tmp_path: Path, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    folder = write_class(tmp_path / "{class}")
    folder.joinpath("{loose}\n.json").write_text("{}")
    order = ("--config", f"submissions={folder}")
    grader.make("report/grades.pdf", *order)
    assert {row["submission"] for row in rows(grader, "grades-summary.csv")} == {
        "{wild} $(card) 'x'",
        "<b>&\\u202e",
    }
    text = text_of(grader.folder / "report" / "grades.pdf")
    loose = "were not graded (1): {loose}\\n.json"
    for said in ("成績檢核報告", "Grading report", "{wild} $(card) 'x'", "<b>&\\u202e", loose):
        assert squeezed(said) in text
    (row,) = [row for row in rows(grader) if row["submission"] == ""]
    assert (row["file"], row["verdict"]) == ("{loose}\\n.json", "warn")
    changed = folder / "{wild} $(card) 'x'" / "{record}.json"
    before = changed.stat()
    changed.write_text("{,")  # of the same size, and as old
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = grader.make(GRADES, *order)
    assert "Grading the submissions" in said
    assert "Measuring" not in said
    codes = {row["message.zh_TW"] for row in rows(grader) if row["file"] == "{record}.json"}
    assert len(codes) == 2


@pytest.mark.parametrize(
    ("target", "config", "expected"),
    [
        (GRADES, (), "--config submissions=DIR"),
        (GRADES, ("--config", "submissions=tests/gone"), "there is no folder tests/gone"),
        ("verify", (), "--config pdf=PATH"),
    ],
)
def test_what_cannot_be_graded_or_verified_is_one_message_that_says_what_to_give(
    grader: Any, target: str, config: tuple[str, ...], expected: str
) -> None:
    done = grader.snakemake("--cores", "1", target, *config)
    assert done.returncode != 0
    assert expected in done.stdout
    assert "most recent call" not in done.stdout


# Reproduction, on the CPU


def test_results_of_other_devices_are_not_measured_again(grader: Any, tmp_path: Path) -> None:
    both = dict.fromkeys(NAMES, (0.001, 0.002))
    write_submission(tmp_path / "class" / "ann", both, "NVIDIA GeForce RTX 3070")
    write_submission(tmp_path / "class" / "cem", both, "")
    order = ("--config", f"submissions={tmp_path / 'class'}", "reproduce=1")
    done = grader.snakemake("--cores", "1", GRADES, *order)
    assert done.returncode != 0
    assert "Measuring" not in done.stdout and "most recent call" not in done.stdout
    assert "--config: reproduce: no submission has a declared run of 0.3 ms or more" in done.stdout


def write_submission(folder: Path, seconds: dict[str, tuple[float, ...]], device: str) -> None:
    """One result of each implementation, with the seconds of its passes."""
    shutil.rmtree(folder, ignore_errors=True)
    results = {
        NAMES[who]: (who, SHAPE, course_result(SHAPE, *times)) for who, times in seconds.items()
    }
    write_results(folder, results, device)


@pytest.mark.scheduled  # the parts: grading/test_reproduction.py
def test_declared_runs_are_measured_again_here(grader: Any, tmp_path: Path) -> None:
    """The measurements are kept: submissions are then made to agree with them, or not."""
    folder = tmp_path / "class"
    order = ("--config", f"submissions={folder}", "reproduce=2")
    here = machine.device_name("cpu")
    write_submission(folder / "ann", dict.fromkeys(NAMES, (0.001, 0.002)), here)
    said = grader.make(GRADES, *order)
    assert said.count("Measuring") == 2
    assert "reproduce: 2 runs, 2 of them still to be measured" in said
    paths = list(grader.folder.glob("results/local/records/*-b2-n256-h8-e256-*.json"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    assert {record["record"]["protocol"]["name"] for record in records} == {"lab5"}
    seconds = {
        record["record"]["run"]["implementation"]: tuple(
            record[name]["time(s)"] for name in ("forward", "backward")
        )
        for record in records
    }
    for path, record in zip(paths, records, strict=True):  # whatever else this machine does
        record["record"]["warnings"] = []
        path.write_text(json.dumps(record))

    def write_scaled(name: str, device: str, naive: float, flash: float) -> None:
        factors = {"Pytorch": naive, "Flash2": flash}
        scaled = {who: tuple(factors[who] * t for t in times) for who, times in seconds.items()}
        write_submission(folder / name, scaled, device)

    write_scaled("ann", here, 1.5, 0.9)
    write_scaled("bob", "another machine (8 CPUs)", 9, 9)
    assert "Measuring" not in grader.make(GRADES, *order)
    assert of_check(grader, "reproduction") == [
        ("ann", "naive.json", "fail"),
        ("ann", "{flash} 2.json", "pass"),
        ("bob", "", "not_checked"),
    ]
    assert grader.plan() == set(), "the report is as it was"


# Verifying a report


def texts_attached_to(pdf: Path) -> dict[str, str]:
    return {
        name: (gzip.decompress(content) if name.endswith(".gz") else content).decode(
            errors="replace"
        )
        for name, content in attachments_of(pdf.read_bytes()).items()
    }


@pytest.fixture(scope="module")
def anonymous(copy_finished: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder whose report has one experiment and names no machine."""
    project = copy_finished(tmp_path_factory.mktemp("anonymous") / "lab", short_report=True)
    before = project.records
    with project.config() as config:
        del config["experiments"][1:]
    project.make("report/lab5.pdf", "--config", "anonymous=true")
    assert project.records == before, "it is made of the records that are there"
    return project


def test_an_anonymous_report_names_no_machine_and_is_verified(
    grader: Any, abridged: Any, anonymous: Any, tmp_path: Path
) -> None:
    boot = machine.surroundings()["boot"]
    assert boot and any(boot in text for text in texts_attached_to(abridged.pdf).values())
    found = texts_attached_to(anonymous.pdf)
    private = [boot, str(anonymous.folder)]
    assert not [(name, part) for name, text in found.items() for part in private if part in text]
    assert "anonymous-" in found["records.jsonl.gz"] and "anonymous-" in found["seq_len-runs.csv"]

    report = tmp_path / "{my} report's.pdf"  # a name that would break a rule
    shutil.copy(anonymous.pdf, report)
    done = grader.snakemake("--cores", "1", "verify", "--config", f"pdf={report}")
    said = done.stdout
    assert not [line for line in said.splitlines() if line.startswith("difference: ")], said
    assert "verdict: consistent: its data give this file, byte for byte" in said
    assert done.returncode == 0 and "Measuring" not in said
