"""The sizes of an attention run in the configuration, and how they depend on one another.

All that the configuration knows of attention's parameters is in this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

INDEPENDENT_SIZES = ("batch_size", "seq_len")
LINKED_SIZES = ("num_heads", "emb_dim", "head_dim")
"""emb_dim = num_heads · head_dim: a block gives two of them."""

SYMBOLS = {"b": "batch_size", "n": "seq_len", "h": "num_heads", "e": "emb_dim", "d": "head_dim"}
LINK = "emb_dim = num_heads × head_dim"

Problem = tuple[tuple[str, ...], str]
"""A key of a block (none: the whole block), and what is wrong with it."""


def superseded_sizes(over: Mapping[str, Any]) -> set[str]:
    """The linked size, if any, that a block replaces by giving the other two."""
    other = set(LINKED_SIZES) - over.keys()
    return other if len(other) == 1 else set()


def _link_problems(block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a block that does not give exactly two of the linked sizes."""
    given = [size for size in LINKED_SIZES if size in block]
    if len(given) < 2:
        found = f"only {given[0]}" if given else "none of them"
        yield (), f"give two of {', '.join(LINKED_SIZES)} (as {LINK}); found {found}"
    if len(given) > 2:
        values = [block[size] for size in LINKED_SIZES]
        num_heads, emb_dim, head_dim = values
        text = f"give two of {', '.join(LINKED_SIZES)}, as the third follows ({LINK})"
        if all(isinstance(value, int) for value in values) and num_heads * head_dim != emb_dim:
            text += f"; {num_heads} × {head_dim} is {num_heads * head_dim}, not {emb_dim}"
        yield (), f"{text}; remove one of them"


def _divisor_problems(columns: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Problems of columns whose emb_dim is not a multiple of the other size beside it."""
    if "emb_dim" not in columns:
        return
    (divisor,) = {"num_heads", "head_dim"} & columns.keys()
    for emb_dim, size in sorted(set(zip(columns["emb_dim"], columns[divisor], strict=True))):
        if emb_dim % size:
            nearest = max(1, round(emb_dim / size)) * size
            yield (
                ("emb_dim",),
                f"{divisor} {size} does not divide {emb_dim}; "
                f"use a multiple of {size}, such as {nearest}",
            )


def shape_problems(block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems between the sizes of a block of one shape."""
    if problems := list(_link_problems(block)):
        yield from problems
        return
    sizes = {size: [block[size]] for size in LINKED_SIZES if size in block}
    yield from _divisor_problems(sizes)


def sweep_problems(sweep: str, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems between the sizes of an experiment's block."""
    if problems := list(_link_problems(block)):
        yield from problems
        return
    if sweep not in block:
        beside = " and ".join(size for size in LINKED_SIZES if size in block)
        yield (
            (),
            f"sweep is {sweep}, which follows here from {beside}; give its values as a list, in "
            "place of one of these",
        )
        return
    values = block[sweep]
    if not isinstance(values, list):
        yield (sweep,), f"sweep is {sweep}, so this must be a list of values, found {values}"
        return
    for value, count in Counter(values).items():
        if count > 1:
            yield (sweep,), f"holds {value} twice; keep one of them"
    columns = {}
    for size in (*INDEPENDENT_SIZES, *LINKED_SIZES):
        if size not in block:
            continue
        column = block[size] if isinstance(block[size], list) else [block[size]] * len(values)
        if len(column) != len(values):
            yield (
                (size,),
                f"a list beside the sweep must have as many values as {sweep} "
                f"({len(values)}), found {len(column)}",
            )
            return
        columns[size] = column
    yield from _divisor_problems(columns)
