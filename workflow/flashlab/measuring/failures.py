"""The status and message of a run that ended in an exception, if it is recorded.

And the refusal of a kernel that replaces what measures it. A kernel's file runs in the process that
measures it. It may replace by accident or design what that process looks up when it is called; so
what there was before its import is compared with what there is later.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import autograd

_NO_KERNEL = ("No available kernel", "No viable backend")
_ALLOCATION_FAILURES = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
_OF_SYSTEM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENFILE)

_MACHINE_FAILURES = (
    *map(os.strerror, _OF_SYSTEM),
    # Messages of the CUDA runtime, NVML and PyTorch about a GPU or a driver that is gone.
    *("device lost", "GPU is lost", "fallen off the bus", "CUDA error: unknown error"),
    *("No CUDA GPUs are available", "no CUDA-capable device", "busy or unavailable"),
    *("uncorrectable ECC error", "uncorrectable NVLink error", "CUDA unknown error"),
    *("Found no NVIDIA driver", "driver version is insufficient", "unsupported display driver"),
)
"""Parts of the messages of exceptions that no kernel causes: a full disk, a lost GPU."""

CUDA = ("synchronize", "current_stream", "set_stream", "Event", "Stream")
"""The names of torch.cuda that a measurement relies on."""

MODULES = (statistics, random, resource, autograd, autograd.graph, autograd.profiler)
"""Modules of whose functions and classes a measurement may rely on any."""

BUILT_IN = (time, torch, torch.linalg)
"""Modules of whose functions only those count that nothing wraps: they are not in Python."""

CLASSES = {n: resolve_name(n) for n in ("torch.Tensor", "torch.cuda.Event", "torch.cuda.Stream")}
"""Classes of whose methods, inherited ones included, it may rely on any."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type)


class IncorrectError(Exception):
    """An implementation whose result is wrong; `compared` holds its errors, where it has some."""

    def __init__(self, message: str, compared: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.compared = compared


def is_of_the_machine(error: BaseException) -> bool:
    """True if an exception, or one of its causes, is a failure of the machine, not of the run."""
    text, cause = str(error).lower(), error.__cause__ or error.__context__
    is_so = any(part.lower() in text for part in _MACHINE_FAILURES)
    return is_so or (cause is not None and is_of_the_machine(cause))


def describe_failure(error: BaseException, reasons: Sequence[str]) -> tuple[str, str]:
    """Status and message of a run that ended in an exception, after these warnings.

    PyTorch states in warnings why none of the kernels that a backend has will do.
    """
    text = str(error) or type(error).__name__
    if any(part in text for part in _NO_KERNEL):
        return "unsupported", "; ".join([text, *reasons])
    if isinstance(error, IncorrectError):
        return "incorrect", text
    if isinstance(error, NotImplementedError):
        return "unsupported", text
    failed = isinstance(error, RuntimeError) and any(part in text for part in _ALLOCATION_FAILURES)
    if failed or isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return "oom", text
    return "error", f"{type(error).__name__}: {text}"


def relied_on() -> dict[str, Any]:
    """The functions, classes and modes that measurements rely on, by name, as they are now."""
    ours = [m for name, m in [*sys.modules.items()] if name.partition(".")[0] == "flashlab"]
    own = {c for module in ours for c in vars(module).values() if isinstance(c, type)}
    held: list[tuple[str, Mapping[str, Any], Any]] = [
        *((module.__name__, vars(module), _FUNCTIONS) for module in (*MODULES, *ours)),
        *((module.__name__, vars(module), BuiltinFunctionType) for module in BUILT_IN),
        ("torch.cuda", {name: getattr(torch.cuda, name) for name in CUDA}, object),
        *((f"{c.__module__}.{c.__name__}", vars(c), object) for c in own if "flashlab" in str(c)),
        *((name, vars(base), object) for name, c in CLASSES.items() for base in c.__mro__[::-1]),
    ]
    modes = {
        "torch's function modes": torch._C._len_torch_function_stack(),
        "torch's dispatch modes": torch._C._len_torch_dispatch_stack(),
        "torch's number of threads": torch.get_num_threads(),
    }
    return modes | {
        f"{owner}.{name}": value
        for owner, names, kinds in held
        for name, value in [*names.items()]
        if isinstance(value, kinds)
    }


def refuse_replaced(before: Mapping[str, Any]) -> None:
    """IncorrectError naming what has been replaced since before a kernel was imported."""
    now = relied_on()
    for name, value in before.items():
        if now.get(name) is not value and now.get(name) != value:
            raise IncorrectError(
                f"replaces {name}, which it is measured with: its numbers would be its own"
            )
