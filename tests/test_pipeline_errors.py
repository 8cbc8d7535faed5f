"""A configuration that is not usable: one message (file, key, what is right), and nothing runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY = "tests/tiny.yaml"
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def clean(make_clone: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A fresh clone; what these tests do leaves no trace in it."""
    return make_clone(tmp_path_factory.mktemp("clean") / "clone")


@pytest.fixture
def refused(clean: Any) -> Callable[..., str]:
    """Calls Snakemake on the tiny shapes with an edit; what it said to refuse them."""

    def call(edit: Edit, *arguments: str, file: str = TINY) -> str:
        path = clean.folder / TINY
        before = path.read_bytes()
        try:
            with clean.config() as config:
                edit(config)
            done = clean.snakemake(
                *("--cores", "1", "report/lab5.pdf", *arguments), config=("--configfile", file)
            )
        finally:
            path.write_bytes(before)
        assert done.returncode != 0
        assert "Traceback" not in done.stdout
        assert "Job stats" not in done.stdout and "jobid" not in done.stdout
        for made in ("results", "report/dataset.json", "report/lab5.pdf"):
            assert not clean.folder.joinpath(made).exists()
        return str(done.stdout)

    return call


def no_edit(config: dict[str, Any]) -> None:
    pass


def unknown_key(config: dict[str, Any]) -> None:
    config["langauges"] = ["en"]


def unknown_key_within(config: dict[str, Any]) -> None:
    config["measure"]["sampled"]["max_second"] = 1


def wrong_type(config: dict[str, Any]) -> None:
    config["experiments"][0]["cpu"]["num_heads"] = "two"


def not_divisible(config: dict[str, Any]) -> None:
    config["experiments"][4]["cpu"]["emb_dim"] = [16, 33]


def empty_sweep(config: dict[str, Any]) -> None:
    config["experiments"][0]["cpu"]["seq_len"] = []


def single_value_for_the_sweep(config: dict[str, Any]) -> None:
    config["experiments"][0]["cpu"]["seq_len"] = 16


def unknown_implementation(config: dict[str, Any]) -> None:
    config["experiments"][1]["implementations"] = ["Pytorch", "Flahs2"]


def value_twice(config: dict[str, Any]) -> None:
    config["experiments"][0]["cpu"]["seq_len"] = [16, 64, 16]


def experiment_twice(config: dict[str, Any]) -> None:
    config["experiments"].append(config["experiments"][2])


def unknown_language(config: dict[str, Any]) -> None:
    config["languages"] = ["zh_TW", "fr"]


def remarks_without_a_file(config: dict[str, Any]) -> None:
    config["remarks"] = {"causal": {"en": "remarks/none.md"}}


