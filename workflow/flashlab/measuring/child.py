"""The process that measures one run: imports torch, the kernel and the benchmark's measuring.

It is given an order (the run, its protocol, the kernel's file, the benchmark's module) and answers
with the measured part of a record.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import socket
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from flashlab.files import write_json
from flashlab.measuring import ceilings, environment, failures, supervised
from flashlab.measuring.kernel import load_kernel


def measure(order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure an order's run in this process; the measured part of its record.

    The order's ``part`` names the module whose function ``count`` is called instead, if any, with
    the benchmark's module, the kernel and the order. It is imported by name, so that it decides no
    other record's identity. A kernel's ``provider`` tells the library whose code it runs.

    Every failure of the implementation is answered with its status; only an interpreter that dies
    gives none. A failure of the machine is raised.
    """
    torch.manual_seed(int.from_bytes(os.urandom(6)))
    run = order["run"]
    device, here = run["device"], environment.environment(run["device"])
    reply: dict[str, Any] = {"environment": here, "status": "ok", "message": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            benchmark = importlib.import_module(order["measure"])
            part = importlib.import_module(order.get("part", order["measure"]))
            before, refuse_replaced = failures.relied_on(), failures.refuse_replaced
            kernel = load_kernel(Path(order["kernel"]))
            refuse_replaced(before)
            with suppress(importlib.metadata.PackageNotFoundError):
                said = getattr(kernel, "provider", lambda _: f"torch {torch.__version__}")
                here["provider"] = said(device)
            if "part" in order:
                measured = part.count(benchmark, kernel, order)
            else:
                measured = benchmark.measure(kernel, run, order["protocol"])
            refuse_replaced(before)
            reply |= measured
        except Exception as error:  # the kernel is another's code: what it raises is its result
            if failures.is_of_the_machine(error):
                raise
            reasons = [str(warning.message) for warning in caught]
            reply["status"], reply["message"] = failures.describe_failure(error, reasons)
            if reply["status"] == "error":
                traceback.print_exc()
            if isinstance(error, failures.IncorrectError) and error.compared:
                reply["gate"] = dict(error.compared)
    return reply


def answer(order: Mapping[str, Any], path: str, channel: socket.socket | None = None) -> None:
    """Measure an order and write the answer to the file `path`, atomically.

    An order is a run with its protocol, its kernel's file and the module that measures its
    benchmark, or ``{"ceilings": device}``. On the `channel` its ``part`` talks with the caller, who
    is told of timed sections otherwise. Its ``surroundings`` are what the caller knows of the
    environment. Where it is not the kernel that failed, the process ends with `os.EX_OSERR`.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends the process as other signals do
    try:
        if "ceilings" in order:
            reply = ceilings.measure(order["ceilings"])
        else:
            supervised.supervisor = None if "part" in order else channel
            reply = measure({**order, "channel": channel})
        reply["environment"] = order["surroundings"] | reply["environment"]
        write_json(Path(path), reply)
    except Exception:
        with suppress(OSError):  # there may be no room for this either
            traceback.print_exc()
        os._exit(os.EX_OSERR)
