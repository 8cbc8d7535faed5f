"""A shape as text for a command line: ``B16,N1024,H32,D64,causal``; KV8 where keys are shared."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from flashlab.benchmarks.attention.shape import BEYOND, Shape

FORM = "B16,N1024,H32,D64,causal"
_RANGE = re.compile(r"([1-9][0-9]*):([1-9][0-9]*)", re.ASCII)
_LIST = re.compile(r"[1-9][0-9]*(,[1-9][0-9]*)*", re.ASCII)
_LETTERS = {
    **{"batch_size": "B", "seq_len": "N", "num_heads": "H", "num_kv_heads": "KV"},
    **{"emb_dim": "E", "head_dim": "D"},
}
_SIZE = re.compile(
    f"(?:H_(?=KV))?({'|'.join(sorted(_LETTERS.values(), key=len, reverse=True))})([1-9][0-9]*)",
    re.IGNORECASE | re.ASCII,
)
_MASKS = {"full": False, "causal": True}


class ShapeError(Exception):
    """Text that is not a shape."""


def shape_text(shape: Shape) -> str:
    """The shape as `parse_shapes` reads it."""
    s = shape
    mask = "causal" if s.causal else "full"
    beyond = "".join(
        f",{letter}{s.parameters[name]}" for name, letter in _LETTERS.items() if name in s.beyond
    )
    return f"B{s.batch_size},N{s.seq_len},H{s.num_heads}{beyond},D{s.head_dim},{mask}"


def _parts(text: str) -> tuple[dict[str, list[int]], list[bool]]:
    """The sizes by letter, and the masks, that a text gives: none or one of each."""
    sizes: dict[str, list[int]] = {}
    masks: list[bool] = []
    for part in (part.strip() for part in text.split(",")):
        size = _SIZE.fullmatch(part)
        if size is None and part.lower() not in _MASKS:
            raise ShapeError(f"{part!r} is neither a size such as N1024 nor full or causal")
        if size is None:
            masks.append(_MASKS[part.lower()])
        elif size[1].upper() in sizes:
            raise ShapeError(f"{size[1].upper()} is given twice")
        else:
            sizes[size[1].upper()] = [int(size[2])]
    if len(masks) > 1:
        raise ShapeError("the mask is given twice; leave it out for both")
    if "D" in sizes and "E" in sizes:
        raise ShapeError("give D (head_dim) or E (emb_dim), not both")
    return sizes, masks


def is_shape(text: str) -> bool:
    """True if `parse_shapes` can read a text."""
    try:
        _parts(text)
    except ShapeError:
        return False
    return True


def parse_shapes(
    text: str,
    *,
    batch_size: Sequence[int],
    seq_len: Sequence[int],
    num_heads: Sequence[int],
    head_dim: Sequence[int],
) -> list[Shape]:
    """The shapes that a text such as ``B16,N1024,H32,D64,causal`` stands for.

    The letters are those of the lab: B batch_size, N seq_len, H num_heads, and D head_dim or
    E emb_dim, in any order; KV num_kv_heads, or H_kv as runs are named, is H where it is left out.
    Another size that the text leaves out takes each of the values given here, and the mask both.

    Raises:
        ShapeError: the text is malformed; the message shows the form.
    """
    try:
        sizes, masks = _parts(text)
        dims = [0] if "E" in sizes else sizes.get("D", head_dim)
        beyond = {
            name: sizes[letter][0]
            for name, letter in _LETTERS.items()
            if name in BEYOND and letter in sizes
        }
        shapes = []
        for b, n, h, d in itertools.product(
            sizes.get("B", batch_size), sizes.get("N", seq_len), sizes.get("H", num_heads), dims
        ):
            (emb_dim,) = sizes.get("E", [h * d])
            (kv,) = sizes.get("KV", [h])
            if emb_dim % h:
                raise ShapeError(f"H{h} does not divide E{emb_dim}")
            if h % kv:
                raise ShapeError(f"KV{kv} does not divide H{h}")
            for mask in masks or (False, True):
                shapes.append(Shape(b, n, h, emb_dim, mask, **beyond))
    except (ShapeError, ValueError) as error:  # ValueError: more digits than Python reads
        raise ShapeError(f"{text!r}: {error}; the form is {FORM}") from None
    return shapes


def _swept_sizes(sweep: str) -> list[str]:
    """The sizes of a sweep as parts of a shape's text: ``N128``, ``N256``."""
    name, _, values = sweep.partition("=")
    if name not in _LETTERS:
        raise ShapeError(f"--sweep {sweep}: {name!r} is none of {', '.join(_LETTERS)}")
    sizes: list[int] = []
    if bounds := _RANGE.fullmatch(values):
        first, last = map(int, bounds.groups())
        sizes = [first << doubled for doubled in range((last // first).bit_length())]
    elif _LIST.fullmatch(values):
        sizes = [int(value) for value in values.split(",")]
    if not sizes:
        raise ShapeError(
            f"--sweep {sweep}: the form is {name}=128:8192 (doubled from the first to the last at "
            f"most) or {name}=128,384,512"
        )
    return [f"{_LETTERS[name]}{size}" for size in sizes]


def sweep_shape(text: str, sweep: str) -> list[str]:
    """A shape's text once for each size of a sweep, in place of the one that it has, if any.

    A sweep is a size and its values, such as ``seq_len=128:8192`` or ``head_dim=64,96,128``.

    Raises:
        ShapeError: the sweep is malformed; the message shows the form.
    """
    sizes = _swept_sizes(sweep)
    letter = _LETTERS[sweep.partition("=")[0]]
    replaced = ("D", "E") if letter in "DE" else (letter,)
    parts = [part.strip() for part in text.split(",")]
    letters = [part.rstrip("0123456789").upper().removeprefix("H_") for part in parts]
    kept = [part for part, of in zip(parts, letters, strict=True) if part and of not in replaced]
    return [",".join([*kept, size]) for size in sizes]
