"""A user's actions in a finished folder: fail and mend, call twice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.plan.digests import CHANGED
from flashlab.plan.state import REPORT_ENDS

TINY = ("--configfile", "tests/tiny.yaml")


# Failing and mending


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


def test_a_second_call_for_reports_in_every_format_has_nothing_to_do(project: Any) -> None:
    reports = [f"report/lab5.{kind}" for kind in REPORT_ENDS]
    project.make(*reports)
    again = project.make(*reports)
    assert "Nothing to be done" in again
    assert "again:" not in again


def test_an_upgrade_tells_which_verdicts_it_changed(project: Any) -> None:
    log = project.result("logs/publish_pdf.log")
    assert log.read_text() == ""
    for verdict in ('return "above"', 'return "below"', 'else "inconclusive"'):  # whichever it was
        now = f'{verdict.partition(" ")[0]} "equal"'
        project.replace("workflow/flashlab/analysis/ratios.py", verdict, now)
    with project.config() as config:
        del config["experiments"][1:]
    project.make("report/lab5.pdf")
    first, *others = log.read_text().splitlines()
    assert re.fullmatch(r"changed: \d+ of \d+ verdicts changed .*, which had other runs:", first)
    assert any("is now equal" in line for line in others)


@pytest.mark.scheduled  # what is: test_remaking.py
def test_what_is_made_again_is_as_it_was_and_nothing_is_left_to_do(project: Any) -> None:
    before = {
        name: project.result(name).read_bytes()
        for name in ("tables/causal/runs.csv", "figures/causal/rate-flash2.svg")
    }
    for name in before:
        project.result(name).unlink()
    project.result("overview/speedups-causal.svg").write_bytes(b"<svg>")
    record = project.record("flash2-b1-n16-h2-e16-causal")
    record.write_bytes(record.read_bytes()[:100])
    others = {name: time for name, time in project.records.items() if name != record.name}
    said = project.make("report/lab5.pdf")
    assert f"Made again: results/local/overview speedups-causal.svg {CHANGED}" in said
    assert f"Made again: results/local/records/{record.name} {CHANGED}" in said
    assert {name: project.result(name).read_bytes() for name in before} == before
    assert json.loads(record.read_text())["record"]["status"] == "ok"
    assert others.items() <= project.records.items()
    assert project.plan() == set()


def test_runs_that_are_asked_for_are_measured_again_once_in_each_call(project: Any) -> None:
    asked_for = "flash2-b1-n64-h2-e32-full"
    for _ in range(2):
        before = project.records
        project.make("records", "--config", f"again={asked_for}")
        after = project.records
        again = {name for name in before if before[name] != after[name]}
        assert len(again) == 2  # the run and its counters
        assert again == {name for name in before if asked_for in name}
    left = project.plan()
    assert "Rendering the report" in left
    assert not [job for job in left if job.startswith("Measuring")]


# Several calls in one folder


def plan_of(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("results/*/plan/**/*.json"), *folder.glob("report/*.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


OTHER_CALLS = (
    ("--dry-run", "report/lab5.pdf", *TINY, "--config", "languages=[en]"),
    ("--dry-run", "report/lab5.pdf", "--config", "dataset=h200"),
    ("--cores", "1", "records", *TINY, "--config", "again=all"),
)


def test_a_dry_run_or_a_refused_call_changes_nothing_of_the_call_at_work(held: Any) -> None:
    folder = held.project.folder
    first = held.start()
    before = plan_of(folder)
    for other in OTHER_CALLS:
        done = held.project.snakemake(*other, config=())
        assert (done.returncode == 0) == ("--dry-run" in other), done.stdout
        assert "Traceback" not in done.stdout and "LockException" not in done.stdout
        named = r"Another snakemake call \(process \d+\) is working in this folder"
        assert "--dry-run" in other or re.search(named, done.stdout)
        assert plan_of(folder) == before, other
    held.let_go()
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 0, said
    assert sum(name.startswith("held-") for name in held.project.records) == 2


def test_looking_changes_no_plan(project: Any) -> None:
    before = plan_of(project.folder)
    for look in (("--summary", "report/lab5.pdf"), ("--lint",)):
        done = project.snakemake(*look, "--config", "languages=[en]")
        assert done.returncode == 0, done.stdout
        assert plan_of(project.folder) == before
    assert project.plan() == set()


# As a module of another workflow


@pytest.mark.scheduled  # how one is planned: test_pipeline_conventions.py
def test_the_pipeline_is_a_module_of_another_workflow(
    make_clone: Callable[..., Any], abridged: Any, tmp_path: Path, root: Path
) -> None:
    """All but a record are there already."""
    clone = make_clone(tmp_path / "flashlab", short_report=True)
    mine = replace(clone, folder=tmp_path / "mine")
    records = Path("results", "local", "records")
    shutil.copytree(abridged.folder / records, mine.folder / records)
    mine.record("flash2-b1-n16-h2-e32-full").unlink()
    mine.folder.joinpath("Snakefile").write_text(
        'configfile: "lab.yaml"\n'
        "module flashlab:\n"
        f"    snakefile: {str(clone.folder / 'Snakefile')!r}\n"
        "    config: config\n"
        "use rule * from flashlab as lab_*\n"
        "rule all:\n"
        "    default_target: True\n"
        "    input: 'report/lab5.pdf'\n"
    )
    config = yaml.safe_load(root.joinpath("tests", "tiny.yaml").read_text(encoding="utf-8"))
    del config["experiments"][1:]
    mine.folder.joinpath("lab.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    profile = ("--workflow-profile", str(clone.folder / "profiles" / "default"))
    look = ("--dry-run", "--config", "dataset=h200")
    done = mine.snakemake(*profile, *look, config=(), PYTHONPATH="")
    assert re.search(r"lab_tables +1\b", done.stdout), "the project's own dataset is found"
    done = mine.snakemake(*profile, config=(), PYTHONPATH="")
    assert done.returncode == 0, done.stdout
    assert re.findall("Measuring (.*-full)-", done.stdout) == ["flash2-b1-n16-h2-e32-full"]
    assert mine.pdf.is_file()
    assert not clone.folder.joinpath("results").exists()
    done = mine.snakemake(*profile, config=(), PYTHONPATH="")
    assert "Nothing to be done" in done.stdout
