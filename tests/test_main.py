"""The command line as a whole: how it ends."""

from __future__ import annotations

import argparse
import inspect
from typing import get_type_hints

import pytest

from flashlab import __main__
from flashlab.analysis import stage
from flashlab.cli import Command


@pytest.mark.parametrize("command", __main__.COMMANDS, ids=lambda command: command.name)
def test_a_command_gives_its_function_the_values_of_its_options(command: Command) -> None:
    function = command.find_function()
    inspect.signature(function).bind(*command.options, *command.one_of)
    assert get_type_hints(function)["return"] in (int, type(None), int | None)


def test_an_interrupted_command_ends_quietly_with_the_status_of_sigint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "make_tables", interrupted)
    names = ("results", "claims", "output")
    assert __main__.main(["tables", *(f"--{name}={name}" for name in names)]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_opened_is_named_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["hw4", "absent.bin", "out.bin"]) == 1
    assert capsys.readouterr().err == "error: absent.bin: No such file or directory\n"
