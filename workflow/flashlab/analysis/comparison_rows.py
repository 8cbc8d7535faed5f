"""comparisons.csv row by row, for those that only look a verdict up and load no frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Value

IMPLEMENTATIONS, PREVIOUS, FIRST = "implementations", "previous value", "first value"
"""The kinds of comparison beside a variant's, which its parameter names: two implementations, or
one of them at a value of the sweep with the value before it, or with the first."""

DATASET = "dataset"
"""The kind of a comparison of the same runs of two datasets (`flashlab.compare.comparison`)."""

ALTERNATIVES = "alternatives"
"""Two implementations of which the subject alone has the variant switched on: both are ways to do
the same where runs are alternatives at one setting."""

OPPOSITE = {"above": "below", "below": "above"}
"""The verdict on a ratio's inverse, where it is another one."""


def inverse_of(ratio: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """The inverse of a ratio with its interval: of numbers, or of columns of them; None stays."""
    x, lowest, highest = (None if each is None else 1 / each for each in (ratio, high, low))
    return x, lowest, highest


def variant_words(variant: Iterable[tuple[str, Value]]) -> str:
    """A variant as comparisons.csv has it: ``causal=true``; several with a space between."""
    return " ".join(f"{name}={str(value).lower()}" for name, value in variant)


@dataclass(frozen=True)
class Comparison:
    """A row of comparisons.csv: a ratio, subject over reference, in the metric's own unit.

    `experiment` and `value` are None where it is pooled over those of the dataset, or of the sweep.
    """

    experiment: str | None
    compared: str
    variant: str
    metric: str
    subject: str
    reference: str
    value: int | None
    ratio: float
    low: float | None
    high: float | None
    verdict: str


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def read_comparisons(path: Path) -> list[Comparison]:
    """All comparisons of a dataset, in the order of the table."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Comparison(
                experiment=row["experiment"] or None,
                value=int(row["value"]) if row["value"] else None,
                ratio=float(row["ratio"]),
                low=_number(row["low"]),
                high=_number(row["high"]),
                **{
                    name: row[name]
                    for name in ("compared", "variant", "metric", "subject", "reference", "verdict")
                },
            )
            for row in csv.DictReader(file)
        ]
