"""The warm parent: it has imported torch, touched no device, and forks the measuring processes.

Importing torch is most of a short run's time in a fresh interpreter. A fork of this process has it
imported and still makes a device context of its own. It serves one Snakemake call, over a socket
that only this user can reach, and ends with that call, however it ends; or it serves one bench
after the other, and ends when it has been idle. It imports no kernel, and what it has imported is
what a new interpreter would import, or it starts nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flashlab.forks import leave, outlives_callers, serve
from flashlab.measuring.start import MEASURING, fingerprint

LAZY = ("torch._dynamo",)
"""Modules that PyTorch imports only at the first backward pass (symbolic shapes, with sympy) or the
first call of a library's operator, which takes several times as long as a short run."""

TICK_NS = 10**8
"""A file's time of change may be behind the clock by less than this."""

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


def _changed(file: str) -> int | None:
    """The time at which a file, or what is in it, last changed (ns); None if there is none."""
    try:
        return os.stat(file).st_ctime_ns
    except OSError:
        return None


class Imported:
    """The files of the modules that this process has imported, as they were then."""

    def __init__(self) -> None:
        self._changed: dict[str, int | None] = {}

    def add(self, began: int) -> None:
        """Add those imported since the time `began` (ns); what has changed since is outdated."""
        files = [vars(module).get("__file__") for module in [*sys.modules.values()]]
        for file in {*filter(None, files)} - self._changed.keys():
            changed = _changed(file)
            self._changed[file] = -1 if changed and changed > began - TICK_NS else changed

    def are_current(self) -> bool:
        """True while no file has changed since it was imported."""
        return all(_changed(file) == changed for file, changed in self._changed.items())


def _prepare() -> Callable[[Mapping[str, Any]], Callable[[], None] | None]:
    """Import PyTorch, and hold the GPUs for as long as this process runs."""
    began, mine, imported = time.time_ns(), fingerprint(), Imported()
    importlib.import_module(MEASURING)
    holder = hold_gpus()
    if holder is not None:
        atexit.register(holder.kill)
    preload(LAZY)
    imported.add(began)

    def accept(request: Mapping[str, Any]) -> Callable[[], None] | None:
        """Import an order's modules; None where this process has other sources or environment."""
        if request["version"] != mine or not imported.are_current():
            return leave() if outlives_callers() else None
        order, began = request["arguments"][0], time.time_ns()
        preload([*filter(None, [order.get("measure")]), *order.get("preloads", ())])
        imported.add(began)
        return lambda: None

    return accept


if __name__ == "__main__":
    serve(_prepare)
