"""The commands that measure what is planned, and those about datasets and machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.cli import Command, option, path, paths, require


def _measure(order: Mapping[str, Any], output: Path, machine: Path | None) -> None:
    from flashlab.benchmarks.implementations import implementation_of
    from flashlab.benchmarks.registry import find_benchmark
    from flashlab.measuring import supervise
    from flashlab.plan import identity
    from flashlab.plan.machines import check_described
    from flashlab.plan.planning import PlanError
    from flashlab.runs import Run

    require("torch")
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
    if benchmark.fetch and protocol["name"] in benchmark.protocols:
        benchmark.fetch(protocol)
    card = order.get("card")
    record = supervise.measure_run(benchmark, run, protocol, implementation, sources, output, card)
    print(f"{run}: {record.status}" + (f": {record.message}" if record.message else ""))


def _ceilings(device: str, output: Path, machine: Path | None) -> None:
    from flashlab.measuring import supervise
    from flashlab.plan.machines import check_described

    require("torch")
    if machine:
        check_described(machine, device, ())
    supervise.measure_ceilings(device, output)


def _describe_machine(device: str, output: Path) -> None:
    from flashlab.benchmarks.implementations import implementations_of
    from flashlab.benchmarks.registry import BENCHMARKS
    from flashlab.plan import machines

    known = [one for each in BENCHMARKS.values() for one in implementations_of(each).values()]
    packages = {"torch", *(package for one in known for package in one.packages)}
    machines.describe_machine(device, packages, output)


def _freeze(
    name: str, config: Path, ceilings: Path, data: Path, anyway: bool, plans: Sequence[Path]
) -> None:
    from flashlab.plan.datasets import freeze
    from flashlab.plan.doubts import refuse_doubtful

    if not anyway:
        refuse_doubtful(plans)
    folder = freeze(name, config, plans, ceilings, data)
    print(f"{folder} now holds these records; render it with --config dataset={folder.name}")


def _freeze_counters(name: str, data: Path, plans: Sequence[Path]) -> None:
    from flashlab.plan.datasets import freeze_counters

    count = freeze_counters(name, plans, data)
    print(f"{data / name} now holds {count} more records of counters")


NAME = option("--name", required=True, help="the dataset's name")
DATA = path("--data", "folder of the datasets")
PLANS = paths("plans", "plan/records/*.json")

COMMANDS = (
    Command(
        "measure",
        _measure,
        "Measure one run and write its record.",
        (
            option("--order", type=json.loads, required=True, help="run and protocol, JSON"),
            path("--output", "the record to write"),
            option("--machine", type=Path, help="file of the machine it was planned for"),
        ),
        ends_alone=True,
    ),
    Command(
        "ceilings",
        _ceilings,
        "Measure the device's ceilings.",
        (
            option("--device", choices=("cuda", "cpu"), required=True),
            path("--output", "JSON file to write"),
            option("--machine", type=Path, help="file of the machine they were planned for"),
        ),
        ends_alone=True,
    ),
    Command(
        "describe-machine",
        _describe_machine,
        "Describe this machine in a file.",
        (
            option("--device", choices=("auto", "cuda", "cpu"), required=True),
            path("--output", "JSON file to write"),
        ),
    ),
    Command(
        "import",
        "flashlab.plan.datasets:import_record",
        "Turn a result of the course's script into a record.",
        (
            option("--entry", type=json.loads, required=True, help="what it is, JSON"),
            path("--output", "the record to write"),
        ),
    ),
    Command(
        "freeze",
        _freeze,
        "Copy the planned records into a recorded dataset.",
        (
            NAME,
            path("--config", "the resolved configuration"),
            path("--ceilings", "the device's ceilings"),
            DATA,
            option("--anyway", action="store_true", help="also what leaves doubts"),
            PLANS,
        ),
    ),
    Command(
        "freeze-counters",
        _freeze_counters,
        "Add counters to a recorded dataset.",
        (NAME, DATA, PLANS),
    ),
)
