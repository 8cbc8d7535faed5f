"""The plan's documents: for each stage after the records, its own inputs and no others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flashlab.anonymity import anonymous_text
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.registry import DEFAULT
from flashlab.config import reported_config
from flashlab.plan.datasets import Dataset
from flashlab.plan.plan_files import (
    SUMMARY,
    experiment_file,
    records_file,
    sweep_file,
    titles_file,
)
from flashlab.plan.planning import PlannedExperiment, PlannedRun, PlannedRuns
from flashlab.plan.source import Source
from flashlab.runs import Run


def plan_documents(
    source: Source, planning: Sequence[tuple[PlannedExperiment, PlannedRuns]]
) -> dict[str, Any]:
    """The plan's documents by path; each has the inputs of its stages alone, for exact reruns."""
    resolved = _as_recorded(source.config, source.recorded) if source.recorded else source.config
    config = {**reported_config(resolved), "dataset": source.dataset}
    if resolved["anonymous"] and "import" in config:
        config["import"] = anonymous_text(config["import"])
    documents: dict[Path, Any] = {
        source.home / "plan" / "config.json": config,
        **stage_documents(planning, source.implementations, resolved, source.kind, source.home),
        shown_file(source.benchmark.report): {"dataset": source.dataset},
    }
    return {path.as_posix(): document for path, document in documents.items()}


def _as_recorded(resolved: Mapping[str, Any], recorded: Dataset) -> dict[str, Any]:
    """The configuration with the settings by which the dataset's records were measured."""
    measure = resolved["measure"]
    by_name = {entry.protocol["name"]: entry.protocol for entry in recorded.entries}
    chosen = measure["protocol"] if measure["protocol"] in by_name else recorded.protocol
    stated = by_name.get(chosen, {})
    settings = {key: stated.get(key, value) for key, value in measure[chosen].items()}
    timeout_s = stated.get("timeout_s", measure["timeout_s"])
    changed = {"protocol": chosen, chosen: settings, "timeout_s": timeout_s}
    return {**resolved, "measure": {**measure, **changed}}


def stage_documents(
    planning: Sequence[tuple[PlannedExperiment, Mapping[Run, PlannedRun]]],
    implementations: Mapping[str, Implementation],
    config: Mapping[str, Any],
    kind: tuple[str, str],
    home: Path,
) -> dict[Path, Any]:
    """The documents below `home` of these experiments, for the stages after the records."""
    documents: dict[Path, Any] = {
        home / "plan" / "languages.json": config["languages"],
        home / "plan" / "experiments.json": [experiment.name for experiment, _ in planning],
        titles_file(home): {experiment.name: experiment.title for experiment, _ in planning},
    }
    for experiment, planned in planning:
        file, sweep = experiment_file(home, experiment.name), sweep_file(home, experiment.name)
        records = records_file(home, experiment.name)
        document = experiment_document(experiment, implementations, config, *kind)
        documents[file] = document
        documents[sweep] = {key: value for key, value in document.items() if key != "figures"}
        documents[records] = records_document(
            experiment, planned, implementations, *kind, config["anonymous"]
        )
    return documents


def shown_file(report: str) -> Path:
    """The file naming the dataset of a report in ``report/``; `report` is the report's stem."""
    return Path("report", "dataset.json" if report == DEFAULT.report else f"{report}-dataset.json")


