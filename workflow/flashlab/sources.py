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
_COMMENT = re.compile(r"#.*")


@cache
def _path(module: str) -> Path | None:
    """The file of one of our modules, None for anything else."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    is_ours = module.startswith(PACKAGE.name)
    return next((file for file in files if file.is_file()), None) if is_ours else None


def _names(listed: str) -> list[str]:
    """The names that an import lists, without their aliases."""
    parts = _COMMENT.sub("", listed).strip("()\n").split(",")
    return [part.split()[0] for part in parts if part.strip()]


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of everything that a file imports at any depth, names inside modules too.

    Every call of Snakemake asks this of all files, and their syntax trees take 20 times as long.
    """
    names: set[str] = set()
    for module, members, modules in _IMPORT.findall(path.read_text(encoding="utf-8")):
        names.update(_names(modules))
        if module:
            names |= {module, *(f"{module}.{name}" for name in _names(members))}
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
    start = _path(module)
    if start is None:
        raise ModuleNotFoundError(f"{module} is no module of ours")
    files, waiting = set[Path](), {start}
    while waiting:
        files |= waiting
        waiting = {file for path in waiting for file in imported_files(path)} - files
    return sorted(files)
