"""comparisons.csv row by row, for those that only look a verdict up and load no frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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

    @property
    def inverse(self) -> Comparison:
        """The reference over the subject."""
        ratio, low, high = inverse_of(self.ratio, self.low, self.high)
        verdict = OPPOSITE.get(self.verdict, self.verdict)
        swapped = replace(self, subject=self.reference, reference=self.subject, verdict=verdict)
        return replace(swapped, ratio=ratio, low=low, high=high)

    def gain(self, higher_is_better: bool) -> Comparison:
        """The same in how many times as good the subject is: above where it is better."""
        if higher_is_better:
            return self
        return replace(self.inverse, subject=self.subject, reference=self.reference)


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


Key = tuple[str | None, str, str, str, str, int | None]


def between_implementations(rows: Iterable[Comparison]) -> Mapping[Key, Comparison]:
    """The comparisons of two implementations in both directions.

    By experiment, variant, metric, subject, reference and value.
    """
    found: dict[Key, Comparison] = {}
    for row in rows:
        if row.compared == IMPLEMENTATIONS:
            for each in (row, row.inverse):
                key = (each.experiment, each.variant, each.metric, each.subject, each.reference)
                found[(*key, each.value)] = each
    return found
