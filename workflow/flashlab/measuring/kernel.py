"""A kernel's file imported from its source.

Homework 4's program does so too, whose start is timed: nothing here imports PyTorch.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from flashlab.syntax import PACKAGE


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
