"""A shape as text for a command line: ``B16,N1024,H32,D64,causal``; KV8 where keys are shared."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from flashlab.benchmarks.attention.shape import Shape

FORM = "B16,N1024,H32,D64,causal"
LETTERS = {"batch_size": "B", "seq_len": "N", "num_heads": "H", "head_dim": "D"}
_SIZE = re.compile(r"(?:H_(?=KV))?(B|N|KV|H|E|D)([1-9][0-9]*)", re.IGNORECASE | re.ASCII)
_MASKS = {"full": False, "causal": True}


class ShapeError(Exception):
    """Text that is not a shape."""


def shape_text(shape: Shape) -> str:
    """The shape as `parse_shapes` reads it."""
    shared = f",KV{shape.num_kv_heads}" if shape.num_kv_heads else ""
    sizes = f"B{shape.batch_size},N{shape.seq_len},H{shape.num_heads}{shared},D{shape.head_dim}"
    return f"{sizes},{'causal' if shape.causal else 'full'}"


def _parts(text: str) -> dict[str, int]:
    """The sizes that a text gives, by letter, and whether there is a ``mask``, if it says so."""
    found: dict[str, int] = {}
    for part in (part.strip() for part in text.split(",")):
        size = _SIZE.fullmatch(part)
        if size is None and part.lower() not in _MASKS:
            raise ShapeError(f"{part!r} is neither a size such as N1024 nor full or causal")
        letter = size[1].upper() if size else "mask"
        if letter in found:
            raise ShapeError(f"{letter} is given twice")
        found[letter] = int(size[2]) if size else _MASKS[part.lower()]
    if {"D", "E"} <= found.keys():
        raise ShapeError("give D (head_dim) or E (emb_dim), not both")
    return found


def is_shape(text: str) -> bool:
    """True if `parse_shapes` can read a text."""
    try:
        return bool(_parts(text))
    except ShapeError:
        return False


def parse_shapes(text: str, **usual: Sequence[int]) -> list[Shape]:
    """The shapes that a text such as ``B16,N1024,H32,D64,causal`` stands for.

    The letters are those of the lab: B batch_size, N seq_len, H num_heads, and D head_dim or
    E emb_dim, in any order; KV num_kv_heads, or H_kv as runs are named, is H where it is left out.
    Another size takes each of the values that are `usual` by its name, and the mask both. Raises
    ShapeError, with the form, where the text is malformed.
    """
    try:
        given, shapes = _parts(text), dict[Shape, None]()  # where E is given, D has no say
        sizes = [[given[at]] if at in given else usual[name] for name, at in LETTERS.items()]
        masks = [given["mask"]] if "mask" in given else [0, 1]
        for b, n, h, d, mask in itertools.product(*sizes, masks):
            emb_dim, kv = given.get("E", h * d), given.get("KV", h)
            if emb_dim % h:
                raise ShapeError(f"H{h} does not divide E{emb_dim}")
            if h % kv:
                raise ShapeError(f"KV{kv} does not divide H{h}")
            shapes[Shape(b, n, h, emb_dim, bool(mask), kv)] = None
        return [*shapes]
    except (ShapeError, ValueError) as error:  # ValueError: more digits than Python reads
        raise ShapeError(f"{text!r}: {error}; the form is {FORM}") from None
