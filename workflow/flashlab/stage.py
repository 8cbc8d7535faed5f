"""A command of ``python -m flashlab`` in a fork of the call's server, where there is one.

The rules so call what they need, by ``python -S``: to look for the installed packages takes a new
interpreter three times as long as to start. A command is run in a fork (`warm_stages`) where its
job belongs to a Snakemake call that runs on this host, by the same Python and with the same code,
in no container. The job hands on its arguments, its folder, its environment and its output, waits,
and ends as the fork does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from flashlab import children

WORKFLOW_PID = "FLASHLAB_WORKFLOW_PID"
"""Environment variable with the process id of the Snakemake call that a job belongs to."""

SERVER = "flashlab.warm_stages"

SERVER_ADDRESS = "FLASHLAB_STAGES"
"""Environment variable with the `address` of the server whose forks a call's jobs may be."""

SOURCES = __file__.rpartition("/flashlab/")[0]
"""The folder of the packages."""


def address(listening: str) -> str:
    """Host, mounted files, interpreter and code, which a server and a job must share, as text.

    `listening` is where the server listens, once there is one.
    """
    mounted = os.readlink("/proc/self/ns/mnt") if sys.platform == "linux" else ""
    # One Python has several names in its folder: python, python3.
    python = [os.path.dirname(sys.executable), hex(sys.hexversion)]
    return "|".join([listening, os.uname().nodename, mounted, *python, SOURCES])


def call_address() -> str:
    """The `address` of the server of the call that is this process."""
    return address(children.Server(SERVER, os.getpid(), {}).path)


def run_in_fork(arguments: Sequence[str]) -> int | None:
    """Have a fork run ``python -m flashlab`` with these arguments; its exit status.

    None where there is no server for it, so that this process runs it. A fork that was killed by a
    signal ends this process by the same one; an interrupt from the keyboard is the fork's as well.
    """
    given, pid = os.environ.get(SERVER_ADDRESS, ""), os.environ.get(WORKFLOW_PID)
    listening = given.partition("|")[0]
    if given != address(listening) or not pid or sys.platform != "linux":
        return None
    # Libraries that it imports start no threads, which no fork would have.
    alone = {name: "1" for name in os.environ if name.endswith("_NUM_THREADS")}
    alone |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    server = children.Server(SERVER, int(pid), {**os.environ, **alone}, listening)
    fork = server.call(f"{SERVER}:run", [list(arguments)], os.environ, streams=(0, 1, 2))
    if fork is None:
        return None
    try:
        status = fork.wait()
    except KeyboardInterrupt:
        fork.interrupt()
        status = fork.wait()
    assert status is not None
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def main() -> int:
    """Run the command that is given, in a fork of the call's server or here; its exit status."""
    try:
        status = run_in_fork(sys.argv[1:])
        if status is not None:
            return status
        if sys.flags.no_site:  # without a fork it needs the installed packages
            os.execv(sys.executable, [sys.executable, "-m", "flashlab", *sys.argv[1:]])
        import runpy
    except KeyboardInterrupt:
        return 130
    runpy.run_module("flashlab", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
