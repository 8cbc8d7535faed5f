"""Three or more implementations: their groups, and stretches of settings in words.

The naive ones store the N × N scores, the fused ones do not; both are declared in the kernels'
files. The project's own kernel is told apart from the other fused ones, and last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from flashlab.story import words
from flashlab.story.attention.sweep import FORWARD, is_switch
from flashlab.story.tables import (
    Section,
    Tables,
    span,
)

PLACE = ["head_dim", "seq_len"]
"""The parameters by which a choice among implementations is told."""

OUTLIER = math.log(words.margins(3))
"""Least width of a group's range, as a logarithm, where one of them is told apart."""


@dataclass(frozen=True)
class Groups:
    """The implementations by what they do with the scores.

    Attributes:
        naive: the baseline, where it stores them; else None.
        stored: the others that store them.
        fused: all that do not, the project's own kernels among them.
        projects: the project's own kernels, with the devices that each was tuned on.
    """

    naive: str | None
    stored: tuple[str, ...]
    fused: tuple[str, ...]
    projects: dict[str, list[str]]

    @property
    def others(self) -> list[str]:
        """The fused ones but the project's own."""
        return [name for name in self.fused if name not in self.projects]

    @property
    def mine(self) -> str | None:
        """The project's own kernel; the first of several."""
        return next((name for name in self.fused if name in self.projects), None)


def groups_of(tables: Tables) -> Groups | None:
    """The groups of a dataset; None for fewer than three implementations."""
    names = tables.implementations
    declared = {
        entry["name"]: entry
        for each in tables.experiments
        for entry in each.plan["implementations"]
    }
    stored = [name for name in names if declared[name].get("stores_scores")]
    if len(names) < 3:
        return None
    fused = tuple(name for name in names if name not in stored)
    return Groups(
        tables.baseline if tables.baseline in stored else None,
        tuple(name for name in stored if name != tables.baseline),
        fused,
        {name: declared[name]["tuned_on"] for name in fused if declared[name].get("tuned_on")},
    )


# Chapters: neighbouring experiments that are told once


@dataclass(frozen=True)
class VariantSweep:
    """A sweep with or without the mask, of one of a chapter's experiments."""

    section: Section
    variant: str

    def able(self, names: Iterable[str]) -> list[str]:
        """Those of these implementations that have numbers at more than one value."""
        return [n for n in names if len(self.section.medians(FORWARD, n, self.variant)) > 1]

    def whole(self, names: Iterable[str]) -> list[str]:
        """Those that have numbers at every value at which any has; all where hardly any has."""
        able = self.able(names)
        most = max((len(self.section.medians(FORWARD, n, self.variant)) for n in able), default=0)
        found = [n for n in able if len(self.section.medians(FORWARD, n, self.variant)) == most]
        return found if len(found) > 1 else able


@dataclass(frozen=True)
class Chapter:
    """The experiments that a chapter of the report holds: one, or those with and without the mask.

    Its observations are told under the name of the first one. `is_half`: it is one of two that are
    told together, after the other.
    """

    sections: Sequence[Section]
    groups: Groups
    is_half: bool = False

    @property
    def first(self) -> Section:
        """The first of its experiments."""
        return self.sections[0]

    @property
    def name(self) -> str:
        """The name of the first experiment."""
        return self.first.name

    @property
    def switch(self) -> bool:
        """True of a chapter about the mask."""
        return is_switch(self.first)

    @property
    def is_long(self) -> bool:
        """True of a sweep of the sequence length that reaches long sequences."""
        experiment = self.first.experiment
        return experiment.parameter.name == "seq_len" and experiment.values[-1] >= words.LONG

    @property
    def main(self) -> VariantSweep:
        """The first experiment, without the mask where it has both."""
        return VariantSweep(self.first, self.first.variants[0])

    @property
    def sweeps(self) -> list[VariantSweep]:
        """All sweeps of its experiments."""
        return [VariantSweep(section, v) for section in self.sections for v in section.variants]

    @property
    def halves(self) -> list[Chapter]:
        """Its other experiments, each as a chapter: with the mask where the first is without."""
        return [replace(self, sections=[each], is_half=True) for each in self.sections[1:]]

    @property
    def packed(self) -> dict[str, str]:
        """Its implementations with packed inputs, by the names of which they are twins."""
        return dict(self.first.experiment.packed)

    @property
    def fused(self) -> list[str]:
        """The fused implementations that have a sweep, in the report's order."""
        return self.main.able(self.groups.fused)

    @property
    def whole(self) -> list[str]:
        """Those of them that have numbers at every value, of which a growth is told."""
        return self.main.whole(self.groups.fused)

    @property
    def others(self) -> list[str]:
        """The fused ones but the project's own."""
        return self.main.able(self.groups.others)

    @property
    def stored(self) -> list[str]:
        """Those that store the scores and have a sweep, the baseline first."""
        naive = self.groups.naive
        return self.main.able((*([naive] if naive else []), *self.groups.stored))

    @property
    def naive(self) -> str | None:
        """The baseline, where it stores the scores and has a sweep here."""
        stored = self.stored
        return stored[0] if stored and stored[0] == self.groups.naive else None


