"""Stages as forks of a server that has imported what they need; without one, they run cold.

A stage (`flashlab.stage`) is run in a fork where its job belongs to a Snakemake call that runs on
this host, by the same Python and with the same code, in no container. The job's process hands on
its arguments, its folder, its environment and its output, waits, and ends as the fork does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from flashlab.calls.forks import connect_or_start, read_message, send_message
from flashlab.calls.watching import WorkflowGoneError, workflow_process

SERVER = "flashlab.warm_stages"

PLACE = "FLASHLAB_STAGES"
"""Environment variable with the `place` in which a call's stages may be forks."""

SOURCES = Path(__file__).parents[2]
"""The folder of the packages."""

STREAMS = 3
"""Standard input, output and error, which the fork has from the job."""


def place() -> str:
    """What a server and a job must have in common: host, mounted files, interpreter and code."""
    mounted = os.readlink("/proc/self/ns/mnt") if sys.platform == "linux" else ""
    return json.dumps([os.uname().nodename, mounted, sys.executable, sys.prefix, str(SOURCES)])


def run_in_fork(arguments: Sequence[str]) -> int | None:
    """Have a fork run ``python -m flashlab`` with these arguments; its exit status.

    None where there is no server for it, so that this process runs it. A fork that was killed by a
    signal ends this process by the same one.
    """
    if os.environ.get(PLACE) != place() or sys.platform != "linux":
        return None
    try:
        workflow = workflow_process()
        if workflow is None:
            return None
        connection = connect_or_start(workflow, SERVER, os.environ)
    except WorkflowGoneError:
        return None
    except OSError as error:
        print(f"no warm start: {error}", file=sys.stderr)
        return None
    if connection is None:
        return None
    request = {
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
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
