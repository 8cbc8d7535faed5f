"""Stages as forks of a server that has imported their libraries; without one, they run cold.

A command that names its `libraries` is run in a fork where its job belongs to a Snakemake call that
runs on this host, by the same Python, in no container. The job's process hands on its arguments,
its folder, its environment and its output, waits, and ends as the fork does. The package itself is
never imported in advance, so a fork runs the sources that are there, as a new process would.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from flashlab.calls import forks
from flashlab.calls.forks import Work, connect_or_start, read_message, send_message
from flashlab.calls.watching import workflow_process

PLACE = "FLASHLAB_STAGES"
"""Environment variable with the `place` in which a call's stages may be forks."""

STREAMS = 3
"""Standard input, output and error, which the fork has from the job."""


def place() -> str:
    """What a server and a job must have in common: host, mounted files and interpreter."""
    mounted = os.readlink("/proc/self/ns/mnt") if sys.platform == "linux" else ""
    return json.dumps([platform.node(), mounted, sys.executable, sys.prefix])


def run_in_fork(arguments: Sequence[str], libraries: Sequence[str]) -> int | None:
    """Have a fork run ``python -m flashlab`` with these arguments; its exit status.

    None where there is no server for it, so that this process runs it. A fork that was killed by a
    signal ends this process by the same one.
    """
    if os.environ.get(PLACE) != place() or sys.platform != "linux":
        return None
    workflow = workflow_process()
    if workflow is None:
        return None
    environment = {name: value for name, value in os.environ.items() if name != PLACE}
    request = {
        "arguments": list(arguments),
        "libraries": list(libraries),
        "folder": os.getcwd(),
        "environment": environment,
    }
    try:
        connection = connect_or_start(workflow, __name__, environment)
    except OSError as error:
        print(f"no warm start: {error}", file=sys.stderr)
        return None
    if connection is None:
        return None
    with connection:
        try:
            socket.send_fds(connection, [b"\n"], range(STREAMS))
            send_message(connection, request)
            is_accepted = read_message(connection) is not None
        except OSError:  # the server has ended
            is_accepted = False
        if not is_accepted:
            return None
        # From here on a fork may be at work: what becomes of the connection starts no second one.
        ended = read_message(connection)
    status = int(ended["returncode"]) if ended else -signal.SIGKILL
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _accept(connection: socket.socket, packages: Sequence[str]) -> Work | None:
    """Read a request to run a command, and import its libraries; what the fork does."""
    _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
    request = read_message(connection)
    if request is None:
        for stream in streams:
            os.close(stream)
        return None
    for name in request["libraries"]:
        with contextlib.suppress(Exception):  # the command itself says what is missing
            importlib.import_module(name)
    gc.freeze()  # a fork's collections need not go through the libraries
    send_message(connection, {"accepted": True})

    def run(_lifeline: int) -> int:
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        search = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [request["folder"], *filter(None, search), *packages]
        sys.argv = ["flashlab", *request["arguments"]]
        for name in [name for name in sys.modules if name.partition(".")[0] == "flashlab"]:
            del sys.modules[name]
        try:
            runpy.run_module("flashlab", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            atexit._run_exitfuncs()
        return 0

    return Work(run, streams)


def _serve(path: Path, workflow: psutil.Process) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the jobs
    given = {os.getcwd(), "", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    packages = [entry for entry in sys.path if entry not in given]
    forks.listen(path, workflow, lambda connection: _accept(connection, packages))


if __name__ == "__main__":
    forks.serve(_serve)
