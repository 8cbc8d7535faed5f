"""The server whose forks are a call's jobs (`stage`): it has imported their modules.

It ends as soon as one of the package's files is no longer what it was when the server began: its
forks would not do what a new process does.
"""

from __future__ import annotations

import atexit
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flashlab.forks import leave, serve
from flashlab.stage import SOURCES

NEXT = {
    **{"tables": "overview", "overview": "observations", "observations": "layout"},
    **{"layout": "figures", "figures": "report"},
}
"""The stage that a call runs after all jobs of another."""


def _states(files: Sequence[Path]) -> list[tuple[int, ...]] | None:
    """The times, size and inode of each file, which an edit changes; None if one is gone."""
    try:
        states = [file.stat() for file in files]
    except FileNotFoundError:
        return None
    return [(one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino) for one in states]


def _prepare() -> Callable[[Mapping[str, Any]], Callable[[], None]]:
    files = sorted(Path(SOURCES).rglob("*.py"))
    states = _states(files)  # before anything more is imported

    from flashlab import cli

    def get_ready(name: str) -> None:
        """Import a command's modules; its fork reports any error."""
        with contextlib.suppress(Exception):
            cli.get_ready(name)

    def accept(request: Mapping[str, Any]) -> Callable[[], None]:
        """Import a command's modules, and afterwards those of the next stage."""
        if _states(files) != states:
            leave()
        name = next(iter(request["arguments"][0]), "")
        get_ready(name)
        return partial(get_ready, NEXT.get(name, name))

    return accept


def run(arguments: Sequence[str], _channel: socket.socket) -> int:
    """Run ``python -m flashlab`` with these arguments in a fork, to its end."""
    from flashlab import cli

    try:
        return cli.main(arguments)
    finally:
        atexit._run_exitfuncs()


if __name__ == "__main__":
    serve(_prepare)
