"""The command line as a whole: how it ends."""

from __future__ import annotations

import argparse
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from flashlab import cli
from flashlab.analysis import stage
from flashlab.analysis.experiment import OF_DATASET


def options_of(command: argparse.ArgumentParser) -> list[str]:
    """The options and arguments of a command, without its help."""
    return [action.dest for action in command._actions if action.dest != "help"]


COMMANDS = next(dict(a.choices or {}) for a in cli.make_parser()._actions if a.nargs == "A...")


def test_every_command_has_a_function_and_the_help_lists_them_in_their_order() -> None:
    assert [*COMMANDS] == [*cli.COMMANDS] == [*cli.HELP]
    assert cli.BESIDE["tables"] == OF_DATASET
    assert {*cli.MEASURING, *cli.BESIDE} <= {*cli.DIGESTED} <= {*COMMANDS}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_gives_its_function_the_values_of_its_options(name: str) -> None:
    function = pkgutil.resolve_name(cli.COMMANDS[name].split()[0])
    inspect.signature(function).bind(*options_of(COMMANDS[name]))
    assert get_type_hints(function)["return"] in (int, type(None), int | None)


def test_an_interrupted_command_ends_quietly_with_the_status_of_sigint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "make_tables", interrupted)
    names = ("results", "output")
    assert cli.main(["tables", *(f"--{name}={name}" for name in names)]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_json_py_in_the_folder_is_none_of_pythons(root: Path, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("1 / 0")
    (tmp_path / "Snakefile").touch()
    command = [sys.executable, "-m", "flashlab", "clean"]
    env = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "There is nothing to delete.\n", done.stderr


def test_a_command_whose_reader_has_left_ends_quietly(tmp_path: Path, root: Path) -> None:
    tmp_path.joinpath("Snakefile").touch()
    call = subprocess.Popen(
        [sys.executable, "-m", "flashlab", "clean"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert call.stdout and call.stderr
    call.stdout.close()  # as `head` does
    assert (call.wait(), call.stderr.read()) == (141, b"")
