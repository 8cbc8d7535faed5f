"""From two sides to comparison.json: environments, verdicts, conclusions, what one side lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark
from flashlab.comparing.conclusions import conclude, count_verdicts
from flashlab.comparing.environments import compare_environments, describe_side
from flashlab.comparing.sides import Side, SideError
from flashlab.comparing.verdicts import compare_runs
from flashlab.files import read_json, write_json
from flashlab.records import Record
from flashlab.runs import Run

Records = Mapping[Run, Sequence[Record]]
"""The records of each run, one for each process."""


def _only(mine: Records, theirs: Records) -> list[dict[str, Any]]:
    """The runs that one side alone has, by implementation, dtype and device."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in sorted(mine.keys() - theirs.keys()):
        key = (run.implementation, run.dtype, run.device)
        found.setdefault(key, []).append(" ".join(run.words))
    return [
        {"implementation": name, "dtype": dtype, "device": device, "shapes": shapes}
        for (name, dtype, device), shapes in found.items()
    ]


def _kinds(side: Side) -> str:
    return " and ".join(sorted({f"{run.dtype} on {run.device}" for run in side.files}))


def compare(one: Side, other: Side) -> dict[str, Any]:
    """Everything that is said of two sides of one benchmark, as data.

    Raises:
        SideError: the sides have no run in common.
        RecordError: a record is missing or damaged.
    """
    if not one.files.keys() & other.files.keys():
        raise SideError(
            f"compare: {one.name} ({_kinds(one)}) and {other.name} ({_kinds(other)}) have no run "
            "in common: none has the same implementation, shape, dtype and kind of device. Measure "
            "both with the same configuration."
        )
    return compare_records(one.benchmark, (one.name, one.read()), (other.name, other.read()))


def compare_records(
    benchmark: Benchmark, one: tuple[str, Records], other: tuple[str, Records]
) -> dict[str, Any]:
    """As `compare`, of two sides that are read already, each with its name."""
    first, second = one[1], other[1]
    pairs = compare_runs(benchmark, first, second)
    return {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [describe_side(*one), describe_side(*other)],
        "shared": len(first.keys() & second.keys()),
        "environments": compare_environments(first, second),
        "conclusions": [found.to_json() for found in conclude(benchmark, pairs)],
        "counts": count_verdicts(pairs),
        "pairs": [pair.to_json(benchmark) for pair in pairs],
        "only": [_only(first, second), _only(second, first)],
    }


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned; errors as `compare`."""
    plan = read_json(plan_file)
    one, other = (Side.from_json(side) for side in plan["sides"])
    write_json(output, {**compare(one, other), "languages": plan["languages"]})
