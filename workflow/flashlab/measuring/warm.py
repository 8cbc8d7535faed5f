"""The warm parent: it has imported torch, touched no device, and forks the measuring processes.

Importing torch is most of a short run's time in a fresh interpreter. A fork of this process has it
imported and still makes a device context of its own. It serves one Snakemake call, over a socket
that only this user can reach, and ends with that call, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from flashlab.calls.watching import has_ended
from flashlab.measuring import child
from flashlab.measuring.start import (
    POLL_SECONDS,
    fingerprint,
    read_message,
    send_message,
)

LAZY = ("torch._dynamo",)
"""What PyTorch imports at the first backward pass (symbolic shapes, with sympy) and at the first
call of a library's operator: several times a short run's own time."""


def open_devices() -> list[str]:
    """The GPU's device files that this process holds open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    # The folder's own descriptor is in its list, and closed by now.
    opened = {os.readlink(link) for link in links if os.path.lexists(link)}
    return sorted(path for path in opened if path.startswith("/dev/nvidia"))


def preload(modules: Iterable[str]) -> None:
    """Import modules that later forks will need.

    One that cannot be imported is left to the run, whose record then states why. RuntimeError where
    one has opened a GPU, which no fork survives.
    """
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if touched := open_devices():
        raise RuntimeError(f"importing {', '.join(modules)} has opened {', '.join(touched)}")
    gc.freeze()  # a fork's collections skip what it has from here: 0.15 s each otherwise


def _measure_in_fork(request: dict[str, Any]) -> None:
    """What a forked process does: takes on the job's environment and measures its order."""
    os.environ.update(request["environment"])
    with open(request["errors"], "ab") as errors:
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    child.answer(request["order"], Path(request["answer"]), started_warm=True)


def _keep(connection: socket.socket, request: dict[str, Any]) -> None:
    """Fork the measuring process, tell its id, wait for it; kill it if the caller goes."""
    read_end, lifeline = os.pipe()  # closed by the system however this process ends
    ended, alive = os.pipe()  # and this one however the measuring process does
    pid = os.fork()
    if pid == 0:
        connection.close()
        os.close(lifeline)
        os.close(ended)
        code = 1
        try:
            child.die_with_parent(read_end)
            _measure_in_fork(request)
            code = 0
        except SystemExit as error:
            print(error, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(read_end)
    os.close(alive)
    gone, status = 0, 0
    while not gone:
        # Looks again after a while: a process that the kernel left behind may hold `alive` open.
        ready = select.select([connection.fileno(), ended], [], [], POLL_SECONDS)[0]
        if connection.fileno() in ready:
            os.kill(pid, signal.SIGKILL)  # the caller closed its end
        gone, status = os.waitpid(pid, 0 if ready else os.WNOHANG)
    with contextlib.suppress(OSError):
        send_message(connection, {"returncode": os.waitstatus_to_exitcode(status)})


def serve(path: Path, workflow: psutil.Process) -> None:
    """Fork a process for each request until the workflow has ended."""
    mine = fingerprint()
    preload(LAZY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(POLL_SECONDS)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
        while not has_ended(workflow):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(None)
                request = read_message(connection)
                if request is None:
                    continue
                if request["fingerprint"] != mine:
                    send_message(connection, {"refused": "sources or environment differ"})
                    continue
                order = request["order"]
                preload([*filter(None, [order.get("measure")]), *order.get("preloads", ())])
                send_message(connection, {"accepted": True})
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    try:
                        _keep(connection, request)
                    finally:
                        os._exit(0)


def main() -> None:
    """Serve the Snakemake call that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--workflow", type=json.loads, required=True, help="process id and birth")
    arguments = parser.parse_args()
    pid, born = arguments.workflow
    try:
        workflow = psutil.Process(pid)
        if workflow.create_time() == born:
            serve(arguments.socket, workflow)
    finally:
        arguments.socket.unlink(missing_ok=True)
        shutil.rmtree(arguments.socket.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