@pytest.mark.parametrize(
    ("edit", "key", "said"),
    [
        (unknown_key, "langauges", "did you mean languages?"),
        (unknown_key_within, "measure.sampled.max_second", "did you mean max_seconds?"),
        (wrong_type, "experiments[0].cpu.num_heads", 'a whole number or a list, found "two"'),
        (not_divisible, "experiments[4].cpu.emb_dim", "num_heads 2 does not divide 33"),
        (empty_sweep, "experiments[0].cpu.seq_len", "is empty: give at least one value"),
        (single_value_for_the_sweep, "experiments[0].cpu.seq_len", "must be a list of values"),
        (
            unknown_implementation,
            "experiments[1].implementations[1]",
            "unknown implementation Flahs2 (did you mean Flash2?); kernels/ has ",
        ),
        (value_twice, "experiments[0].cpu.seq_len", "holds 16 twice; keep one of them"),
        (experiment_twice, "experiments[5].name", "batch_size names two experiments"),
        (unknown_language, "languages[1]", "must be one of zh_TW, en; found fr"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_an_unusable_configuration_is_refused_before_any_job(
    refused: Callable[..., str], edit: Edit, key: str, said: str
) -> None:
    output = refused(edit)
    (line,) = [line for line in output.splitlines() if f" {key}: " in line]
    assert f"{TINY}: {key}: " in line
    assert said in line


def test_all_that_is_wrong_is_said_at_once(refused: Callable[..., str]) -> None:
    def edit(config: dict[str, Any]) -> None:
        unknown_key(config)
        wrong_type(config)

    output = refused(edit)
    assert f"{TINY}: langauges: " in output
    assert f"{TINY}: experiments[0].cpu.num_heads: " in output


def test_a_key_given_twice_in_the_file_is_refused(clean: Any, refused: Callable[..., str]) -> None:
    path = clean.folder / "tests" / "twice.yaml"
    path.write_text("device: cpu\nlanguages: [en]\nlanguages: [zh_TW]\n")
    output = refused(no_edit, file="tests/twice.yaml")
    assert "tests/twice.yaml: line 3, column 1: the key languages is given twice" in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"measure:\n\tprotocol: lab5\n", "line 2, column 1: a tab; replace it with spaces"),
        (b"languages: [en\ndevice: cpu\n", "line 2, column 7: expected ',' or ']', but got"),
        (b"device: cpu\ndevice: auto\n", "line 2, column 1: the key device is given twice"),
        (b"author: {name: \xa4\xfd}\n", "line 1, column 16: not UTF-8 text; save the file as"),
        (b"# nothing\n", "must hold keys with values, such as device: cpu; found nothing"),
        (None, "cannot be read: No such file or directory"),
    ],
    ids=["tab", "bracket", "twice", "encoding", "empty", "missing"],
)
def test_a_configuration_that_is_no_yaml_is_refused_with_line_and_column(
    clean: Any, text: bytes | None, expected: str
) -> None:
    path = clean.folder / "config" / "config.yaml"
    before = path.read_bytes()
    try:
        path.unlink() if text is None else path.write_bytes(text)
        done = clean.snakemake("--dry-run", config=())
    finally:
        path.write_bytes(before)
    assert done.returncode != 0
    assert f"config/config.yaml: {expected}" in done.stdout
    assert "Traceback" not in done.stdout and "not valid JSON or YAML" not in done.stdout


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"measure:\n\tprotocol: lab5\n", "own.yaml: line 2, column 1: a tab;"),
        (b"author: {name: \xa4\xfd}\n", "own.yaml: line 1, column 16: not UTF-8"),
        (None, "own.yaml: cannot be read: No such file"),
    ],
    ids=["tab", "encoding", "missing"],
)
def test_what_a_call_gives_can_be_checked_before_snakemake_reads_it(
    root: Path, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    own = tmp_path / "own.yaml"
    if content is not None:
        own.write_bytes(content)
    call = ("--cores", "1", "-n", "--configfile", "tests/tiny.yaml", str(own), "-C", "device=cpu")
    done = subprocess.run(
        [sys.executable, "-m", "flashlab", "check-call", *call],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert expected in done.stderr and "Traceback" not in done.stderr


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


def test_a_value_on_the_command_line_that_is_no_yaml_is_refused(
    refused: Callable[..., str],
) -> None:
    output = refused(no_edit, "--config", "measure={sampled: {max_seconds: 1}")
    assert "--config: measure: " in output and "expected ',' or '}'" in output
    assert 'for example {"sampled": {"max_seconds": 1}}' in output


def test_a_baseline_that_nothing_measures_is_refused(refused: Callable[..., str]) -> None:
    output = refused(no_edit, "--config", "baseline=SdpaMath")
    assert "--config: baseline: no experiment measures SdpaMath" in output
    assert "take one of Pytorch, Flash2" in output


def test_an_experiment_that_is_not_there_to_be_taken_is_refused(
    refused: Callable[..., str],
) -> None:
    output = refused(no_edit, "--config", "experiments=[seq_lem]")
    assert "--config: experiments[0]: there is no experiment seq_lem (did you mean" in output


def test_what_the_command_line_gave_is_named_as_such(refused: Callable[..., str]) -> None:
    output = refused(no_edit, "--config", "languages=[en, en]")
    assert "--config: languages: holds en twice; keep one of them" in output


def test_remarks_that_are_not_there_are_named(refused: Callable[..., str]) -> None:
    assert "remarks.causal.en: there is no file remarks/none.md" in refused(remarks_without_a_file)


def test_an_unknown_dataset_is_refused_with_those_there_are(refused: Callable[..., str]) -> None:
    output = refused(no_edit, "--config", "dataset=h201")
    assert "there is no data/h201/manifest.json" in output
    assert "`local` measures on this machine" in output


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
