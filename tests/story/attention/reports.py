"""Whole reports on attention with a planted truth: records, tables, frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from planted.experiments import Planter, call_times

from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import EXPERIMENTS

SWEPT = {
    "N": "seq_len",
    "B": "batch_size",
    "H": "num_heads",
    "E": "emb_dim",
    "H_kv": "num_kv_heads",
}
USUAL = {"batch_size": 4, "seq_len": 512, "num_heads": 8, "emb_dim": 512}

Cell = Any
"""Of a run: a time in ms, (forward, backward), a status, or what a record holds."""


def sizes_of(symbol: str) -> Callable[[int], Mapping[str, int]]:
    """The sizes that a value of a sweep is of."""
    return lambda value: {**USUAL, SWEPT[symbol]: value}


@dataclass
class Sheet:
    """An experiment to plant: its symbol, and a cell for each (name, causal) and value."""

    symbol: str
    cells: dict[tuple[str, bool], dict[int, Cell]] = field(default_factory=dict)


def write(
    folder: Path, sheets: Mapping[str, Sheet], device: str = "cuda", **options: Any
) -> Dataset:
    """Plant experiments and read their tables as frames."""
    planter, dtype = Planter(folder), "float16" if device == "cuda" else "float32"
    for name, sheet in sheets.items():
        runs = {key: {v: _hundredths(c) for v, c in of.items()} for key, of in sheet.cells.items()}
        named = {"dtype": dtype, "device": device, "processes": 3, **options}
        swept, sizes = SWEPT[sheet.symbol], sizes_of(sheet.symbol)
        planter.experiment(runs, name, swept, sizes=sizes, **named)
    declare(folder)
    make_tables(folder, None, folder / "tables")
    return read_dataset(folder)


def declare(folder: Path) -> None:
    """Say in planted plans what the kernels' files declare of each implementation."""
    kernels, plans = implementations_of(ATTENTION), read_json(folder / EXPERIMENTS)
    for entry in (entry for plan in plans.values() for entry in plan["implementations"]):
        kernel = kernels[entry["name"]]
        entry |= {"stores_scores": kernel.stores_scores, "tuned_on": list(kernel.tuned_on)}
        entry |= {"packed_of": kernel.packed_of}
    write_json(folder / EXPERIMENTS, plans)


def _hundredths(cell: Cell) -> Cell:
    """A time in ms as the planter takes it, in units of 10 µs."""
    if isinstance(cell, tuple):
        return tuple(100 * each for each in cell)
    if isinstance(cell, (int, float)):
        return 100 * cell
    return cell


def processes_of(
    random: np.random.Generator,
    times: tuple[float, float],
    factors: Iterable[float],
    spread: float,
    tick: float = 0.0,
) -> list[dict[str, Any]]:
    """Samples of a process for each factor on (forward, backward) ms, by a clock of this tick."""
    found = []
    for factor in factors:
        drawn = [call_times(random, factor * t, 24, spread) for t in times]
        if tick:
            drawn = [np.maximum(np.round(of / tick), 1) * tick for of in drawn]
        seconds = [(1e-3 * of).tolist() for of in drawn]
        found.append(dict(zip(("forward", "backward"), seconds, strict=True)))
    return found
