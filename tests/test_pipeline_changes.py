"""Calls that fail, are mended, are made twice or beside one another: nothing is lost by them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest


def test_a_report_that_fails_leaves_the_one_before_it_and_is_to_be_made_once_mended(
    project: Any,
) -> None:
    before, template = project.pdf.read_bytes(), "templates/report.html.j2"
    project.append(template, "{{ nothing_of_this_name }}\n")
    done = project.snakemake("--cores", "1", "report/lab5.pdf")
    assert done.returncode != 0
    assert "nothing_of_this_name" in done.stdout
    assert "report/lab5.pdf is still the one from before this call" in done.stdout
    assert project.pdf.read_bytes() == before
    project.replace(template, "{{ nothing_of_this_name }}\n", "")
    assert project.plan() == {"Rendering the report", "Writing report/lab5.pdf"}


def test_a_full_disk_is_no_result_and_the_next_call_measures(project: Any, full_disk: Path) -> None:
    if not full_disk.is_mount():
        pytest.skip("mounting a small disk is not permitted here")
    with project.config() as config:
        config["experiments"] = config["experiments"][-1:]
    write = f"__import__('pathlib').Path({str(full_disk / 'compiled')!r}).write_bytes(bytes(2**20))"
    project.append("kernels/flash2.py", f"\n{write}\n")
    before = project.records
    done = project.snakemake("--cores", "1", "records")
    assert done.returncode == 1
    assert "No space left on device; nothing is recorded" in done.stdout
    assert project.records == before
    subprocess.run(["mount", "-o", "remount,size=4m", str(full_disk)], check=True)
    project.make("records")
    made = project.records.keys() - before.keys()
    paths = [project.folder / "results" / "local" / "records" / name for name in made]
    assert {json.loads(path.read_text())["record"]["status"] for path in paths} == {"ok"}


def plan_of(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("results/*/plan/**/*.json"), *folder.glob("report/*.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


TINY = ("--configfile", "tests/tiny.yaml")
OTHER_CALLS = (
    ("--dry-run", "report/lab5.pdf", "--config", "dataset=h200"),
    ("--summary", "report/lab5.pdf", *TINY, "--config", "languages=[en]"),
    ("--cores", "1", "records", *TINY, "--config", "again=all"),
)


def test_a_look_or_a_refused_call_changes_nothing_of_the_call_at_work(held: Any) -> None:
    folder = held.project.folder
    first = held.start()
    before = plan_of(folder)
    for other in OTHER_CALLS:
        done = held.project.snakemake(*other, config=())
        assert (done.returncode == 0) == ("--cores" not in other), done.stdout
        assert "Traceback" not in done.stdout and "LockException" not in done.stdout
        named = r"Another snakemake call \(process \d+\) is working in this folder"
        assert "--cores" not in other or re.search(named, done.stdout)
        assert plan_of(folder) == before, other
    held.let_go()
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 0, said
    assert sum(name.startswith("held-") for name in held.project.records) == 2
