"""What single stages read of the plan: a file each, so that a change reruns the stages it touches.

The stages after the records read these files (`flashlab.plan.plan_files`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT
from flashlab.plan.datasets import Dataset, Entry
from flashlab.plan.experiments import Experiment
from flashlab.plan.plan_files import EXPERIMENTS, FIGURES, LANGUAGES, RECORDS, SUMMARY, TITLES
from flashlab.plan.runs import Planned
from flashlab.runs import Run

FIXED_STYLES = (
    *("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient"),
    *("SdpaCudnn", "Flex", "Flash4", "FlashLab", "Flash3"),
)
"""The implementations that have the same colour and marker in every report, by their number."""


def shown_file(report: str) -> str:
    """The file naming the dataset of a report in ``report/``; `report` is the report's stem."""
    return f"report/{'' if report == DEFAULT.report else f'{report}-'}dataset.json"


def as_recorded(config: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """The configuration with the settings by which the dataset's records were measured."""
    measure = config["measure"]
    by_name = {entry.protocol["name"]: entry.protocol for entry in dataset.entries}
    chosen = measure["protocol"] if measure["protocol"] in by_name else dataset.protocol
    stated = by_name.get(chosen, {})
    settings = {key: stated.get(key, value) for key, value in measure[chosen].items()}
    timeout_s = stated.get("timeout_s", measure["timeout_s"])
    changed = {"protocol": chosen, chosen: settings, "timeout_s": timeout_s}
    return {**config, "measure": {**measure, **changed}}


def views_of(
    benchmark: Benchmark,
    implementations: Mapping[str, Implementation],
    config: Mapping[str, Any],
    home: Path,
    experiments: Sequence[Experiment],
    planned: Planned,
) -> dict[str, Any]:
    """What the stages between the records and the report read, by path."""
    names = sorted({name for each in experiments for name in each.implementations})
    views = {
        LANGUAGES: config["languages"],
        EXPERIMENTS: {x.name: _view(x, benchmark, implementations, config) for x in experiments},
        FIGURES: {each.name: [*each.figures] for each in experiments},
        TITLES: {each.name: each.title for each in experiments},
        RECORDS: {
            "benchmark": benchmark.name,
            # Compared with the digests in records: has a kernel changed since?
            "sources": {name: {"digest": implementations[name].digest} for name in names},
            # Sorted, so that the tables do not depend on the order in which experiments list parts.
            "experiments": {
                each.name: [_records(run, planned) for run in _by_parameters(each.runs)]
                for each in experiments
            },
            **({"anonymous": True} if config["anonymous"] else {}),
        },
    }
    return {(home / name).as_posix(): view for name, view in views.items()}


def _by_parameters(runs: Iterable[Run]) -> list[Run]:
    """Runs in the tables' order, which puts those that are compared next to one another."""
    return sorted(runs, key=lambda run: (tuple(run.values()), run.implementation))


def _records(run: Run, planned: Planned) -> dict[str, Any]:
    def file(entry: Entry) -> dict[str, Any]:
        return {"path": entry.path.as_posix(), "sha256": entry.sha256}

    first, *others = planned.processes[run]
    counters = planned.counters.get(run)
    return {
        "run": run.to_json(),
        **file(first),
        **({"replicates": [*map(file, others)]} if others else {}),
        **({"counters": file(counters)} if counters else {}),
    }


def _view(
    experiment: Experiment,
    benchmark: Benchmark,
    implementations: Mapping[str, Implementation],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """An experiment's plan for the later stages.

    ``style`` numbers an implementation's colour and marker. ``emphasised`` are the implementations
    that a figure with many lines draws in colour: the baseline, those of the headline, and those
    whose counters explain their times.
    """
    # The headline's own order does not count: exchanging two of its columns redraws nothing.
    headline = config["summary"]["implementations"]
    shown = [name for block in config["experiments"] for name in block["implementations"]]
    order = list(dict.fromkeys([*shown, *sorted(headline), *experiment.implementations]))
    styles, names = style_numbers(order), list(experiment.implementations)
    if experiment.name == SUMMARY:
        names.sort(key=order.index)
    emphasised = {config["baseline"], *headline, *config["counted"]}
    return {
        "benchmark": benchmark.name,
        "name": experiment.name,
        "sweep": experiment.sweep,
        "baseline": config["baseline"],
        "emphasised": [name for name in names if name in emphasised],
        "implementations": [
            {
                "name": name,
                "style": styles[name],
                "label": implementations[name].label_on(experiment.runs[0].device),
                **_declared(implementations[name]),
            }
            for name in names
        ],
        "runs": [run.to_row() for run in _by_parameters(experiment.runs)],
    }


def style_numbers(names: Iterable[str]) -> dict[str, int]:
    """The number of each implementation's colour and marker: the fixed one, or the next free."""
    fixed, names = {name: i for i, name in enumerate(FIXED_STYLES)}, [*names]
    taken = {fixed[name] for name in names if name in fixed}
    free = (number for number in itertools.count() if number not in taken)
    return {name: fixed[name] if name in fixed else next(free) for name in names}


def _declared(one: Implementation) -> dict[str, Any]:
    """What stages know of an implementation: its step or twin, and what groups it."""
    step = {} if one.idea is None else {"previous": one.previous, "idea": one.idea}
    own = step if one.packed_of is None else {"packed_of": one.packed_of}
    groups = {"takes": {**one.takes}, "stores_scores": one.stores_scores}
    groups |= {"tuned_on": [*one.tuned_on]}
    return {**own, **{key: value for key, value in groups.items() if value}}
