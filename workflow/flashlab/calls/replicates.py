"""The number of processes of each run, as the configuration or an experiment asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashlab.plan.planning import PlannedExperiment, PlannedRuns, plan_local, value_on
from flashlab.plan.source import Source
from flashlab.runs import Run


def plan_processes(
    source: Source,
    experiments: Sequence[PlannedExperiment],
    runs: Sequence[Run],
    protocol: Mapping[str, Any],
) -> PlannedRuns:
    """The record of each process of each run here."""
    number = value_on(source.config["replicates"], source.kind[1])
    asked = processes_asked(experiments, source.kind)
    return plan_local(
        source.benchmark,
        runs,
        protocol,
        source.implementations,
        source.home / "records",
        lambda run: max(number, asked.get(run, 1)),
        source.device_name,
    )


def processes_asked(
    experiments: Iterable[PlannedExperiment], kind: tuple[str, str]
) -> dict[Run, int]:
    """The processes that experiments ask for of single runs, the most where several do.

    `kind` is the dtype and device of the runs.
    """
    processes: dict[Run, int] = {}
    for experiment in experiments:
        for run in experiment.runs(*kind) if experiment.replicates else ():
            asked = experiment.replicates.get(run.implementation, 1)
            processes[run] = max(processes.get(run, 1), asked)
    return processes
