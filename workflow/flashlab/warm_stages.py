"""The server whose forks are a call's jobs (`calls.stages`): it has imported what they need.

It ends as soon as one of the package's files is no longer what it was when the server began: its
forks would not do what a new process does.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from flashlab.calls import forks
from flashlab.calls.forks import Work, send_message
from flashlab.calls.stages import FILES, SOURCES

NEXT = {
    **{"tables": "figures", "figures": "observations"},
    **{"observations": "overview", "overview": "report"},
}
"""The stage that a call runs after all jobs of another."""


def _states(files: Sequence[Path]) -> list[tuple[int, ...]] | None:
    """What an edit of any of these files changes; None where one is gone."""
    try:
        found = [file.stat() for file in files]
    except FileNotFoundError:
        return None
    return [(one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino) for one in found]


def _serve(path: Path, workflow: psutil.Process) -> None:
    files = sorted(Path(SOURCES).rglob("*.py"))
    states = _states(files)  # before anything more is imported

    from flashlab import cli

    server = os.getpid()

    def get_ready(name: str) -> None:
        """Have what a command needs; its fork itself says what is missing or wrong."""
        with contextlib.suppress(Exception):
            cli.get_ready(name)

    @dataclass(frozen=True)
    class Stage(Work):
        """A command in a fork, beside which the server imports what the next stage needs."""

        name: str = ""

        def close(self) -> None:
            super().close()
            if os.getpid() == server:
                get_ready(NEXT.get(self.name, self.name))

    def accept(connection: socket.socket) -> Work | None:
        """Read a request to run a command, and import what it needs; what the fork does."""
        _, given, _, _ = socket.recv_fds(connection, 1, FILES)
        with connection.makefile("rb") as received:
            line = received.readline()
        if _states(files) != states:
            os._exit(0)  # and leaves the folder, in which the next job may be starting a server
        if not line:
            for file in given:
                os.close(file)
            return None
        request = json.loads(line)
        name = next(iter(request["arguments"]), "")
        get_ready(name)
        gc.freeze()  # a fork's collections need not go through what is imported
        send_message(connection, {"accepted": True})

        def run(_lifeline: int) -> int:
            *streams, identity = given
            for target, stream in enumerate(streams):
                os.dup2(stream, target)
                os.close(stream)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(identity, str(os.getpid()).encode())
            os.close(identity)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            try:
                return cli.main(request["arguments"])
            except SystemExit as ended:
                return int(ended.code or 0)
            finally:
                atexit._run_exitfuncs()

        return Stage(run, given, name)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the jobs
    forks.listen(path, workflow, accept)


if __name__ == "__main__":
    forks.serve(_serve)
