"""A folder of the course's results as a dataset whose records are yet to be made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.model import Benchmark, Value
from flashlab.benchmarks.registry import DEFAULT
from flashlab.config import ConfigError
from flashlab.lab5.experiments import experiments_of
from flashlab.lab5.importing import import_plan
from flashlab.plan.datasets import Dataset, DatasetError, Entry, run_of
from flashlab.plan.experiments import Experiment
from flashlab.plan.plan_files import OTHERS_PREFIX, results_of
from flashlab.runs import Run

Imports = dict[str, dict[str, Any]]
"""The files of an imported folder to convert, by the path of the record."""


def imported(
    folder: Path, known: Collection[str], taken: Collection[str], name: Any, device: Any
) -> tuple[Dataset, Imports, list[str]]:
    """A folder of results, planned: as a dataset, what to convert, and lines about what is there.

    `known` are the implementations that there are, `taken` the names of datasets; `name` and
    `device` are what the configuration gives, if it does.

    Raises:
        ConfigError: the name is taken.
        FolderError: as of `lab5.importing.import_plan`.
    """
    if isinstance(name, str) and name in taken:
        raise ConfigError(
            f"--config: import: the name {name} is taken; give another one with name=NAME"
        )
    if not isinstance(name, str):
        name = re.sub("[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-_") or "imported"
        name = f"{name}-imported" if name in taken else name
    orders, notices = import_plan(folder, known, device if isinstance(device, str) else None)
    home = results_of(name, DEFAULT)
    entries = tuple(
        Entry(run_of(order), order["protocol"], home / order["record"], None, order["process"])
        for order in orders
    )
    measured: dict[Shape, set[str]] = {}
    for entry in entries:
        measured.setdefault(Shape.of(entry.run), set()).add(entry.run.implementation)
    protocols = Counter(str(entry.protocol["name"]) for entry in entries)
    run = entries[0].run
    dataset = Dataset(
        name=name,
        device=run.device,
        dtype=run.dtype,
        protocol=protocols.most_common(1)[0][0],
        config=experiments_of(measured, run.device),
        ceilings=None,
        entries=entries,
    )
    imports = {e.path.as_posix(): order for e, order in zip(entries, orders, strict=True)}
    return dataset, imports, notices


def _of_held(each: Experiment, held: Collection[Run], benchmark: Benchmark) -> Experiment | None:
    """The experiment with those of its runs that are held; None where these do not vary enough.

    That is, not at all, or they leave out a variant that it is about.
    """
    runs = tuple(run for run in each.runs if run in held)
    settings, asked = ({tuple(run.values()) for run in some} for some in (runs, each.runs))
    if len(settings) < min(2, len(asked)) or not runs:
        return None
    for variant in (parameter.name for parameter in benchmark.variants):
        if {run[variant] for run in runs} != {run[variant] for run in each.runs}:
            return None
    names = {run.implementation for run in runs}
    figures = (
        {**figure, "implementations": [n for n in figure["implementations"] if n in names]}
        for figure in each.figures
        if names & {*figure["implementations"]}
    )
    kept = tuple(name for name in each.implementations if name in names)
    return replace(each, runs=runs, implementations=kept, figures=tuple(figures))


def of_held(
    experiments: Iterable[Experiment], held: Collection[Run], benchmark: Benchmark
) -> list[Experiment]:
    """The experiments of an imported folder, each with the runs that the folder has.

    Each setting that is in none of them follows as one like the headline, so that what is said of
    the whole dataset is said of every run. DatasetError where the experiments have no run.
    """
    kept = [kept for each in experiments if (kept := _of_held(each, held, benchmark))]
    if not any(experiment.sweep for experiment in kept):
        raise DatasetError(
            "the imported folder has none of the runs that the configuration asks for; leave its "
            "experiments and summary out, and they follow from the files"
        )
    shown = {run for experiment in kept for run in experiment.runs}
    rest: dict[tuple[Value, ...], list[Run]] = {}
    for run in sorted({*held} - shown):
        rest.setdefault(tuple(run.values()), []).append(run)
    return kept + [
        Experiment(f"{OTHERS_PREFIX}{n}", tuple(run.implementation for run in runs), tuple(runs))
        for n, runs in enumerate(rest.values(), start=1)
    ]
