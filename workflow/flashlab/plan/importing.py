"""A folder of the course's results as a dataset, whose records are yet to be made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.registry import DEFAULT
from flashlab.config import ConfigError
from flashlab.lab5.experiments import experiments_of
from flashlab.lab5.importing import import_plan
from flashlab.plan.datasets import Dataset, Entry, run_of
from flashlab.plan.plan_files import results_of

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
