"""Which files of ours a module depends on, read from its imports.

The rules name these as inputs, so that an edit reruns the stages that it touches and no other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


def _path(module: str) -> Path | None:
    """The file of one of our modules, None for anything else."""
    if not module.startswith(PACKAGE.name):
        return None
    path = PACKAGE.parent.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def module_name(path: Path) -> str:
    """The dotted name of a file of ours."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(block: ast.AST) -> Iterator[ast.stmt]:
    """Every statement inside a node, however deep; expressions are skipped to save time."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inside in getattr(block, field, ()):
            if isinstance(inside, ast.stmt):
                yield inside
            yield from _statements(inside)


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of everything that a file imports at any depth, names inside modules too."""
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_bytes(), filename=str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of ours that a file imports directly."""
    return frozenset(found for name in imports(path) if (found := _path(name)) is not None)


def sources_of(module: str) -> list[Path]:
    """A module's file and every file of ours that it imports, directly or not.

    Ours are the package's modules and those of `flashlab_grading` beside it. Raises
    ModuleNotFoundError for the name of any other.
    """
    start = _path(module)
    if start is None:
        raise ModuleNotFoundError(f"{module} is no module of ours")
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported_files(path))
    return sorted(found)
