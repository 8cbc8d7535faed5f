"""The choice as a map: who is best at each size, a column for each kind of problem.

A row is a value of the size that has the most values and fills the most cells; a column is a value
of each derived size and variant, for which a kernel is written. A place of the map holds all
settings with its row and column, whatever their other sizes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.choosing import Decided, Place, cell, decide
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Benchmark, Parameter

Cell = tuple[tuple[Any, ...], int]
"""A column, by its values of `column_parameters`, and a row."""


def column_parameters(benchmark: Benchmark) -> list[Parameter]:
    """What makes a column: derived sizes and variants."""
    return [*benchmark.derived_parameters, *benchmark.variants]


def _cells(
    benchmark: Benchmark, row: Parameter, estimates: Sequence[Mapping[str, Any]]
) -> dict[Cell, list[Mapping[str, Any]]]:
    """The evidence of each column and row."""
    found: dict[Cell, list[Mapping[str, Any]]] = {}
    for each in estimates:
        column = tuple(each["setting"][p.name] for p in column_parameters(benchmark))
        found.setdefault((column, each["setting"][row.name]), []).append(each)
    return found


def row_parameter(benchmark: Benchmark, estimates: Sequence[Mapping[str, Any]]) -> Parameter:
    """The given size with the most distinct values; of several that with the most cells."""

    def extent(size: Parameter) -> tuple[int, int]:
        cells = _cells(benchmark, size, estimates)
        rows = Counter(column for column, _ in cells)
        return len({row for _, row in cells}), sum(n for n in rows.values() if n > 1)

    return max((p for p in benchmark.given if not p.is_variant), key=extent)


class ChoiceMap:
    """The settings of the choice over the whole dataset, by row and column.

    The rarer columns have only one row.
    """

    def __init__(self, benchmark: Benchmark, choice: Finding) -> None:
        self.benchmark = benchmark
        self.row = row_parameter(benchmark, choice.estimates)
        self._cells = _cells(benchmark, self.row, choice.estimates)

    def _places(self, estimates: Iterable[Mapping[str, Any]], metric: str) -> list[Place]:
        """Settings by a metric, each with what may tell it from others: variants first."""
        columns = [*self.benchmark.variants, *self.benchmark.derived_parameters]
        return [
            Place(setting[self.row.name], {p.name: setting[p.name] for p in columns}, each[metric])
            for each in estimates
            for setting in [each["setting"]]
        ]

    def decided(self, metric: str) -> Decided:
        """Who to use where by a metric, as far as it is decided."""
        every = itertools.chain.from_iterable(self._cells.values())
        return decide(self.benchmark, self.row, self._places(every, metric))

    @property
    def columns(self) -> list[tuple[Any, ...]]:
        """The columns with several rows, in order; all where none has."""
        count = Counter(column for column, _ in self._cells)
        several = [column for column in sorted(count) if count[column] > 1]
        return several or sorted(count)

    def facts(self, metrics: Sequence[str]) -> dict[str, Any]:
        """The map as facts: all cells row by row, and the rarer columns apart."""
        shown = self.columns
        rows = sorted({row for column, row in self._cells if column in shown})
        charts = []
        for metric in metrics:
            at = {key: cell(self._places(found, metric)) for key, found in self._cells.items()}
            cells = [[at.get((column, row)) for column in shown] for row in rows]
            rare = [
                {"column": list(column), "row": row, **at[column, row]}
                for column, row in sorted(at)
                if column not in shown
            ]
            charts.append({"metric": metric, "cells": cells, "rare": rare})
        columns = [list(column) for column in shown]
        return {"row": self.row.name, "rows": rows, "columns": columns, "charts": charts}

    def varying(self) -> list[str]:
        """Symbols of the sizes in which the settings of one place differ."""
        return [
            p.symbol
            for p in self.benchmark.given
            if any(len({e["setting"][p.name] for e in group}) > 1 for group in self._cells.values())
        ]
