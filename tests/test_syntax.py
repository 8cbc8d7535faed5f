"""Edits that change the digest of a source, and edits that do not, on every Python."""

from __future__ import annotations

import pytest

from flashlab.syntax import syntax_digest

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
    return syntax_digest(source.encode(), "kernel.py")


def test_the_digest_is_the_same_on_every_version_of_python() -> None:
    """As computed on Python 3.11.7, 3.12.7, 3.13.2 and 3.14.2."""
    assert digest(SOURCE) == "31b03592f6156b8c2af608a443e27bb1edbdf5c840daa2351fb6953a318ee2ef"


@pytest.mark.parametrize(
    "other",
    [
        SOURCE + "# a comment\n",
        SOURCE.replace("\n\n\n", "\n\n\n\n# another\n"),
        SOURCE.replace("\n    ", "\n        "),
        SOURCE.replace('"""A module."""', '"""Another text."""'),
        SOURCE.replace('    """Attention."""\n', ""),
        SOURCE.replace("[x for x in kv if", "[\n x for x in kv\n  if"),
        SOURCE.replace("1e-3", "0.001"),
        SOURCE.replace('"d"', "'d'"),
    ],
)  # fmt: skip
def test_layout_comments_and_docstrings_do_not_move_it(other: str) -> None:
    assert other != SOURCE
    assert digest(other) == digest(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1e-3", "2e-3"),
        ("num_warps=8", "num_warps=4"),
        ("causal=False", "causal=0"),
        ("/, *rest", "*rest"),
        ("scale=None", "scale"),
        ("is not None", "is None"),
        ('"% of "', '"% off "'),
        ("{q!r:>{d}}", "{q!s:>{d}}"),
        ("m.pi", "m.e"),
        ("q, *kv = qkv", "*q, kv = qkv"),
        ("return [", "yield ["),
        ('case {"d"', 'case {b"d"'),
    ],
)
def test_what_means_something_else_moves_it(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest(SOURCE.replace(old, new)) != digest(SOURCE)


def test_text_is_not_taken_for_the_name_that_it_spells() -> None:
    assert len({digest(f"x = {value}") for value in ("True", "'True'", "b'True'", "1", "1.0")}) == 5
