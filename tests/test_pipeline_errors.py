"""Calls that cannot be: one message (file, key, what is right), and nothing runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planted.project import ROOT


def test_a_mistake_is_one_message_with_its_place_and_nothing_is_made(
    make_clone: Callable[[Path], Any], tmp_path: Path
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
    done = subprocess.run(
        [sys.executable, "-m", "flashlab.terminal", *call],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert told.startswith(said.format(own)) and told.count("error: ") == 1
    assert "Traceback" not in told


def test_the_folder_may_have_spaces_quotes_and_chinese_in_its_name(
    tmp_path: Path, make_clone: Callable[[Path], Any]
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
    tmp_path: Path, make_clone: Callable[[Path], Any], name: str, said: str
) -> None:
    clone = make_clone(tmp_path / name)
    clone.folder.joinpath(".snakemake").touch()  # where its folder should be; root may write all
    done = clone.snakemake("records")
    assert done.returncode == 1
    assert said.format(clone.folder) in done.stdout
