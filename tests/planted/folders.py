"""Folders of results as students make them: sweeps and grids of measurements, as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from planted.course import result_of

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.words import FLASH2, NAIVE, SIZES

KNOWN = (NAIVE, FLASH2, "SdpaMath")
Option = tuple[str, Shape]
Quarters = Mapping[str, tuple[int, ...]]
"""Of each swept parameter, its values in quarters of the base's size."""


@dataclass(frozen=True)
class Measured:
    """A file that a student has made: which parameter was swept, the run, and its document."""

    swept: str
    implementation: str
    shape: Shape
    document: dict[str, Any]

    @property
    def value(self) -> int:
        return int(getattr(self.shape, self.swept))

    @property
    def option(self) -> Option:
        return self.implementation, self.shape

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(getattr(self.shape, name) for name in SIZES)


def measured(points: Sequence[tuple[str, Shape]]) -> list[Measured]:
    """Both implementations at each point, each timed anew."""
    found: list[Measured] = []
    for swept, shape in points:
        for who, rate in ((NAIVE, 3e12), (FLASH2, 2e13)):
            seconds = costs.forward_flops(shape) / rate * (1 + len(found) / 1000)
            found.append(Measured(swept, who, shape, result_of(who, shape, seconds, 2.6 * seconds)))
    return found


def lab(base: Shape, swept: Quarters) -> list[Measured]:
    """Each sweep by itself; the base point in each of them, timed anew."""
    steps = [(name, getattr(base, name) * f // 4) for name, each in swept.items() for f in each]
    return measured([(name, replace(base, **{name: size})) for name, size in steps])


def grid(base: Shape, swept: Quarters) -> list[Measured]:
    """Every combination of the sizes of these sweeps."""
    sizes = [[getattr(base, name) * f // 4 for f in each] for name, each in swept.items()]
    shapes = [replace(base, **dict(zip(swept, each, strict=True))) for each in product(*sizes)]
    return measured([("seq_len", shape) for shape in shapes])


def of_heads(base: Shape, counts: Sequence[int]) -> list[Measured]:
    """A sweep of heads of a fixed size, in which E grows, too."""
    d = base.head_dim
    shapes = (replace(base, num_heads=count, emb_dim=count * d) for count in counts)
    return measured([("num_heads", shape) for shape in shapes])


def six_digits(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document whose numbers of passes are rounded."""
    return {
        name: {key: float(f"{number:.6g}") for key, number in value.items()}
        if isinstance(value, dict) else value
        for name, value in document.items()
    }  # fmt: skip


def runs_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Option]:
    """The run of each file."""
    return {e["file"]: (e["run"]["implementation"], Shape.of(e["run"])) for e in entries}
