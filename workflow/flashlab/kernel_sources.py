"""The files that decide what a kernel computes, read from its source without running it.

These are the kernel's own file, the modules below ``kernels/`` that it imports, directly or not
(``from kernels.lib.tiles import …``, or relatively ``from .lib.tiles import …``), and the files
that it names in ``SOURCES``, such as CUDA sources that it compiles.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from flashlab.syntax import canonical_tree

LABELS = ("LABEL", "LABEL_CPU")
"""Names in a kernel's own file that only the report reads, and that are left out of its digest."""

DECLARED = ("STORES_SCORES", "TUNED_ON")
"""Names that only the report reads, left out in the files that a kernel imports as well."""

PACKAGE = "kernels"
"""The package from which kernels are imported, whatever their folder is called."""

_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


class KernelSourceError(Exception):
    """A file that a kernel imports or names and that is missing or is not Python."""


@cache
def _imported_names(tree: ast.Module, package: tuple[str, ...]) -> list[list[str]]:
    """The dotted names that a module imports from `PACKAGE`, including names inside modules."""
    imported: list[list[str]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:  # statements at any depth; nothing else can hold an import
        node = waiting.pop()
        if isinstance(node, ast.Import):
            imported += (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            imported += ([*base, alias.name] for alias in node.names)
        waiting += (c for c in ast.iter_child_nodes(node) if isinstance(c, _STATEMENTS))
    return [name for name in imported if name[0] == PACKAGE]


def _module_files(name: Sequence[str], folder: Path) -> Iterator[Path]:
    """The files that importing a dotted name runs: its packages' ``__init__.py`` and its module."""
    path = folder
    for part in name[1:]:
        path = path / part
        yield from filter(Path.is_file, (path / "__init__.py", path.with_suffix(".py")))


@cache
def _canonical(tree: ast.Module, names: tuple[str, ...]) -> str:
    """A module's text without assignments to these names, once for all kernels that import it."""

    def assigns(node: ast.stmt) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else []
        return any(isinstance(target, ast.Name) and target.id in names for target in targets)

    return canonical_tree(ast.Module([node for node in tree.body if not assigns(node)], []))


@cache
def _parse(source: bytes, path: Path) -> ast.Module:
    """A module's tree, once for all kernels that import it; by its bytes, as it may be edited."""
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise KernelSourceError(f"{path}: line {error.lineno}: {error.msg}") from error
    except ValueError as error:  # a NUL, before Python 3.11.4
        raise KernelSourceError(f"{path}: {error}") from error


def kernel_digest(kernel: Path, sources: Sequence[str]) -> str:
    """Hex SHA-256 of the code that decides a kernel's results.

    Python files count by their syntax trees, so that a comment does not change the digest; the
    files in `sources`, paths relative to the kernel's folder, count by their bytes.
    KernelSourceError where a file is missing, outside the kernel's folder, or not Python.
    """
    folder = kernel.parent
    trees: dict[Path, ast.Module] = {}
    waiting = [kernel]
    while waiting:
        path = waiting.pop()
        if path not in trees:
            trees[path] = tree = _parse(path.read_bytes(), path)
            package = (PACKAGE, *path.relative_to(folder).parent.parts)
            for name in _imported_names(tree, package):
                waiting.extend(_module_files(name, folder))
    # The kernel itself under no name: renaming its file changes nothing that it computes.
    content = {"": _canonical(trees.pop(kernel), LABELS + DECLARED)}
    for path, tree in trees.items():
        content[path.relative_to(folder).as_posix()] = _canonical(tree, DECLARED)
    for source in sources:
        path = folder / source
        if not path.resolve().is_relative_to(folder.resolve()):
            raise KernelSourceError(f"{kernel}: SOURCES: {source} lies outside {folder}")
        try:
            content[f"bytes of {source}"] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise KernelSourceError(f"{kernel}: SOURCES: {path}: {error.strerror}") from error
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
