"""The section on the implementations: their libraries, runs, errors and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Implementations, Row, Table
from flashlab.report.front import PAGE_ONE, overview_figures
from flashlab.report.kernels import render_kernels
from flashlab.telling.values import Label, Tellable, heading, in_turn, say


def _error_cell(runs: Sequence[Mapping[str, Any]], compared: str) -> Cell:
    """The largest error of the records that passed, and that of the plain formula."""

    def largest(kind: str) -> str:
        gates = [run["gate"] for run in runs if run["status"] == "ok" and run["gate"]]
        found = [gate.get(kind, {}).get(compared) for gate in gates]
        worst = max((error for error in found if error is not None), default=None)
        return "" if worst is None else f"{worst:.1e}".replace("e-0", "e-")

    plain = largest("plain_errors")
    return Cell(largest("errors") or "–", f"({plain})" if plain else "")


def _table(data: ReportData) -> Table:
    """A row for each implementation: its label, library, runs with their outcomes, and errors."""
    gated = {} if data.is_unchecked else data.benchmark.gated
    rows = []
    for name, entry in data.implementations.items():
        mine = [run for run in data.runs if run["implementation"] == name]
        records = [record for record in data.records if record["implementation"] == name]
        providers = sorted({run["provider"] for run in mine if run["provider"]})
        good = sum(run["status"] == "ok" for run in mine)
        cells: list[Cell | Tellable] = [
            name,
            Label(entry["label"]),
            Cell(", ".join(providers) or "–"),
            f"{good} / {len(mine)}",
            *(_error_cell(records, compared) for compared in gated),
        ]
        rows.append(Row(cells, implementation=name))
    keys = ("column.implementation", "column.label", "column.provider", "column.runs_ok")
    columns = [
        *map(say, keys),
        *(say("column.error", compared=heading(each)) for each in gated.values()),
    ]
    unchecked = "caption.implementations.unchecked"
    captions = [say(unchecked if data.is_unchecked else "caption.implementations")]
    if any(run["gate"] and "plain_errors" in run["gate"] for run in data.runs):
        captions.append(say("caption.implementations.plain"))
    return Table(columns, rows, numeric=range(3, len(columns)), caption=in_turn(captions))


def render_implementations(data: ReportData) -> Implementations:
    """The section on the implementations."""
    figures = [f for id, f in overview_figures(data).items() if id not in PAGE_ONE]
    return Implementations(
        table=_table(data),
        kernels=render_kernels(data),
        figures=figures,
    )
