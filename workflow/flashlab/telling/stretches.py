"""Positions along a sweep by stretches of consecutive ones, and a stretch in short."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence


def neighbours(positions: Iterable[int]) -> list[list[int]]:
    """Ascending positions by stretches of consecutive ones."""
    groups = itertools.groupby(enumerate(positions), key=lambda each: each[1] - each[0])
    return [[position for _, position in group] for _, group in groups]


def ends_of_stretch(values: Sequence[int]) -> list[str]:
    """Consecutive values of a sweep by their ends: ``128–1024``; one or two as they are."""
    return [f"{values[0]}–{values[-1]}"] if len(values) > 2 else [str(value) for value in values]
