"""A configuration that is not usable: one message (file, key, what is right), and nothing runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "base", "said"),
    [
        (
            ["--configfile", "tests/tiny.yaml", "--config", "languages=[en, en]"],
            None,
            r"--config: languages: holds en twice; keep one of them",
        ),
        (
            ["--configfile", "tests/tiny.yaml", "--config", "dataset=h201"],
            None,
            r"there is no data/h201/manifest\.json.*`local` measures on this machine",
        ),
        (
            [],
            "languages: [en]\nlanguages: [en]\n",
            r"config/config\.yaml: line 2, column 1: the key languages is given twice",
        ),
    ],
    ids=["the call's own", "a dataset", "the file"],
)
def test_a_mistake_is_one_message_with_its_place_and_nothing_is_made(
    make_clone: Callable[[Path], Any],
    tmp_path: Path,
    arguments: list[str],
    base: str | None,
    said: str,
) -> None:
    clone = make_clone(tmp_path / "clone")
    if base:
        clone.folder.joinpath("config", "config.yaml").write_text(base)
    done = clone.snakemake("--cores", "1", "report/lab5.pdf", *arguments, config=())
    assert done.returncode != 0
    assert re.search(said, done.stdout, re.DOTALL)
    for unsaid in ("Traceback", "not valid JSON or YAML", "Job stats", "jobid"):
        assert unsaid not in done.stdout
    for made in ("results", "report/dataset.json", "report/lab5.pdf"):
        assert not clone.folder.joinpath(made).exists()


def called_through_run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The call that `./run report` makes of these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "flashlab.terminal", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_call_gives_is_checked_before_snakemake_reads_it(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_bytes(b"author: {name: \xa4\xfd}\n")
    call = ("--cores", "1", "-n", "--configfile", "tests/tiny.yaml", str(own), "-C", "device=cpu")
    done = called_through_run(root, *call)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "own.yaml: line 1, column 16: not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_through_run_a_mistake_is_our_message_alone_with_its_line(
    root: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("device: cpu\nmeasure:\n  sampled:\n    max_secnds: 3\n")
    done = called_through_run(root, "--logger=flashlab", "-n", "--configfile", str(own))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "error: The configuration is not usable:\n"
        f"  {own}, line 4: measure.sampled.max_secnds: unknown key (did you mean max_seconds?); "
        "known: relative_interval, max_seconds, energy_seconds\n"
    )


@pytest.mark.parametrize(
    ("module", "imported"), [("flashlab.terminal", "snakemake"), ("flashlab", "psutil")]
)
def test_an_interrupt_during_the_imports_is_quiet(
    root: Path, tmp_path: Path, module: str, imported: str
) -> None:
    (tmp_path / f"{imported}.py").write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{root / 'workflow'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout and process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert (*process.communicate(), process.returncode) == (b"", b"", 130)


# Folders named as people name them


def test_the_folder_may_have_spaces_quotes_and_chinese_in_its_name(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "my lab 實驗" / "O'Brien & 100% $x")
    assert "Measuring pytorch-b1-n64-h2-e32-full" in clone.plan()


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "lab")
    clone.folder.joinpath(".snakemake").touch()  # where its folder should be; root may write all
    done = clone.snakemake("records")
    assert done.returncode == 1
    assert f"Results cannot be written in {clone.folder} (.snakemake: File exists)" in done.stdout


def test_a_folder_that_snakemake_cannot_name_is_refused(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "{lab}")
    done = clone.snakemake("--dry-run")
    assert done.returncode == 1
    assert f"rename this folder: {clone.folder}" in done.stdout
