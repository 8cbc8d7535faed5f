"""The counters that a call reads beside the times, by Nsight Compute or PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.config import ConfigError
from flashlab.files import read_json
from flashlab.plan import planning
from flashlab.plan.machines import Machine
from flashlab.plan.plan_files import counters_file
from flashlab.plan.source import Source
from flashlab.runs import Run

UNWANTED = ("no", False)
"""The values of `counters` that read none; YAML takes a bare ``no`` for false."""


@dataclass(frozen=True)
class Counting:
    """The counters to read on this machine: a planned record for each run, and the protocol.

    `kept` is the document with the version of Nsight Compute, by which the counters that were read
    are known where it is gone.
    """

    planned: Mapping[Run, planning.PlannedRun] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)


def _counters_version(config: Mapping[str, Any], kept: Path, on: Machine) -> str | None:
    """The version of Nsight Compute on PATH, else that which has read counters here; else None.

    Raises:
        ConfigError: counters were asked for where they cannot be read.
    """
    version = on.ncu_version()
    if version is None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            version = read_json(kept)["version"]
    if version is None and config["counters"] != "auto":
        raise ConfigError(
            "config: counters: yes needs Nsight Compute on a GPU, but ncu is not on PATH; "
            "install it, or give counters: auto"
        )
    return version


def counting_of(source: Source, experiments: Sequence[planning.PlannedExperiment]) -> Counting:
    """The counters to read here, or those that a recorded dataset has of the experiments' runs.

    Raises:
        ConfigError: counters were asked for where they cannot be read.
    """
    benchmark, device = source.benchmark, source.device
    if source.recorded:
        asked = (run for experiment in experiments for run in experiment.runs(*source.kind))
        read = {run: source.recorded.find_counters(run) for run in dict.fromkeys(asked)}
        return Counting(
            {run: planning.planned_entry(entry) for run, entry in read.items() if entry}
        )
    if not benchmark.counters_on(device) or source.config["counters"] in UNWANTED:
        return Counting()
    runs = [
        run
        for experiment in experiments
        if experiment.sweep
        for run in experiment.counted_runs(source.config["counted"], *source.kind)
    ]

    def planned_by(protocol: Mapping[str, Any]) -> dict[Run, planning.PlannedRun]:
        return planning.plan_local(
            benchmark, runs, protocol, source.implementations, source.records, on=source.machine
        )

    timeout_s = source.config["measure"]["timeout_s"]
    if device != "cuda":
        protocol = planning.operators_protocol(timeout_s)
        return Counting(planned_by(protocol), protocol)
    file = counters_file(source.home)
    version = _counters_version(source.config, file, source.machine)
    if version is None:
        return Counting()
    protocol = planning.counters_protocol(benchmark, version, timeout_s)
    planned = planned_by(protocol)
    if source.machine.ncu_version() is None:  # those that were read before ncu was gone
        planned = {run: entry for run, entry in planned.items() if entry.path.exists()}
    return Counting(planned, protocol, {file.as_posix(): {"version": version}})
