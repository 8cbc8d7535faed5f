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
def syntax_digest(source: bytes, filename: str) -> str:
    """Hex SHA-256 of a module's `canonical_tree`; SyntaxError or ValueError if it is not Python."""
    tree = ast.parse(source, filename=filename)
    return hashlib.sha256(canonical_tree(tree).encode()).hexdigest()
