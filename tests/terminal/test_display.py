from __future__ import annotations

import io
import re

import pytest

from flashlab.terminal.display import Display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")


def written(stream: io.StringIO, plain: bool = False) -> str:
    display = Display(stream, plain)
    display.progress("Drawing", 1, 4)
    display.line("[1/4] a row of the table that is longer than forty columns", crop=True)
    display.line("  a reason that is longer than forty columns and goes on")
    display.progress(None, 0, 0)
    return stream.getvalue()


def test_a_file_gets_whole_lines_without_control_characters() -> None:
    assert written(io.StringIO()) == (
        "[1/4] a row of the table that is longer than forty columns\n"
        "  a reason that is longer than forty columns and goes on\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_plain_terminal_gets_no_control_characters_either(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert written(Terminal()) == written(io.StringIO())


def test_a_terminal_shows_the_progress_and_takes_it_away_again() -> None:
    stream = Terminal()
    text = written(stream)
    assert "1/4 steps" in text and "Drawing" in text
    assert text.index("\x1b[?25l") < text.index("\x1b[?25h"), "the cursor stays hidden"


def test_a_terminal_crops_rows_and_folds_reasons() -> None:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", written(Terminal()))
    assert "[1/4] a row of the table that is longer…\n" in plain
    assert "  a reason that is longer than forty\n      columns and goes on\n" in plain


def test_progress_that_is_longer_than_the_terminal_takes_one_line() -> None:
    stream = Terminal()
    display = Display(stream, plain=False)
    display.progress("Measuring " + "x" * 60, 1, 4)
    display.progress(None, 0, 0)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).splitlines()
    assert any("Measuring" in line for line in shown)
    assert not any(line.startswith("x") for line in shown), "it goes on in a second line"
