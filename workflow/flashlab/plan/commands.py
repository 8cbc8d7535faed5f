"""The commands that measure what is planned, and those about datasets and machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from flashlab.cli import Command, option, path, paths


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
        "flashlab.measuring.jobs:measure",
        "Measure one run and write its record.",
        (
            option("--order", type=json.loads, required=True, help="run and protocol, JSON"),
            path("--output", "the record to write"),
            option("--machine", type=Path, help="file of the machine it was planned for"),
        ),
        ends_alone=True,
        tells_made=True,
        ahead="flashlab.measuring.jobs:read_ahead",
    ),
    Command(
        "ceilings",
        "flashlab.measuring.jobs:measure_ceilings",
        "Measure the device's ceilings.",
        (
            option("--device", choices=("cuda", "cpu"), required=True),
            path("--output", "JSON file to write"),
            option("--machine", type=Path, help="file of the machine they were planned for"),
        ),
        ends_alone=True,
        tells_made=True,
        ahead="flashlab.measuring.jobs:read_ahead",
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
        "flashlab.plan.importing:import_record",
        "Turn a result of the course's script into a record.",
        (
            option("--entry", type=json.loads, required=True, help="what it is, JSON"),
            path("--output", "the record to write"),
        ),
        tells_made=True,
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
