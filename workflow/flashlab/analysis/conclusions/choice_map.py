"""The choice as a map: who is best at each size, a column for each kind of problem.

A row is a value of the size that has the most values and fills the most cells; a column is a value
of each derived size and variant, for which a kernel is written. A place of the map holds all
settings with its row and column, whatever their other sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.conclusions.choosing import Decided, Place, cell, decide
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Benchmark, Parameter


def column_parameters(benchmark: Benchmark) -> list[Parameter]:
    """What makes a column: derived sizes and variants."""
    return [*benchmark.derived_parameters, *benchmark.variants]


def _cells(
    benchmark: Benchmark, row: Parameter, estimates: Sequence[Mapping[str, Any]]
) -> dict[tuple[tuple[Any, ...], int], list[Mapping[str, Any]]]:
    """The settings of each column and row."""
    found: dict[tuple[tuple[Any, ...], int], list[Mapping[str, Any]]] = {}
    for setting in (each["setting"] for each in estimates):
        column = tuple(setting[p.name] for p in column_parameters(benchmark))
        found.setdefault((column, setting[row.name]), []).append(setting)
    return found


def row_parameter(benchmark: Benchmark, estimates: Sequence[Mapping[str, Any]]) -> Parameter:
    """The given size with the most distinct values; of several that with the most cells."""

    def extent(size: Parameter) -> tuple[int, int]:
        cells = _cells(benchmark, size, estimates)
        rows = Counter(column for column, _ in cells)
        return len({row for _, row in cells}), sum(n for n in rows.values() if n > 1)

    return max((p for p in benchmark.given if not p.is_variant), key=extent)


@dataclass(frozen=True)
class ChoiceMap:
    """The settings of a choice by row and column; the rarer columns have only one row."""

    benchmark: Benchmark
    row: Parameter
    estimates: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, benchmark: Benchmark, choice: Finding) -> ChoiceMap:
        """The map of the choice over the whole dataset."""
        return cls(benchmark, row_parameter(benchmark, choice.estimates), choice.estimates)

    def places(self, metric: str) -> list[Place]:
        """All settings by a metric, each with what may tell it from others: variants first."""
        columns = [*self.benchmark.variants, *self.benchmark.derived_parameters]
        return [
            Place(setting[self.row.name], {p.name: setting[p.name] for p in columns}, each[metric])
            for each in self.estimates
            for setting in [each["setting"]]
        ]

    def decided(self, metric: str) -> Decided:
        """Who to use where by a metric, as far as it is decided."""
        return decide(self.benchmark, self.row, self.places(metric))

    def _at(self, metric: str) -> dict[tuple[tuple[Any, ...], int], list[Place]]:
        """The settings of each column and row."""
        found: dict[tuple[tuple[Any, ...], int], list[Place]] = {}
        for place in self.places(metric):
            column = tuple(place.where[p.name] for p in column_parameters(self.benchmark))
            found.setdefault((column, place.row), []).append(place)
        return found

    @property
    def columns(self) -> list[tuple[Any, ...]]:
        """The columns with several rows, in order; all where none has."""
        count = Counter(column for column, _ in _cells(self.benchmark, self.row, self.estimates))
        several = [column for column in sorted(count) if count[column] > 1]
        return several or sorted(count)

    def facts(self, metrics: Sequence[str]) -> dict[str, Any]:
        """The map as facts: all cells row by row, and the rarer columns apart."""
        shown = self.columns
        every = {metric: self._at(metric) for metric in metrics}
        rows = sorted({row for column, row in every[metrics[0]] if column in shown})
        charts = []
        for metric, at in every.items():
            cells = [
                [cell(at[column, row]) if (column, row) in at else None for column in shown]
                for row in rows
            ]
            rare = [
                {"column": list(column), "row": row, **cell(places)}
                for (column, row), places in sorted(at.items(), key=lambda item: item[0])
                if column not in shown
            ]
            charts.append({"metric": metric, "cells": cells, "rare": rare})
        columns = [list(column) for column in shown]
        return {"row": self.row.name, "rows": rows, "columns": columns, "charts": charts}

    def varying(self) -> list[str]:
        """Symbols of the sizes in which the settings of one place differ."""
        found = _cells(self.benchmark, self.row, self.estimates)
        return [
            p.symbol
            for p in self.benchmark.given
            if any(len({setting[p.name] for setting in group}) > 1 for group in found.values())
        ]
