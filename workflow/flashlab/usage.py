"""Errors before anything is measured: wrong options, missing packages."""

from __future__ import annotations

import importlib.util
import math
import tempfile
from argparse import ArgumentTypeError
from contextlib import suppress
from pathlib import Path


class UsageError(Exception):
    """The command line is wrong: one message; the exit status is 2."""


def require_torch() -> None:
    """ModuleNotFoundError without torch, of which each measuring process would make an error."""
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError(name="torch")


def _below(most: float, text: str, number: str, per: int, what: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(number) / per) < most:
            return value
    raise ArgumentTypeError(f"{text!r} is not {what}")


def seconds(text: str) -> float:
    """A finite time limit above 0, as the type of an option."""
    return _below(math.inf, text, text, 1, "a number of seconds above 0")


def share(text: str) -> float:
    """A share between 0 and 1, given as ``1%`` or ``0.01``, as the type of an option."""
    per = 100 if text.endswith("%") else 1
    return _below(1.0, text, text.removesuffix("%"), per, "a share such as 1% or 0.01")


def new_file(text: str) -> Path:
    """The path of a file to write, as the type of an option; refused where it cannot be written.

    So a measurement is not lost in the end.
    """
    path = Path(text)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"the folder {path.parent} does not exist")
    try:
        if path.exists():
            path.open("ab").close()
        if path.exists() and not path.is_file():
            raise OSError("it is no regular file")
        # The only sure way to know: some file systems deny what their permissions allow.
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        raise ArgumentTypeError(f"{text} cannot be written: {error.strerror or error}") from error
