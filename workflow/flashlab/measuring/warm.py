"""The warm parent: it has imported torch, touched no device, and forks the measuring processes.

Importing torch is most of a short run's time in a fresh interpreter. A fork of this process has it
imported and still makes a device context of its own. It serves one Snakemake call, over a socket
that only this user can reach, and ends with that call, however it ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

from flashlab.calls import forks
from flashlab.calls.forks import Work, read_message, send_message
from flashlab.measuring import child
from flashlab.measuring.start import fingerprint

LAZY = ("torch._dynamo",)
"""What PyTorch imports at the first backward pass (symbolic shapes, with sympy) and at the first
call of a library's operator: several times a short run's own time."""


HOLDS_GPUS = ("nvidia-smi", "dmon", "-s", "p", "-d", "10")
"""A program that has every GPU open and measures nothing but its power, every ten seconds."""


def hold_gpus() -> subprocess.Popen[bytes] | None:
    """Keep the GPUs initialised until this process ends; None where there is no driver.

    Without persistence mode the driver shuts a GPU down when the last process that has it open
    ends, and the next one waits until it is initialised again: 8 to 15 s a run on a host of two
    H100s. The program is one of its own, since no fork survives an open GPU; it ends at its next
    line once nobody can read that.
    """
    try:
        return subprocess.Popen(
            HOLDS_GPUS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


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


def _accept(connection: socket.socket, mine: str) -> Work | None:
    """Read a request to measure, and import what it needs; what the fork does."""
    request = read_message(connection)
    if request is None:
        return None
    if request["fingerprint"] != mine:
        send_message(connection, {"refused": "sources or environment differ"})
        return None
    order = request["order"]
    preload([*filter(None, [order.get("measure")]), *order.get("preloads", ())])
    send_message(connection, {"accepted": True})

    def measure(lifeline: int) -> int:
        """Take on the job's environment and measure its order."""
        forks.die_with_parent(lifeline)
        os.environ.update(request["environment"])
        with open(request["errors"], "ab") as errors:
            os.dup2(errors.fileno(), 1)
            os.dup2(errors.fileno(), 2)
        child.answer(order, Path(request["answer"]), started_warm=True)
        return 0

    return Work(measure)


def serve(path: Path, workflow: psutil.Process) -> None:
    """Fork a measuring process for each request until the workflow has ended."""
    mine = fingerprint()
    holder = hold_gpus()
    try:
        preload(LAZY)
        forks.listen(path, workflow, lambda connection: _accept(connection, mine))
    finally:
        if holder is not None:
            holder.kill()


if __name__ == "__main__":
    forks.serve(serve)
