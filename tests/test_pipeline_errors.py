"""Calls that cannot be, or fail: one message (file, key, what is right), and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from planted.calls import python
from planted.project import ROOT, Project


def test_a_mistake_is_one_message_with_its_place_and_nothing_is_made(
    make_clone: Callable[[Path], Project], tmp_path: Path
) -> None:
    clone = make_clone(tmp_path / "clone")
    done = clone.snakemake("--cores", "1", "report/lab5.pdf", "--config", "dataset=h201")
    assert done.returncode != 0
    said = r"there is no data/h201/manifest\.json.*`local` measures on this machine"
    assert re.search(said, done.stdout, re.DOTALL)
    for unsaid in ("Traceback", "not valid JSON or YAML", "Job stats", "jobid"):
        assert unsaid not in done.stdout
    for made in ("results", "report/dataset.json", "report/lab5.pdf"):
        assert not clone.folder.joinpath(made).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"author: {name: \xa4\xfd}\n", "error: {}: line 1, column 16: not UTF-8"),
        (b"devise: cpu", "error: The configuration is not usable:\n  {}, line 1: devise: unknown"),
    ],
    ids=["before Snakemake reads it", "in place of Snakemake's words"],
)
def test_through_run_a_mistake_is_our_message_alone(tmp_path: Path, text: bytes, said: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_bytes(text)
    call = ("--logger=flashlab", "-n", "--configfile", str(own))
    done = python(ROOT, "-m", "flashlab.terminal", *call)
    told = "".join(done.communicate())
    assert done.returncode == 1 and "Traceback" not in told
    assert told.startswith(said.format(own)) and told.count("error: ") == 1


def test_the_folder_may_have_spaces_quotes_and_chinese_in_its_name(
    tmp_path: Path, make_clone: Callable[[Path], Project]
) -> None:
    clone = make_clone(tmp_path / "my lab 實驗" / "O'Brien & 100% $x")
    assert "Measuring pytorch-b1-n64-h2-e32-full" in clone.plan()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lab", "Results cannot be written in {} (.snakemake: File exists)"),
        ("{lab}", "rename this folder: {}"),
    ],
    ids=["it cannot be written", "Snakemake cannot name it"],
)
def test_a_folder_that_is_of_no_use_is_named(
    tmp_path: Path, make_clone: Callable[[Path], Project], name: str, said: str
) -> None:
    clone = make_clone(tmp_path / name)
    clone.folder.joinpath(".snakemake").touch()  # where its folder should be; root may write all
    done = clone.snakemake("records")
    assert done.returncode == 1 and said.format(clone.folder) in done.stdout


def test_a_report_that_fails_leaves_the_one_before_it_and_is_to_be_made_once_mended(
    project: Project,
) -> None:
    before, template = project.pdf.read_bytes(), "templates/report.html.j2"
    project.append(template, "{{ nothing_of_this_name }}\n")
    done = project.snakemake("--cores", "1", "report/lab5.pdf")
    assert done.returncode != 0 and "nothing_of_this_name" in done.stdout
    assert "report/lab5.pdf is still the one from before this call" in done.stdout
    assert project.pdf.read_bytes() == before
    project.replace(template, "{{ nothing_of_this_name }}\n", "")
    assert project.plan() == {"Rendering the report", "Writing report/lab5.pdf"}
