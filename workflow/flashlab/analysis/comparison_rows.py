"""The words of comparisons.csv."""

from __future__ import annotations

from collections.abc import Iterable
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
