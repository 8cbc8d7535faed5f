"""The files of this package that a module depends on, read from its imports.

The rules name these as inputs, so that an edit reruns the stages that it touches and no other.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\w[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)|import[ \t]+(\w[^\n]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w[\w.]*)(?:\s+as\s+\w+)?")


@cache
def _path(module: str) -> Path | None:
    """The file of one of our modules, None for anything else."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next(filter(Path.is_file, files), None) if module.startswith(PACKAGE.name) else None


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of everything that a file imports at any depth, names inside modules too.

    Every call of Snakemake asks this of all files, and their syntax trees take 20 times as long.
    """
    names, text = set[str](), re.sub("#.*", "", path.read_text(encoding="utf-8"))
    for module, members, modules in _IMPORT.findall(text):
        listed = _NAME.findall(members or modules)
        names |= {module, *(f"{module}.{name}" for name in listed)} if module else {*listed}
    return frozenset(names)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of ours that a file imports directly."""
    return frozenset(filter(None, map(_path, imports(path))))


def sources_of(module: str) -> list[Path]:
    """A module's file and every file of ours that it imports, directly or not.

    Ours are the package's modules and those of `flashlab_grading` beside it. Raises
    ModuleNotFoundError for the name of any other.
    """
    if (start := _path(module)) is None:
        raise ModuleNotFoundError(f"{module} is no module of ours")
    files = [start]
    for path in files:  # which grows meanwhile
        files += imported_files(path).difference(files)
    return sorted(files)
