"""The jobs that measure: from an order to its record, or to the ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import implementation_of
from flashlab.benchmarks.registry import BENCHMARKS, find_benchmark
from flashlab.measuring import supervise
from flashlab.plan import identity
from flashlab.plan.machines import check_described
from flashlab.plan.planning import PlanError
from flashlab.records import load_schema
from flashlab.runs import Run
from flashlab.usage import require_torch


def read_ahead() -> None:
    """Read ahead the files that all measuring jobs of a call need."""
    for benchmark in BENCHMARKS.values():
        identity.measuring_digest(benchmark.measure)
    load_schema()


def measure(order: Mapping[str, Any], output: Path, machine: Path | None) -> None:
    """Measure a run and write its record.

    Args:
        order: the run with its benchmark, protocol and process.
        output: the record, whose name is that of the run and all that decides its numbers.
        machine: the file of the machine that it was planned for, if not of this one.

    Raises:
        PlanError: its code, device or versions have changed since it was planned.
        ModuleNotFoundError: torch is not installed.
    """
    require_torch()
    benchmark = find_benchmark(order["benchmark"])
    run, protocol = Run.of(benchmark, order["run"]), order["protocol"]
    implementation = implementation_of(benchmark, run.implementation)
    decided_by = identity.identity(benchmark, run, protocol, implementation, order["process"])
    if identity.record_name(run, decided_by) != output.name:
        if machine:
            check_described(machine, run.device, implementation.packages)
        raise PlanError(
            f"{output}: the kernel, the measuring code or the environment has changed "
            "since this run was planned; call snakemake again"
        )
    sources = identity.sources(decided_by, implementation)
    card = order.get("card")
    record = supervise.measure_run(benchmark, run, protocol, implementation, sources, output, card)
    print(f"{run}: {record.status}" + (f": {record.message}" if record.message else ""))


def measure_ceilings(device: str, output: Path, machine: Path | None) -> None:
    """Measure the device's ceilings, and write them; ModuleNotFoundError without torch."""
    require_torch()
    if machine:
        check_described(machine, device, ())
    supervise.measure_ceilings(device, output)
