"""A digest of a Python file's syntax tree, which layout and comments do not change.

Records are named by this digest, so it must not depend on the Python version. It is taken over our
own serialisation of the syntax tree (`ast.dump` differs between versions, and a code object holds
line numbers), and is the same on Python 3.11 to 3.14.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache

_WITHOUT_MEANING = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields that the tree's shape implies (`ctx`), or that no interpreter acts on."""

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


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


@cache
def _meaningful(fields: tuple[str, ...]) -> list[str]:
    """A kind of node's fields that mean something; their order differs between versions."""
    return sorted(set(fields) - _WITHOUT_MEANING)


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


def _serialise(value: object, parts: list[str]) -> None:
    """Append the text of a node, a list of nodes or a plain value, in parts."""
    if isinstance(value, ast.Constant):
        # ascii, since the characters that repr escapes differ between versions
        parts.append(f"({type(value.value).__name__} {value.value!a})")
    elif isinstance(value, ast.AST):
        parts.append(f"({type(value).__name__}")
        for name in _meaningful(value._fields):
            if (field := _field(value, name)) is not None:
                parts.append(f" {name}=")
                _serialise(field, parts)
        parts.append(")")
    elif isinstance(value, list):
        parts.append("[")
        for item in value:
            _serialise(item, parts)
            parts.append(",")
        parts.append("]")
    else:
        parts.append(ascii(value))


def canonical_tree(tree: ast.Module) -> str:
    """A module's syntax tree as text: no positions, comments, docstrings or empty fields."""
    parts: list[str] = []
    _serialise(tree, parts)
    return "".join(parts)


def syntax_digest(source: bytes, filename: str) -> str:
    """Hex SHA-256 of a module's `canonical_tree`.

    Raises:
        SyntaxError, ValueError: `source` is not Python, or holds a NUL.
    """
    tree = ast.parse(source, filename=filename)
    return hashlib.sha256(canonical_tree(tree).encode()).hexdigest()
