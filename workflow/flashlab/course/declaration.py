"""A file's declaration of its run: by a row of ``runs.csv``, by its record, or by its name.

A row of ``runs.csv`` takes precedence over a record, and a record over a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.results import Claim, Numbers
from flashlab.course.runs_csv import RUNS_CSV, DeclaredRun, read_row
from flashlab.course.words import COURSE_DTYPE, FLASH2, FLASH_ATTN
from flashlab.devices import find_device

ATTRIBUTES = ("implementation", "batch_size", "seq_len", "num_heads", "emb_dim", "causal")


@dataclass(frozen=True)
class Declaration:
    """The run that a file is declared to be of; None for each attribute that is not declared.

    `source` is ``runs.csv``, ``record``, ``name``, or ``file`` for what stands beside the numbers;
    `gpu` is False if the run is declared to be on a CPU, or in another number format than float16.
    `hinted` names the attributes that only the file's name seems to state; the numbers overrule
    them.
    """

    source: str
    implementation: str | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    num_heads: int | None = None
    emb_dim: int | None = None
    causal: bool | None = None
    device_name: str | None = None
    gpu: bool = True
    hinted: frozenset[str] = frozenset()

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None if a part of it is not declared."""
        sizes = [getattr(self, name) for name in ATTRIBUTES[1:]]
        return None if None in sizes else Shape(*sizes)

    @property
    def run(self) -> tuple[str, Shape] | None:
        """Implementation and shape, None if they are not fully declared."""
        shape = self.shape
        return (
            None if shape is None or self.implementation is None else (self.implementation, shape)
        )

    @property
    def stated(self) -> dict[str, Any]:
        """The declared values of the run's attributes."""
        values = ((name, getattr(self, name)) for name in ATTRIBUTES)
        return {name: value for name, value in values if value is not None}

    def without(self, attributes: Iterable[str]) -> Declaration:
        """The declaration without some of its hints."""
        gone: dict[str, Any] = dict.fromkeys(attributes)
        return replace(self, **gone, hinted=self.hinted - gone.keys())

    def completed_by(self, other: Declaration) -> Declaration:
        """The declaration, completed from another."""
        missing: dict[str, Any] = {k: v for k, v in other.stated.items() if k not in self.stated}
        return replace(self, **missing, hinted=self.hinted | (other.hinted & missing.keys()))

    def contradicts(self, other: Declaration) -> bool:
        """True if the two state different values of an attribute."""
        mine, theirs = self.stated, other.stated
        return any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())

    def describe(self) -> str:
        """The declaration in one line: ``Flash2 B16 N1024 H32 E2048 full``."""
        sizes = (self.batch_size, self.seq_len, self.num_heads, self.emb_dim)
        parts = [f"{symbol}{size}" for symbol, size in zip("BNHE", sizes, strict=True) if size]
        mask = {True: "causal", False: "full", None: ""}[self.causal]
        return " ".join(filter(None, (self.implementation, *parts, mask)))


@dataclass(frozen=True)
class DeclaredFile:
    """A sound result by its path in the folder: its numbers and its declaration."""

    name: str
    numbers: Numbers
    declaration: Declaration


def device_is_gpu(name: str) -> bool:
    """True if a device's name is not that of a CPU."""
    return not re.search(r"\bcpus?\b", name, re.IGNORECASE)


def kind_of_device(name: str | None) -> str | None:
    """One name for all ways to write a known device's; any other name as it is."""
    device = find_device(name)
    return device.name if device else name


def is_same_device(one: str, other: str | None) -> bool:
    """True if two names are of one kind of device; False where one is not known."""
    return other is not None and kind_of_device(one) == kind_of_device(other)


def of_row(row: DeclaredRun, source: str = RUNS_CSV) -> Declaration:
    """The declaration in a row of ``runs.csv``."""
    return Declaration(
        source,
        row.implementation,
        *(row.batch_size, row.seq_len, row.num_heads, row.emb_dim, row.causal),
        device_name=row.device_name or None,
        gpu=device_is_gpu(row.device_name),
    )


def of_cells(cells: Mapping[str, str]) -> Declaration | None:
    """The declaration in the cells beside a result's numbers; None without such cells.

    Raises:
        UnsoundFileError: a cell cannot be read.
    """
    row = read_row(0, {**cells, "file": "."})
    return of_row(row, "file") if cells else None


def of_record(claim: Claim) -> Declaration:
    """The declaration in a record, which is not more trusted than any other.

    If flash-attn was not installed, ``Flash2`` ran another kernel, which takes other memory.
    """
    run = claim.run
    substituted = run.implementation == FLASH2 and not (claim.provider or FLASH_ATTN).startswith(
        FLASH_ATTN
    )
    return Declaration(
        "record",
        run.implementation,
        **Shape.of(run).parameters,
        device_name=claim.device_name,
        gpu=run.device == "cuda" and run.dtype == COURSE_DTYPE and not substituted,
    )
