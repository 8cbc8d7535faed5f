"""A kernel's file imported from its source, as a module of the package ``kernels``."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from flashlab.kernel_sources import PACKAGE


class _FromSource(importlib.machinery.SourceFileLoader):
    """Loads a file as it stands: cached bytecode of an edit in the same second could be older."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _KernelFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of the package ``kernels``, each loaded from its source."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _FromSource(fullname, spec.loader.path)
        return spec


def load_kernel(path: Path) -> ModuleType:
    """Import a kernel's file by its path, as a module of the package ``kernels``.

    It imports modules beside it as ``kernels.lib.tiles`` or ``.lib.tiles``; those of a kernel in
    another folder, imported before, have the same names and are forgotten.
    """
    package, folder = ModuleType(PACKAGE), [str(path.parent.resolve())]
    if getattr(sys.modules.get(PACKAGE), "__path__", folder) != folder:
        for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
    package.__path__ = folder
    sys.modules[PACKAGE] = package
    if not any(isinstance(finder, _KernelFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KernelFinder())
    name = f"{PACKAGE}.{path.stem}"
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