# Stretches of settings


def _interval(low: int, high: int, known: Sequence[int]) -> dict[str, Any]:
    """A range of sizes in words: ``all``, ``at`` one, ``up to``, ``from``, or ``between`` two."""
    least, most = known[0], known[-1]
    if low == least and high == most:
        how = "all"
    elif low == high:
        how = "at"
    elif low == least:
        how = "up to"
    else:
        how = "from" if high == most else "between"
    return {"how": how, "low": low, "high": high}


def stretches(settings: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Every stretch of d and N: in words, as facts, and the settings within it, at both ends too.

    Args:
        settings: a row for each, with the columns of `PLACE`.
    """
    dims = sorted(settings.head_dim.unique())
    for low, high in itertools.combinations_with_replacement(dims, 2):
        these = settings[settings.head_dim.between(low, high)]
        lengths = sorted(these.seq_len.unique())
        for first, last in itertools.combinations_with_replacement(lengths, 2):
            inside = these[these.seq_len.between(first, last)]
            if not {low, high} <= {*inside.head_dim}:
                continue
            every = settings.seq_len.between(first, last).sum()
            d = _interval(low, high, dims)
            if first == lengths[0] and last == lengths[-1] and d["how"] != "all":
                n = {"how": "all", "low": first, "high": last}
            else:
                n = _interval(first, last, lengths)
            if every == len(inside) and n["how"] != "all":
                d = {**d, "how": "all"}
            yield {"d": _plain(d), "N": _plain(n)}, inside


def _plain(interval: dict[str, Any]) -> dict[str, Any]:
    return {"how": interval["how"], "low": int(interval["low"]), "high": int(interval["high"])}


def where(chosen: pd.DataFrame, settings: pd.DataFrame) -> dict[str, Any] | None:
    """The stretch that holds exactly the chosen ones of some settings; None where none does."""
    for place, inside in stretches(settings):
        if set(inside.index) == set(chosen.index):
            return place
    return None


# Numbers of a group


def apart(numbers: dict[str, float]) -> str | None:
    """The one of at least four without which their range is less than half as wide, if any.

    Widths are those of logarithms: of 15, 17, 21 and 43 it is the last.
    """
    if len(numbers) < 4 or min(numbers.values()) <= 0:
        return None
    logs = {name: math.log(number) for name, number in numbers.items()}

    def width(names: Iterable[str]) -> float:
        these = [logs[name] for name in names]
        return max(these) - min(these)

    narrowest = min(logs, key=lambda name: width(logs.keys() - {name}))
    whole = width(logs)
    is_apart = whole > OUTLIER and 2 * width(logs.keys() - {narrowest}) < whole
    return narrowest if is_apart else None


def spread_of(numbers: dict[str, float]) -> dict[str, Any]:
    """The range of a group's numbers, and the one that lies apart from it, as facts."""
    odd = apart(numbers)
    within = [number for name, number in numbers.items() if name != odd]
    return {
        "count": len(within),
        "range": span(within),
        "apart": None if odd is None else {"name": odd, "x": numbers[odd]},
    }
