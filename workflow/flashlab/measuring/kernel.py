"""A kernel's file imported from its source, and refused where it replaces what measures it.

A kernel's file runs in the process that measures it. It may replace by accident or design what that
process looks up when it is called; so what there was before its import is compared with what there
is later.
"""

from __future__ import annotations

import importlib.util
import random
import resource
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import autograd

from flashlab.measuring.failures import IncorrectError
from flashlab.syntax import PACKAGE

CUDA = ("synchronize", "current_stream", "set_stream", "Event", "Stream")
"""The names of torch.cuda that a measurement relies on."""

MODULES = (statistics, random, resource, autograd, autograd.graph, autograd.profiler)
"""Modules of whose functions and classes a measurement may rely on any."""

BUILT_IN = (time, torch, torch.linalg)
"""Modules of whose functions only those count that nothing wraps: they are not in Python."""

CLASSES = {n: resolve_name(n) for n in ("torch.Tensor", "torch.cuda.Event", "torch.cuda.Stream")}
"""Classes of whose methods, inherited ones included, it may rely on any."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type)


def load_kernel(path: Path) -> ModuleType:
    """Import a kernel's file by its path, as a module of the package ``kernels``.

    It imports modules beside it as ``kernels.lib.tiles`` or ``.lib.tiles``; those of a kernel in
    another folder, imported before, have the same names and are forgotten.
    """
    sys.dont_write_bytecode = True  # that of an edit in the same second would be older
    package, folder = ModuleType(PACKAGE), [str(path.parent.resolve())]
    if getattr(sys.modules.get(PACKAGE), "__path__", folder) != folder:
        for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
    package.__path__ = folder
    sys.modules[PACKAGE] = package
    name = f"{PACKAGE}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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
