"""Jobs as forks of a server that has imported what they need; without one, they run cold.

A command (`flashlab.stage`) is run in a fork where its job belongs to a Snakemake call that runs on
this host, by the same Python and with the same code, in no container. The job's process hands on
its arguments, its folder, its environment and its output, waits, and ends as the fork does.

Such a process does without installed packages (``python -S``), and without most of Python's own: to
look for the first takes a fresh interpreter three times as long as to start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

SERVER = "flashlab.warm_stages"

PLACE = "FLASHLAB_STAGES"
"""Environment variable with the `place` in which a call's jobs may be forks."""

SOURCES = __file__.rpartition("/flashlab/")[0]
"""The folder of the packages."""

FILES = 4
"""Standard input, output and error, which the fork has from the job, and where it writes its id."""


def place(listening: str) -> str:
    """What a server and a job must have in common: host, mounted files, interpreter and code.

    `listening` is where the server listens, once there is one.
    """
    mounted = os.readlink("/proc/self/ns/mnt") if sys.platform == "linux" else ""
    # One Python has several names in its folder: python, python3.
    python = [os.path.dirname(sys.executable), sys.hexversion]
    return json.dumps([listening, os.uname().nodename, mounted, *python, SOURCES])


def place_of_call() -> str:
    """The `place` of the call that is this process."""
    import tempfile

    # `forks`, which has the path too, is part of what measures: it stays as it is.
    name = f"flashlab-{os.getuid()}-{os.getpid()}-{SERVER.rpartition('.')[2]}"
    return place(os.path.join(tempfile.gettempdir(), name, "warm"))


def _connect(listening: str) -> socket.socket | None:
    """A connection to the call's server; None where there is none yet.

    Only a process that has the installed packages starts one.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(listening)
        return connection
    except OSError:
        connection.close()
    return None if sys.flags.no_site else _start()


def _start() -> socket.socket | None:
    from flashlab.calls.forks import connect_or_start
    from flashlab.calls.watching import WorkflowGoneError, workflow_process

    # Libraries that it imports start no threads, which no fork would have.
    alone = {name: "1" for name in os.environ if name.endswith("_NUM_THREADS")}
    alone |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        workflow = workflow_process()
        if workflow is None:
            return None
        return connect_or_start(workflow, SERVER, {**os.environ, **alone})
    except WorkflowGoneError:
        return None
    except OSError as error:
        print(f"no warm start: {error}", file=sys.stderr)
        return None


def _interrupt(fork: bytes) -> None:
    """Interrupt a fork by its id, empty where it has ended before it wrote that."""
    try:
        if fork:
            os.kill(int(fork), signal.SIGINT)
    except ProcessLookupError:
        pass  # it has ended just now, and its status is on the way


def run_in_fork(arguments: Sequence[str]) -> int | None:
    """Have a fork run ``python -m flashlab`` with these arguments; its exit status.

    None where there is no server for it, so that this process runs it. A fork that was killed by a
    signal ends this process by the same one; an interrupt from the keyboard is the fork's as well.
    """
    given = os.environ.get(PLACE)
    listening = json.loads(given)[:1] if given else []
    if not listening or given != place(listening[0]) or sys.platform != "linux":
        return None
    connection = _connect(listening[0])
    if connection is None:
        return None
    request = {
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    identity, write_end = os.pipe()
    with connection, connection.makefile("r", encoding="utf-8") as replies:
        try:
            socket.send_fds(connection, [b"\n"], [0, 1, 2, write_end])
            connection.sendall(json.dumps(request).encode() + b"\n")
            is_accepted = bool(replies.readline())
        except OSError:  # the server has ended
            is_accepted = False
        os.close(write_end)
        if not is_accepted:
            return None
        # From here on a fork may be at work: what becomes of the connection starts no second one.
        try:
            ended = replies.readline()
        except KeyboardInterrupt:
            _interrupt(os.read(identity, 32))
            ended = replies.readline()
    status = int(json.loads(ended)["returncode"]) if ended else -signal.SIGKILL
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status