def experiment_document(
    experiment: PlannedExperiment,
    implementations: Mapping[str, Implementation],
    config: Mapping[str, Any],
    dtype: str,
    device: str,
) -> dict[str, Any]:
    """An experiment's plan for the later stages, as ``plan/experiments/<name>.json``.

    ``style`` numbers an implementation's colour and marker (`style_numbers`).
    ``emphasised`` are the implementations that a figure with many lines draws in colour: the
    baseline, those of the headline, and those whose counters explain their times.
    """
    # The headline's own order does not count: exchanging two of its columns redraws nothing.
    shown = [name for block in config["experiments"] for name in block["implementations"]]
    shown += sorted(config["summary"]["implementations"])
    order = list(dict.fromkeys([*shown, *experiment.implementations]))
    numbers = style_numbers(order)
    names = list(experiment.implementations)
    if experiment.name == SUMMARY:
        names.sort(key=order.index)
    return {
        "benchmark": experiment.benchmark.name,
        "name": experiment.name,
        "sweep": experiment.sweep,
        "baseline": config["baseline"],
        "emphasised": [
            name
            for name in names
            if name == config["baseline"]
            or name in config["summary"]["implementations"]
            or name in config["counted"]
        ],
        "implementations": [
            {
                "name": name,
                "style": numbers[name],
                "label": implementations[name].label_on(device),
                **_relation(implementations[name]),
                **_declared(implementations[name]),
            }
            for name in names
        ],
        "runs": [run.to_row() for run in _by_parameters(experiment.runs(dtype, device))],
        "figures": [asdict(figure) for figure in experiment.figures],
    }


FIXED_STYLES = (
    *("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient"),
    *("SdpaCudnn", "Flex", "Flash4", "FlashLab", "Flash3"),
)
"""The implementations that have the same colour and marker in every report, by their number."""


def style_numbers(names: Iterable[str]) -> dict[str, int]:
    """The number of each implementation's colour and marker: the fixed one, or the next free."""
    fixed = {name: number for number, name in enumerate(FIXED_STYLES)}
    names = list(names)
    taken = {fixed[name] for name in names if name in fixed}
    free = (number for number in itertools.count() if number not in taken)
    return {name: fixed[name] if name in fixed else next(free) for name in names}


def _relation(implementation: Implementation) -> dict[str, Any]:
    """The implementation's previous step and idea, or its twin with separate inputs; else empty."""
    if implementation.packed_of is not None:
        return {"packed_of": implementation.packed_of}
    if implementation.idea is None:
        return {}
    return {"previous": implementation.previous, "idea": implementation.idea}


def _declared(implementation: Implementation) -> dict[str, Any]:
    """An attention kernel's declarations: parameters that not all take, and those that group it.

    The latter are ``stores_scores``, and ``tuned_on`` of this project's kernels.
    """
    declared: dict[str, Any] = {}
    if implementation.takes:
        declared["takes"] = dict(implementation.takes)
    if implementation.stores_scores:
        declared["stores_scores"] = True
    if implementation.tuned_on:
        declared["tuned_on"] = list(implementation.tuned_on)
    return declared


def _by_parameters(runs: Sequence[Run]) -> list[Run]:
    """Runs in the tables' order, which puts those that are compared next to one another."""
    return sorted(runs, key=lambda run: (tuple(run.values()), run.implementation))


def records_document(
    experiment: PlannedExperiment,
    planned: Mapping[Run, PlannedRun],
    implementations: Mapping[str, Implementation],
    dtype: str,
    device: str,
    is_anonymous: bool = False,
) -> dict[str, Any]:
    """The experiment's records with their hashes, as ``plan/records/<experiment>.json``.

    Sorted, so that the tables do not depend on the order in which the experiment lists its parts.
    ``anonymous`` is there only where it is wanted.
    """
    return {
        "benchmark": experiment.benchmark.name,
        # Compared with the digests in records: has a kernel changed since?
        "sources": {
            name: {"digest": implementations[name].digest}
            for name in sorted(experiment.implementations)
        },
        "records": [
            _record_entry(planned[run]) for run in _by_parameters(experiment.runs(dtype, device))
        ],
        **({"anonymous": True} if is_anonymous else {}),
    }


def _record_entry(entry: PlannedRun) -> dict[str, Any]:
    document = {"run": entry.run.to_json(), **_file(entry)}
    if entry.replicates:
        document["replicates"] = [*map(_file, entry.replicates)]
    if entry.counters:
        document["counters"] = _file(entry.counters)
    return document


def _file(entry: PlannedRun) -> dict[str, Any]:
    return {"path": entry.path.as_posix(), "sha256": entry.sha256}
