"""A configuration that is not usable: one message (file, key, what is right), and nothing runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY = "tests/tiny.yaml"


@pytest.fixture(scope="module")
def clean(make_clone: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A fresh clone; what these tests do leaves no trace in it."""
    return make_clone(tmp_path_factory.mktemp("clean") / "clone")


@pytest.fixture
def refused(clean: Any) -> Callable[..., str]:
    """Calls Snakemake with these arguments on a configuration; what it said to refuse them."""

    def call(*arguments: str, file: str | None = TINY) -> str:
        config = ("--configfile", file) if file else ()
        done = clean.snakemake("--cores", "1", "report/lab5.pdf", *arguments, config=config)
        assert done.returncode != 0
        assert "Traceback" not in done.stdout and "not valid JSON or YAML" not in done.stdout
        assert "Job stats" not in done.stdout and "jobid" not in done.stdout
        for made in ("results", "report/dataset.json", "report/lab5.pdf"):
            assert not clean.folder.joinpath(made).exists()
        return str(done.stdout)

    return call


def test_all_that_is_wrong_is_said_at_once_with_the_place_of_each(
    clean: Any, refused: Callable[..., str]
) -> None:
    path = clean.folder / TINY
    before = path.read_bytes()
    try:
        with clean.config() as config:
            config["langauges"] = ["en"]
            config["experiments"][0]["cpu"]["num_heads"] = "two"
        output = refused("--config", "languages=[en, en]")
    finally:
        path.write_bytes(before)
    for said in (
        rf"{TINY}, line \d+: langauges: unknown key \(did you mean languages\?\)",
        rf"{TINY}, line \d+: experiments\[0\]\.cpu\.num_heads: ",
        r"--config: languages: holds en twice; keep one of them",
    ):
        assert re.search(said, output)


def test_what_is_not_there_is_named(refused: Callable[..., str]) -> None:
    missing = refused("--config", "remarks={causal: {en: remarks/none.md}}")
    assert "remarks.causal.en: there is no file remarks/none.md" in missing
    output = refused("--config", "dataset=h201")
    assert "there is no data/h201/manifest.json" in output
    assert "`local` measures on this machine" in output


def test_a_configuration_that_is_not_one_is_refused_with_line_and_column(
    clean: Any, refused: Callable[..., str]
) -> None:
    path = clean.folder / "config" / "config.yaml"
    before = path.read_bytes()
    expected = "config/config.yaml: line 2, column 1: the key languages is given twice"
    try:
        path.write_bytes(b"languages: [en]\nlanguages: [en]\n")
        assert expected in refused(file=None)
    finally:
        path.write_bytes(before)


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
    ("module", "imported"), [("flashlab.terminal", "snakemake"), ("flashlab", "flashlab_grading")]
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


def test_nested_keys_on_the_command_line_merge_with_their_types(
    make_clone: Callable[[Path], Any], tmp_path: Path
) -> None:
    project = make_clone(tmp_path / "clone")
    nested = ("summary={cuda: {seq_len: 512}}", "languages=[en]", 'author={"name": "王小明"}')
    nested += ("dataset=h200",)  # whose tables are made at once
    project.make("results/h200/tables/summary/runs.csv", "--config", *nested, config=())
    written = project.folder / "results" / "h200" / "plan" / "config.json"
    config = json.loads(written.read_text(encoding="utf-8"))
    shape = {"batch_size": 16, "seq_len": 512, "num_heads": 32, "emb_dim": 2048, "causal": False}
    assert config["summary"]["cuda"] == shape
    assert (config["languages"], config["author"]) == (["en"], {"name": "王小明"})


def test_a_half_written_kernel_stops_only_a_call_that_needs_it(
    make_clone: Callable[[Path], Any], tmp_path: Path
) -> None:
    project = make_clone(tmp_path / "clone")
    half = project.folder / "kernels" / "half.py"
    half.write_text('NAME = "Half"\ndef attention(qkv, causal)\n')
    done = project.snakemake("--dry-run", "report/lab5.pdf")
    assert done.returncode == 0, done.stdout
    with project.config() as config:
        config["experiments"][1]["implementations"] = ["Half"]
    done = project.snakemake("--dry-run", "report/lab5.pdf")
    assert done.returncode != 0
    assert "experiments[1].implementations[0]: unknown implementation Half; " in done.stdout
    assert f"unusable: {half}: line 2: expected ':'" in done.stdout
    assert "Traceback" not in done.stdout
