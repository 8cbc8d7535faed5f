"""Digests of code by its syntax trees, which layout and comments do not change.

Records are named by them, so they must not depend on the Python version. They are taken over our
own serialisation of a tree (`ast.dump` differs between versions, and a code object holds line
numbers), which is the same on Python 3.11 to 3.14.

What a kernel computes is decided by its own file, the modules below ``kernels/`` that it imports,
directly or not (``from kernels.lib.tiles import …``, or relatively ``from .lib.tiles import …``),
and the files that it names in ``SOURCES``, such as CUDA sources that it compiles. They are read
without running them.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

LABELS = ("LABEL", "LABEL_CPU")
"""Names in a kernel's own file that only the report reads, and that are left out of its digest."""

DECLARED = ("STORES_SCORES", "TUNED_ON")
"""Names that only the report reads, left out in the files that a kernel imports as well."""

PACKAGE = "kernels"
"""The package from which kernels are imported, whatever their folder is called."""

_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)

_WITHOUT_MEANING = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields that the tree's shape implies (`ctx`), or that no interpreter acts on."""

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class KernelSourceError(Exception):
    """A file that a kernel imports or names and that is missing or is not Python."""


def _joined(parts: list[ast.expr]) -> list[object]:
    """The parts of an f-string, merged: where its text is split differs between versions."""
    joined: list[object] = []
    for part in parts:
        text = part.value if isinstance(part, ast.Constant) else None
        if not isinstance(text, str):
            joined.append(part)
        elif joined and isinstance(joined[-1], str):
            joined[-1] += text
        elif text:
            joined.append(text)
    return joined


def _field(node: ast.AST, name: str) -> object:
    """A node's field as it is serialised, None if it carries nothing."""
    match node, name, getattr(node, name, None):
        case _, "body", [ast.Expr(ast.Constant(str())), *rest] if isinstance(node, _WITH_DOCSTRING):
            return rest or None
        case ast.JoinedStr(values=values), "values", _:
            return _joined(values) or None
        case (_, _, []) | (_, "format_spec", ast.JoinedStr(values=[])):
            return None
        case _, _, value:
            return value
    return None


def canonical_tree(value: object) -> str:
    """A syntax tree, or a part, as text: no positions, comments, docstrings or empty fields."""
    if isinstance(value, ast.Constant):
        # ascii, since the characters that repr escapes differ between versions
        return f"({type(value.value).__name__} {value.value!a})"
    if isinstance(value, ast.AST):
        # sorted, since the order of the fields differs between versions
        names = sorted({*value._fields} - _WITHOUT_MEANING)
        fields = [(name, _field(value, name)) for name in names]
        texts = (f" {name}={canonical_tree(field)}" for name, field in fields if field is not None)
        return f"({type(value).__name__}{''.join(texts)})"
    if isinstance(value, list):
        return f"[{''.join(f'{canonical_tree(item)},' for item in value)}]"
    return ascii(value)


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
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL, before Python 3.11.4
        said = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else error
        raise KernelSourceError(f"{path}: {said}") from error


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
