"""The experiments that report a folder's runs: one for each size that varies from a base point."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.words import FLASH2, NAIVE, SIZES

HEADLINE = Shape(16, 1024, 32, 2048, False)
"""The shape of the lab's headline table."""

Found = Mapping[Shape, Collection[str]]
"""The implementations that were measured at each shape."""


def _sweep(measured: Found, name: str) -> list[Shape]:
    """The largest sweep of one size with all else equal, in order; empty where it does not vary.

    The one with the most points and then runs, without a mask where several have as many. The
    heads may also vary with the size of each fixed, so that the embedding grows with them.
    """
    groups: dict[tuple[bool, Shape], list[Shape]] = defaultdict(list)
    for shape in sorted(measured):
        groups[False, Shape.of({**asdict(shape), name: 0})].append(shape)
        if name == "num_heads":
            of_size = {"num_heads": 0, "emb_dim": shape.head_dim}
            groups[True, Shape.of({**asdict(shape), **of_size})].append(shape)

    def size(key: tuple[bool, Shape]) -> tuple[int, int, bool, bool]:
        runs = sum(len(measured[shape]) for shape in groups[key])
        return len(groups[key]), runs, not key[1].causal, not key[0]

    best = groups[max(groups, key=size)]
    return best if len(best) > 1 else []


def experiments_of(measured: Found, device: str) -> dict[str, Any]:
    """The configuration that reports these runs: the lab's experiments on a kind of device.

    One whose parameter does not vary stays in the list, since the others are numbered by it. Where
    no size varies by itself, one setting is all that there is to show: that with the most
    implementations.
    """
    names = {name for each in measured.values() for name in each}
    order = [name for name in (NAIVE, FLASH2) if name in names]
    order += sorted(names - {*order})
    blocks = {name: shapes for name in SIZES if (shapes := _sweep(measured, name))}
    both = {s: measured[s] for s in measured if replace(s, causal=True) in measured}
    both = {shape: names for shape, names in both.items() if not shape.causal}
    masked = _sweep(both, "seq_len") if both else []
    if not blocks and not masked:
        blocks["seq_len"] = [max(measured, key=lambda shape: (len(measured[shape]), shape))]
    experiments = []
    for name in ("seq_len", "causal", "batch_size", "num_heads", "emb_dim"):
        shapes = masked if name == "causal" else blocks.get(name, [])
        experiment: dict[str, Any] = {"use": name, "implementations": order}
        if shapes:  # what is swept and the sizes that vary with it are lists
            sizes = {each: [getattr(shape, each) for shape in shapes] for each in SIZES}
            lists = {n: v for n, v in sizes.items() if n == name or len({*v}) > 1}
            masks = {"causal": [False, True]} if name == "causal" else {}
            experiment[device] = {**shapes[0].parameters, **lists, **masks}
        if name == "causal" and not {NAIVE, FLASH2} <= names:  # the lab's figures are of these two
            experiment["figures"] = [{"metric": "rate", "implementations": [o]} for o in order]
        experiments.append(experiment)
    often = [shape for shapes in blocks.values() for shape in shapes]
    base = max(measured, key=lambda s: (s == HEADLINE, len(measured[s]), often.count(s), s))
    return {
        "baseline": order[0],
        "summary": {"cuda": base.parameters, "cpu": base.parameters, "implementations": order},
        "experiments": experiments,
    }
