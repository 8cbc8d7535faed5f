"""Edits that change the digest of a source, and edits that do not, on every Python."""

from __future__ import annotations

import ast
import hashlib

import pytest

from flashlab.syntax import canonical_tree

SOURCE = '''\
"""A module."""
from __future__ import annotations

import math as m
from . import tiles

SCALE: float = 1e-3 + 2j.real


@tiles.jit(num_warps=8)
def attention(qkv, causal=False, /, *rest, scale=None, **options):
    """Attention."""
    q, *kv = qkv
    match q:
        case {"d": 64 | 128 as d, **others} if d:
            return [x for x in kv if (y := x) is not None]
        case _:
            raise ValueError(f"head_dim {q!r:>{d}} is {scale=}" "% of " f"{m.pi:}")
'''


def digest(source: str) -> str:
    return hashlib.sha256(canonical_tree(ast.parse(source)).encode()).hexdigest()


def test_the_digest_is_the_same_on_every_version_of_python() -> None:
    """As computed on Python 3.11.7, 3.12.7, 3.13.2 and 3.14.2."""
    assert digest(SOURCE) == "31b03592f6156b8c2af608a443e27bb1edbdf5c840daa2351fb6953a318ee2ef"


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        # Layout, comments and docstrings
        *(("import math as m", "import math as m  # a", False), ("\n    ", "\n        ", False)),
        *(('"""A module."""', '"""Another."""', False), ('    """Attention."""\n', "", False)),
        *(("1e-3", "0.001", False), ('"d"', "'d'", False)),
        # What means something else
        *(("1e-3", "2e-3", True), ("num_warps=8", "num_warps=4", True)),
        *(("causal=False", "causal=0", True), ("/, *rest", "*rest", True)),
        *(("scale=None", "scale", True), ("is not None", "is None", True)),
        *(('"% of "', '"% off "', True), ("{q!r:>{d}}", "{q!s:>{d}}", True), ("m.pi", "m.e", True)),
        *(("q, *kv = qkv", "*q, kv = qkv", True), ("return [", "yield [", True)),
        ('case {"d"', 'case {b"d"', True),
    ],
)
def test_the_digest_moves_with_the_meaning_alone(old: str, new: str, moves: bool) -> None:
    edited = SOURCE.replace(old, new)
    assert edited != SOURCE
    assert (digest(edited) != digest(SOURCE)) == moves


def test_text_is_not_taken_for_the_name_that_it_spells() -> None:
    assert len({digest(f"x = {value}") for value in ("True", "'True'", "b'True'", "1", "1.0")}) == 5
