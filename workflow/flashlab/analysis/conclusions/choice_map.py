"""The choice as a map: who is best at each size, a column for each kind of problem.

A row is a value of the size that has the most values; a column is a value of each derived size and
variant, for which a kernel is written. A place of the map holds all settings with its row and
column, whatever their other sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.conclusions.quoting import stretches_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.telling.values import percent

Place = Mapping[str, Any]
"""Who is best at one setting, as evidence of the choice over the whole dataset."""


def row_parameter(benchmark: Benchmark, estimates: Sequence[Mapping[str, Any]]) -> Parameter:
    """The given size with the most distinct values; the first one of several."""
    sizes = [p for p in benchmark.given if not p.is_variant]
    return max(sizes, key=lambda p: len({e["setting"][p.name] for e in estimates}))


def column_parameters(benchmark: Benchmark) -> list[Parameter]:
    """What makes a column: derived sizes and variants."""
    return [*benchmark.derived_parameters, *benchmark.variants]


@dataclass(frozen=True)
class ChoiceMap:
    """The settings of a choice by row and column; the rarer columns have only one row."""

    benchmark: Benchmark
    row: Parameter
    places: Mapping[tuple[tuple[Any, ...], int], Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, benchmark: Benchmark, choice: Finding) -> ChoiceMap:
        """The map of the choice over the whole dataset."""
        row = row_parameter(benchmark, choice.estimates)
        columns = column_parameters(benchmark)
        places: dict[tuple[tuple[Any, ...], int], list[Mapping[str, Any]]] = {}
        for estimate in choice.estimates:
            setting = estimate["setting"]
            column = tuple(setting[p.name] for p in columns)
            places.setdefault((column, setting[row.name]), []).append(estimate)
        return cls(benchmark, row, places)

    @property
    def columns(self) -> list[tuple[Any, ...]]:
        """The columns with several rows, in order; all where none has."""
        count = Counter(column for column, _ in self.places)
        several = [column for column in sorted(count) if count[column] > 1]
        return several or sorted(count)

    @property
    def rows(self) -> list[int]:
        """The rows of these columns, in order."""
        shown = self.columns
        return sorted({row for column, row in self.places if column in shown})

    def cell(self, column: tuple[Any, ...], row: int, metric: str) -> dict[str, Any] | None:
        """Who is best at a place by a metric; None where nothing was measured."""
        estimates = self.places.get((column, row))
        return None if estimates is None else _cell([each[metric] for each in estimates])

    def cells(self, metric: str) -> list[list[dict[str, Any] | None]]:
        """All cells, row by row."""
        return [[self.cell(column, row, metric) for column in self.columns] for row in self.rows]

    def winners(self, metric: str) -> list[dict[str, Any]]:
        """Who suffices at all columns, by stretches of rows, with the leads where it is alone."""
        by_row: dict[int, list[str]] = {}
        places: dict[int, list[Place]] = {}
        for row in self.rows:
            found = [
                estimate[metric]
                for column in self.columns
                for estimate in self.places.get((column, row), ())
            ]
            by_row[row], places[row] = suffice(found), found
        stretches = stretches_of(by_row)
        for stretch in stretches:
            mine = [place for row in stretch["values"] for place in places[row]]
            stretch |= _leads(mine, stretch["names"])
        return stretches

    def rare(self, metric: str) -> list[dict[str, Any]]:
        """The columns that are not shown, each with its one row and its cell."""
        shown = self.columns
        return [
            {"column": list(column), "row": row, **(self.cell(column, row, metric) or {})}
            for column, row in sorted(self.places)
            if column not in shown
        ]


def suffice(places: Sequence[Place]) -> list[str]:
    """Who is best or level with the best at all places, the most often best one first.

    Where nobody is, those that are the best at any.
    """
    wins = Counter(place["best"] for place in places)
    everywhere = set.intersection(*(set(place["level"]) for place in places))
    return sorted(everywhere or wins, key=lambda name: (-wins[name], name))


def _leads(places: Sequence[Place], names: Sequence[str]) -> dict[str, Any]:
    """The leads in percent of the first of these names, where it is alone."""
    leads = [
        place["estimate"] - 1
        for place in places
        if place["best"] == names[0] and _state(place) == "alone"
    ]
    if not leads:
        return {}
    return {"lead_low": percent(min(leads)).text, "lead_high": percent(max(leads)).text}


def _state(place: Place) -> str:
    """Whether the best is alone, level with others, or not known to be either."""
    if len(place["level"]) > 1:
        return "level"
    return "undecided" if place["undecided"] else "alone"


def _cell(places: Sequence[Place]) -> dict[str, Any]:
    """Several places as one: who suffices there, and the range of the leads in percent.

    ``alone``: one is better than all others by more than the margin at all of them; ``level``:
    several suffice, or one is level with others somewhere; ``undecided``; ``changes``: nobody
    suffices everywhere.
    """
    everywhere = set.intersection(*(set(place["level"]) for place in places))
    names = suffice(places)
    states = {_state(place) for place in places}
    if not everywhere:
        state = "changes"
    elif states == {"alone"}:
        state = "alone"
    else:
        state = "level" if len(names) > 1 else "undecided" if "undecided" in states else "mostly"
    leads = [place["estimate"] - 1 for place in places]
    return {
        "names": names,
        "state": state,
        "lead_low": percent(min(leads)).text,
        "lead_high": percent(max(leads)).text,
    }
