"""From two sides to comparison.json: circumstances, verdicts, differences, what one side lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark
from flashlab.compare.circumstances import compare_circumstances, describe_side
from flashlab.compare.differences import conclude, count_verdicts
from flashlab.compare.pairs import compare_runs
from flashlab.compare.sides import Records, Side, SideError
from flashlab.files import read_json, write_json


def _only(one: Records, other: Records) -> list[dict[str, Any]]:
    """The runs that the first of two sides alone has, by implementation, dtype and device."""
    shapes: dict[tuple[str, str, str], list[str]] = {}
    for run in sorted(one.keys() - other.keys()):
        key = (run.implementation, run.dtype, run.device)
        shapes.setdefault(key, []).append(" ".join(run.words))
    return [
        {"implementation": name, "dtype": dtype, "device": device, "shapes": of_these}
        for (name, dtype, device), of_these in shapes.items()
    ]


def _kinds(records: Records) -> str:
    return " and ".join(sorted({f"{run.dtype} on {run.device}" for run in records}))


def compare(one: Side, other: Side) -> dict[str, Any]:
    """Everything that is said of two sides of one benchmark, as data.

    Raises:
        SideError: the sides have no run in common.
        RecordError: a record is missing or damaged.
    """
    return compare_records(one.benchmark, (one.name, one.read()), (other.name, other.read()))


def compare_records(
    benchmark: Benchmark, one: tuple[str, Records], other: tuple[str, Records]
) -> dict[str, Any]:
    """As `compare`, of two sides that are read already, each with its name."""
    first, second = one[1], other[1]
    shared = first.keys() & second.keys()
    if not shared:
        raise SideError(
            f"compare: {one[0]} ({_kinds(first)}) and {other[0]} ({_kinds(second)}) have no run "
            "in common: none has the same implementation, shape, dtype and kind of device. Measure "
            "both with the same configuration."
        )
    pairs = compare_runs(benchmark, first, second)
    return {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [describe_side(*one), describe_side(*other)],
        "shared": len(shared),
        "environments": compare_circumstances(first, second),
        "conclusions": conclude(benchmark, pairs),
        "counts": count_verdicts(pairs),
        "pairs": pairs,
        "only": [_only(first, second), _only(second, first)],
    }


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned; errors as `compare`."""
    plan = read_json(plan_file)
    one, other = (Side.from_json(side) for side in plan["sides"])
    write_json(output, {**compare(one, other), "languages": plan["languages"]})
