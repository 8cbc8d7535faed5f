"""What a command of the command line is; each package declares its own in a module `commands`."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class UsageError(Exception):
    """The command line is wrong: one message; the exit status is 2."""


Option = tuple[tuple[str, ...], Mapping[str, Any]]
"""An option or argument: its flags or its name, and what `add_argument` takes beside them."""


def option(*flags: str, **keywords: Any) -> Option:
    """An option or argument as `add_argument` takes it."""
    return flags, keywords


def path(flag: str, help: str, **keywords: Any) -> Option:
    """A path that must be given."""
    return option(flag, type=Path, required=True, help=help, **keywords)


def paths(name: str, help: str) -> Option:
    """One or more paths, as arguments."""
    return option(name, type=Path, nargs="+", help=help)


def new_file(text: str) -> Path:
    """The path of a file to write, as the type of an option: one that cannot be written is refused.

    So a measurement is not lost in the end.
    """
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    if path.exists() and not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    try:
        # The only sure way to know: some file systems deny what their permissions allow.
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        reason = error.strerror or str(error)
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {reason}") from error


LANGUAGE = option(
    "--language",
    choices=("zh_TW", "en"),
    default="zh_TW" if os.environ.get("LANG", "").startswith("zh") else "en",
    help="language of the output (zh_TW if LANG begins with zh, otherwise en)",
)


def _find(place: str) -> Callable[..., int | None]:
    module, _, name = place.partition(":")
    found: Callable[..., int | None] = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True)
class Command:
    """A command: what it does, and the function that does it.

    `function` takes the values of the options, in their order, and returns None or an exit status;
    as ``module:name`` it is imported when it is called. Of options in `one_of`, which come last,
    exactly one is given. A command that `ends_alone` watches the Snakemake call that it belongs to
    by itself. One that `tells_made` prints the digest of each file in its ``--output``, or `beside`
    it, so that the log of a job tells what the job made. `ahead` is another such function, without
    arguments: it keeps what all calls of the command in forks of one process share.
    """

    name: str
    function: str | Callable[..., int | None]
    help: str
    options: tuple[Option, ...] = ()
    one_of: tuple[Option, ...] = ()
    epilog: str | None = None
    ends_alone: bool = False
    tells_made: bool = False
    beside: tuple[str, ...] = ()
    ahead: str | None = None

    def add_to(self, commands: Any) -> None:
        """Add the command to the parsers of a command line."""
        parser = commands.add_parser(
            self.name, help=self.help, description=self.help, epilog=self.epilog
        )
        group = parser.add_mutually_exclusive_group(required=True) if self.one_of else parser
        names = [
            container.add_argument(*flags, **keywords).dest
            for container, options in ((parser, self.options), (group, self.one_of))
            for flags, keywords in options
        ]
        parser.set_defaults(command=self, names=names)

    def find_function(self) -> Callable[..., int | None]:
        """The function that does it."""
        return _find(self.function) if isinstance(self.function, str) else self.function

    def get_ready(self) -> None:
        """Have what a fork of this process needs to run it."""
        self.find_function()
        if self.ahead:
            _find(self.ahead)()

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what the command line says; the exit status."""
        values = [getattr(arguments, name) for name in arguments.names]
        status = self.find_function()(*values) or 0
        if self.tells_made:
            output: Path = arguments.output
            inside = {
                file.relative_to(output).as_posix(): file
                for file in sorted(output.rglob("*.*") if output.is_dir() else ())
            }
            beside = {name: output.with_name(name) for name in self.beside}
            for name, file in ((inside or {output.name: output}) | beside).items():
                print(made_line(name, file.read_bytes()))
        return status


def made_line(name: str, content: bytes) -> str:
    """What a job's log says of a file that the job made."""
    return f"made {name} {hashlib.sha256(content).hexdigest()}"


def require(package: str) -> None:
    """ModuleNotFoundError where a package is missing that only the measuring process imports.

    Without it, what is missing here would be recorded as an error of every single run.
    """
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(name=package)
