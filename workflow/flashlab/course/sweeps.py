"""The lab's experiments that the runs of a folder make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.words import FLASH2, NAIVE, SIZES

HEADLINE = Shape(16, 1024, 32, 2048, False)
"""The shape of the lab's headline table."""

Found = Mapping[Shape, Collection[str]]
"""The implementations that were measured at each shape."""


def _sweep(measured: Found, name: str) -> list[Shape]:
    """The largest sweep of one size with all else equal, in order; empty where it does not vary.

    The one with the most runs, without a mask where several have as many.
    """
    groups: dict[Shape, list[Shape]] = defaultdict(list)
    for shape in sorted(measured):
        groups[Shape.of({**asdict(shape), name: 0})].append(shape)

    def size(group: list[Shape]) -> tuple[int, int, bool]:
        return len(group), sum(len(measured[shape]) for shape in group), not group[0].causal

    best = max(groups.values(), key=size)
    return best if len(best) > 1 else []


def _masked(measured: Found) -> list[Shape]:
    """The largest sweep of sequence lengths that were measured with both masks."""
    both = {shape: measured[shape] for shape in measured if replace(shape, causal=True) in measured}
    both = {shape: names for shape, names in both.items() if not shape.causal}
    return (_sweep(both, "seq_len") or [min(both)]) if both else []


def experiments_of(measured: Found, device: str) -> dict[str, Any]:
    """The configuration that reports these runs: the lab's experiments on a kind of device.

    One whose parameter does not vary stays in the list, since the others are numbered by it.
    """
    names = {name for each in measured.values() for name in each}
    order = [name for name in (NAIVE, FLASH2) if name in names]
    order += sorted(names - {*order})
    swept = {name: _sweep(measured, name) for name in SIZES}
    if not any(swept.values()):
        swept["seq_len"] = [max(measured, key=lambda shape: (len(measured[shape]), shape))]
    blocks = {name: shapes for name, shapes in swept.items() if shapes}
    experiments = []
    for name in ("seq_len", "causal", "batch_size", "num_heads", "emb_dim"):
        shapes = _masked(measured) if name == "causal" else blocks.get(name, [])
        experiment: dict[str, Any] = {"use": name, "implementations": order}
        if shapes:
            varied = "seq_len" if name == "causal" else name
            block = {**shapes[0].parameters, varied: [getattr(shape, varied) for shape in shapes]}
            masks = {"causal": [False, True]} if name == "causal" else {}
            experiment[device] = {**block, **masks}
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
