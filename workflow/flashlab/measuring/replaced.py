"""What a measurement relies on, and refusing a kernel that has replaced any of it.

A kernel's file runs in the process that measures it. It may replace by accident or design what that
process looks up when it is called; so what there was before its import is compared with what there
is later.
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from flashlab.measuring.failures import IncorrectError

CUDA = ("synchronize", "current_stream", "set_stream", "Event", "Stream")
"""The names of torch.cuda that a measurement relies on."""

MODULES = (
    *(statistics, random, resource, torch.autograd, torch.autograd.graph),
    torch.autograd.profiler,
)
"""Modules of whose functions and classes a measurement may rely on any."""

BUILT_IN = (time, torch, torch.linalg)
"""Modules of whose functions only those count that nothing wraps: they are not in Python."""

CLASSES = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module, name in ((torch, "Tensor"), (torch.cuda, "Event"), (torch.cuda, "Stream"))
}
"""Classes of whose methods, inherited ones included, it may rely on any."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type)


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
