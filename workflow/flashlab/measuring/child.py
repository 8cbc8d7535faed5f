"""The process that measures one run: imports torch, the kernel and the benchmark's measuring.

It is given an order (the run, its protocol, the kernel's file, the benchmark's module) and answers
with the measured part of a record.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import signal
import socket
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from flashlab.files import write_json
from flashlab.measuring import ceilings, environment, supervised
from flashlab.measuring.failures import IncorrectError, describe_failure, is_of_the_machine
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.replaced import refuse_replaced, relied_on


def _provider(kernel: ModuleType, device: str) -> str:
    """The library whose code the kernel runs on this device; PyTorch if it names none."""
    provider: Callable[[str], str] | None = getattr(kernel, "provider", None)
    return provider(device) if provider else f"torch {torch.__version__}"


Part = Callable[[ModuleType, ModuleType, dict[str, Any]], dict[str, Any]]
"""A step of the child: it takes the benchmark's module, the kernel and the order."""


def attempt(order: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """Do `part` with an order's kernel in this process; returns its answer, with the environment.

    Every failure of the implementation is answered with its status; only an
    interpreter that dies gives none. A failure of the machine is raised.
    """
    torch.manual_seed(int.from_bytes(os.urandom(6)))
    run = order["run"]
    reply: dict[str, Any] = {
        "environment": environment.environment(run["device"]),
        "status": "ok",
        "message": None,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            benchmark = importlib.import_module(order["measure"])
            supervised.connect(order.get("sections"))
            before = relied_on()
            kernel = load_kernel(Path(order["kernel"]))
            refuse_replaced(before)
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                reply["environment"]["provider"] = _provider(kernel, run["device"])
            measured = part(benchmark, kernel, dict(order))
            refuse_replaced(before)
            reply |= measured
        except Exception as error:  # the kernel is another's code: what it raises is its result
            if is_of_the_machine(error):
                raise
            reasons = [str(warning.message) for warning in caught]
            reply["status"], reply["message"] = describe_failure(error, reasons)
            if reply["status"] == "error":
                traceback.print_exc()
            if isinstance(error, IncorrectError) and error.compared:
                reply["gate"] = dict(error.compared)
    return reply


def _measure_run(
    benchmark: ModuleType, kernel: ModuleType, order: dict[str, Any]
) -> dict[str, Any]:
    reply: dict[str, Any] = benchmark.measure(kernel, order["run"], order["protocol"])
    return reply


def measure(order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure an order's run in this process; the measured part of its record.

    The order's ``part`` names the module whose `Part` named ``count`` is done instead, if any. It
    is imported by name, so that it decides no other record's identity.
    """
    part = importlib.import_module(order["part"]).count if "part" in order else _measure_run
    return attempt(order, part)


def answer(order: Mapping[str, Any], path: str, channel: socket.socket | None = None) -> None:
    """Measure an order and write the answer to the file `path`, atomically.

    An order is a run with its protocol, its kernel's file and the module that measures its
    benchmark, or ``{"ceilings": device}``. On the `channel` its ``part`` talks with the caller, who
    is told of timed sections otherwise.
    Where it is not the kernel that failed, the process ends with the status `os.EX_OSERR`.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends the process as other signals do
    try:
        if "ceilings" in order:
            reply = ceilings.measure(order["ceilings"])
        else:
            reply = measure({**order, "channel" if "part" in order else "sections": channel})
        write_json(Path(path), reply)
    except Exception:
        with contextlib.suppress(OSError):  # there may be no room for this either
            traceback.print_exc()
        os._exit(os.EX_OSERR)
