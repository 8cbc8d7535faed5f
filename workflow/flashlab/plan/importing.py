"""A folder of the course's results as a dataset whose records are yet to be made.

The experiments that report its runs are one for each size that varies from a base point.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.model import Benchmark, Value
from flashlab.benchmarks.registry import DEFAULT
from flashlab.config import ConfigError
from flashlab.lab5.words import FLASH2, NAIVE, SIZES
from flashlab.plan.datasets import Dataset, DatasetError, Entry, run_of
from flashlab.plan.experiments import Experiment
from flashlab.plan.plan_files import results_of
from flashlab.runs import Run

Imports = dict[str, dict[str, Any]]
"""The files of an imported folder to convert, by the path of the record."""

HEADLINE = Shape(16, 1024, 32, 2048, False)
"""The shape of the lab's headline table."""


def _sweep(measured: Mapping[Shape, Collection[str]], name: str) -> list[Shape]:
    """The largest sweep of one size with all else equal, in order; empty where it does not vary.

    The one with the most points and then runs, without a mask where several have as many. The
    heads may also vary with the size of each fixed, so that the embedding grows with them.
    """
    groups = defaultdict[tuple[bool, Shape], list[Shape]](list)
    for shape in sorted(measured):
        groups[False, Shape.of({**shape.parameters, name: 0})].append(shape)
        if name == "num_heads":
            groups[True, replace(shape, num_heads=0, emb_dim=shape.head_dim)].append(shape)

    def size(key: tuple[bool, Shape]) -> tuple[int, int, bool, bool]:
        runs = sum(len(measured[shape]) for shape in groups[key])
        return len(groups[key]), runs, not key[1].causal, not key[0]

    best = groups[max(groups, key=size)]
    return best if len(best) > 1 else []


def config_of(runs: Iterable[Run]) -> dict[str, Any]:
    """The configuration that reports these runs, of one kind of device: the lab's experiments.

    One whose parameter does not vary stays in the list, since the others are numbered by it. Where
    no size varies by itself, one setting is all that there is to show: that with the most
    implementations.
    """
    measured, device = defaultdict[Shape, set[str]](set), ""
    for run in runs:
        measured[Shape.of(run)].add(run.implementation)
        device = run.device
    names = set[str]().union(*measured.values())
    order = sorted(names, key=lambda name: ((NAIVE, FLASH2, name).index(name), name))
    blocks = {name: shapes for name in SIZES if (shapes := _sweep(measured, name))}
    masked = {replace(shape, causal=False) for shape in measured if shape.causal}
    both = {shape: measured[shape] for shape in masked & measured.keys()}
    if shapes := _sweep(both, "seq_len") if both else []:
        blocks["causal"] = shapes
    if not blocks:
        blocks["seq_len"] = [max(measured, key=lambda shape: (len(measured[shape]), shape))]
    experiments = list[dict[str, Any]]()
    for name in ("seq_len", "causal", "batch_size", "num_heads", "emb_dim"):
        experiment: dict[str, Any] = {"use": name, "implementations": order}
        if shapes := blocks.get(name, []):  # what is swept and what varies with it are lists
            sizes = {each: [getattr(shape, each) for shape in shapes] for each in SIZES}
            lists = {n: v for n, v in sizes.items() if n == name or len({*v}) > 1}
            masks = {"causal": [False, True]} if name == "causal" else {}
            experiment[device] = {**shapes[0].parameters, **lists, **masks}
        if name == "causal" and not {NAIVE, FLASH2} <= names:  # the lab's figures are of these two
            experiment["figures"] = [{"metric": "rate", "implementations": [o]} for o in order]
        experiments.append(experiment)
    often = Counter(shape for name in SIZES for shape in blocks.get(name, ()))
    base = max(measured, key=lambda s: (s == HEADLINE, len(measured[s]), often[s], s))
    return {
        "baseline": order[0],
        "summary": {"cuda": base.parameters, "cpu": base.parameters, "implementations": order},
        "experiments": experiments,
    }


def imported(
    folder: Path, known: Collection[str], taken: Collection[str], name: Any, device: Any
) -> tuple[Dataset, Imports, list[str]]:
    """A folder of results, planned: as a dataset, what to convert, and lines about what is there.

    `known` are the implementations that there are, `taken` the names of datasets; `name` and
    `device` are what the configuration gives, if it does. ConfigError where the name is taken,
    FolderError as of `import_plan`.
    """
    from flashlab.lab5.importing import import_plan  # most calls import no folder

    if isinstance(name, str) and name in taken:
        said = f"the name {name} is taken; give another one with name=NAME"
        raise ConfigError(f"--config: import: {said}")
    if not isinstance(name, str):
        name = re.sub("[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-_") or "imported"
        name = f"{name}-imported" if name in taken else name
    orders, notices = import_plan(folder, known, device if isinstance(device, str) else None)
    home = results_of(name, DEFAULT)
    entries = tuple(
        Entry(run_of(order), order["protocol"], home / order["record"], None, order["process"])
        for order in orders
    )
    protocols = Counter(str(entry.protocol["name"]) for entry in entries).most_common(1)
    run, config = entries[0].run, config_of(entry.run for entry in entries)
    dataset = Dataset(name, run.device, run.dtype, protocols[0][0], config, None, entries)
    imports = {e.path.as_posix(): order for e, order in zip(entries, orders, strict=True)}
    return dataset, imports, notices


def of_held(
    experiments: Iterable[Experiment], held: Collection[Run], benchmark: Benchmark
) -> list[Experiment]:
    """The experiments of an imported folder, each with the runs that the folder has.

    Left out is one whose runs do not vary, or lack a variant that it is about. Each setting that is
    in none follows as one like the headline, so that what is said of the whole dataset is said of
    every run. DatasetError where the experiments have no run.
    """
    kept = list[Experiment]()
    for each in experiments:
        runs = tuple(run for run in each.runs if run in held)
        settings, asked = ({tuple(run.values()) for run in some} for some in (runs, each.runs))
        has_variants = all(
            {run[p.name] for run in runs} == {run[p.name] for run in each.runs}
            for p in benchmark.variants
        )
        names = {run.implementation for run in runs}
        figures = (
            {**figure, "implementations": [n for n in figure["implementations"] if n in names]}
            for figure in each.figures
            if names & {*figure["implementations"]}
        )
        if runs and len(settings) >= min(2, len(asked)) and has_variants:
            own = tuple(name for name in each.implementations if name in names)
            kept.append(replace(each, runs=runs, implementations=own, figures=tuple(figures)))
    if not any(experiment.sweep for experiment in kept):
        raise DatasetError(
            "the imported folder has none of the runs that the configuration asks for; leave its "
            "experiments and summary out, and they follow from the files"
        )
    rest = defaultdict[tuple[Value, ...], list[Run]](list)
    for run in sorted({*held} - {run for experiment in kept for run in experiment.runs}):
        rest[tuple(run.values())].append(run)
    return kept + [
        Experiment(f"others-{n}", tuple(run.implementation for run in runs), tuple(runs))
        for n, runs in enumerate(rest.values(), start=1)
    ]
