"""Finds functions that a kernel has replaced: clocks, torch's functions, this package's.

A kernel runs in the process that measures it. It may replace by accident or design what that
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
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from flashlab.measuring.failures import IncorrectError

CUDA = ("synchronize", "current_stream", "set_stream", "Event", "Stream")
"""The names of torch.cuda that a measurement relies on."""

MODULES = (
    *(statistics, random, resource, torch.autograd, torch.autograd.graph),
    torch.autograd.profiler,
)
"""Modules of whose functions a measurement may rely on any."""

Names = Mapping[str, Any]


def _of_class(owner: type) -> Names:
    """The attributes of a class, inherited ones included."""
    return {name: value for base in reversed(owner.__mro__) for name, value in vars(base).items()}


def _builtins(module: ModuleType) -> Names:
    """The functions of a module that are not written in Python, which nothing wraps."""
    return {k: v for k, v in vars(module).items() if isinstance(v, BuiltinFunctionType)}


def _functions(module: ModuleType) -> Names:
    """The functions and classes of a module."""
    kinds = (FunctionType, BuiltinFunctionType, type)
    return {name: value for name, value in vars(module).items() if isinstance(value, kinds)}


def _ours() -> Names:
    """The functions and classes, with their methods, of this package's modules."""
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "flashlab"]
    attributes: dict[str, Any] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, (FunctionType, BuiltinFunctionType, type)):
                attributes[f"{module.__name__}.{name}"] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                attributes |= {f"{module.__name__}.{name}.{k}": v for k, v in vars(value).items()}
    return attributes


def relied_on() -> dict[str, Any]:
    """The functions, classes and modes that measurements rely on, by name, as they are now."""
    modules = {f"{module.__name__}.": _functions(module) for module in MODULES}
    parts: dict[str, Names] = {
        **modules,
        "time.": _builtins(time),
        "torch.": _builtins(torch),
        "torch.linalg.": _builtins(torch.linalg),
        "torch.cuda.": {name: getattr(torch.cuda, name) for name in CUDA},
        "torch.Tensor.": _of_class(torch.Tensor),
        "torch.cuda.Event.": _of_class(torch.cuda.Event),
        "torch.cuda.Stream.": _of_class(torch.cuda.Stream),
        "": _ours(),
    }
    modes = {
        "torch's function modes": torch._C._len_torch_function_stack(),
        "torch's dispatch modes": torch._C._len_torch_dispatch_stack(),
        "torch's number of threads": torch.get_num_threads(),
    }
    return modes | {prefix + k: v for prefix, names in parts.items() for k, v in names.items()}


def refuse_replaced(before: Mapping[str, Any]) -> None:
    """IncorrectError naming what has been replaced since before a kernel was imported."""
    now = relied_on()
    for name, value in before.items():
        if now.get(name) is not value and now.get(name) != value:
            raise IncorrectError(
                f"replaces {name}, which it is measured with: its numbers would be its own"
            )
