"""The command line as a whole, and lab5.py beside it, as their users call them."""

from __future__ import annotations

import inspect
import pkgutil
from pathlib import Path
from typing import get_type_hints
from unittest.mock import Mock

import pytest
from planted.calls import python

from flashlab import cli
from flashlab.analysis import stage
from flashlab.analysis.experiment import OF_DATASET
from flashlab.files import read_json
from flashlab.sources import PACKAGE

COMMANDS = next(dict(a.choices or {}) for a in cli.make_parser()._actions if a.nargs == "A...")


def test_every_command_has_a_function_and_the_help_lists_them_in_their_order() -> None:
    assert [*COMMANDS] == [*cli.COMMANDS] == [*cli.HELP]
    assert cli.BESIDE["tables"] == OF_DATASET
    assert {*cli.MEASURING, *cli.BESIDE} <= {*cli.DIGESTED} <= {*COMMANDS}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_gives_its_function_the_values_of_its_options(name: str) -> None:
    function = pkgutil.resolve_name(cli.COMMANDS[name].split()[0])
    options = (action.dest for action in COMMANDS[name]._actions if action.dest != "help")
    inspect.signature(function).bind(*options)
    assert get_type_hints(function)["return"] in (int, type(None), int | None)


def test_an_interrupted_command_ends_quietly_with_the_status_of_sigint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "make_tables", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["tables", "--results=results", "--output=output"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_json_py_in_the_folder_is_none_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("1 / 0")
    (tmp_path / "Snakefile").touch()
    said = ("There is nothing to delete.\n", "")
    assert python(tmp_path, "-m", "flashlab", "clean").communicate() == said


def test_a_command_whose_reader_has_left_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").touch()
    clean = python(tmp_path, "-m", "flashlab", "clean")
    assert clean.stdout and clean.stderr
    clean.stdout.close()  # as `head` does
    assert (clean.wait(), clean.stderr.read()) == (141, "")


# The drop-in for the course's script


def lab5(folder: Path, arguments: str) -> tuple[int, str, str]:
    """Its status, output and errors at a tiny shape."""
    tiny = "--batch_size 1 --seq_len 32 --num_heads 2 --emb_dim 32"
    process = python(folder, f"{PACKAGE.parents[1]}/lab5.py", *f"{tiny} {arguments}".split())
    said, complained = process.communicate()
    return process.returncode, said, complained


def test_a_result_has_the_scripts_keys_and_definitions(tmp_path: Path) -> None:
    """Of any implementation in kernels/."""
    status, said, complained = lab5(tmp_path, "--impl SdpaMath --causal --repeats 3")
    assert (status, complained) == (0, "")
    result = read_json(tmp_path / "benchmark_result.json")
    flops = 4 * 32**2 * 32 / 2  # half of them, with the mask
    for name, share in {"forward": 1, "backward": 2.5, "forward_backward": 3.5}.items():
        measured = result[name]
        rate = flops * share / measured["time(s)"] / 1e12
        assert measured["FLOPS(TFLOPs/s)"] == pytest.approx(rate)
        assert f"{name}: {measured['time(s)']:.4g} s, {rate:.3g} TFLOPs/s" in said
    assert result["peak_memory_usage(MB)"] > 0
    run, protocol = result["record"]["run"], result["record"]["protocol"]
    assert (run["implementation"], run["causal"]) == ("SdpaMath", True)
    assert (protocol["name"], protocol["repeats"]) == ("lab5", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--emb_dim 99", "99 is not divisible by --num_heads 2"),
        ("--output missing/result.json", "does not exist"),
        ("--impl flash2", "flash2 (did you mean Flash2?); kernels/ has Flash2, Flash3,"),
    ],
)
def test_a_wrong_call_is_one_message_and_no_file(
    tmp_path: Path, arguments: str, message: str
) -> None:
    status, _, complained = lab5(tmp_path, arguments)
    assert status == 2 and message in complained and "Traceback" not in complained
    assert [*tmp_path.iterdir()] == []


def test_a_run_without_numbers_says_why_and_keeps_its_record(tmp_path: Path) -> None:
    status, _, complained = lab5(tmp_path, "--impl SdpaCudnn --output o.json")
    assert status == 1 and "unsupported: No " in complained and complained.count("\n") == 1
    record = read_json(tmp_path / "o.json")
    assert record["forward"]["time(s)"] is None
    assert record["record"]["status"] == "unsupported"
