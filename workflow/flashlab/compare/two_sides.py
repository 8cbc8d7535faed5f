"""From two sides to comparison.json: circumstances, verdicts, differences, what one side lacks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark
from flashlab.compare.choices import compare_choices
from flashlab.compare.circumstances import (
    compare_ceilings,
    compare_circumstances,
    describe_side,
)
from flashlab.compare.differences import conclude, count_verdicts
from flashlab.compare.pairs import compare_runs, status_in
from flashlab.compare.sides import Records, Side, SideError
from flashlab.files import read_json, write_json
from flashlab.runs import Run


def _grouped(groups: Iterable[tuple[Run, dict[str, str]]]) -> list[dict[str, Any]]:
    """Runs by what is said of them, with their shapes in short."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run, about in groups:
        found.setdefault(tuple(about.items()), []).append(" ".join(run.words))
    return [{**dict(about), "shapes": shapes} for about, shapes in found.items()]


def _only(one: Records, other: Records) -> list[dict[str, Any]]:
    """The runs that the first of two sides alone has, by implementation, dtype and device."""
    names = ("implementation", "dtype", "device")
    lacking = sorted(one.keys() - other.keys())
    return _grouped((run, {name: getattr(run, name) for name in names}) for run in lacking)


def _failing(one: Records, other: Records) -> list[dict[str, Any]]:
    """The runs that have no result on either side, by implementation and how they ended there."""
    ended = ((run, status_in(one[run]), status_in(other[run])) for run in one)
    return _grouped(
        (run, {"implementation": run.implementation, "one": first, "other": second})
        for run, first, second in ended
        if "ok" not in (first, second)
    )


def _kinds(records: Records) -> str:
    return " and ".join(sorted({f"{run.dtype} on {run.device}" for run in records}))


def compare(one: Side, other: Side) -> dict[str, Any]:
    """Everything that is said of two sides of one benchmark, as data.

    Raises:
        SideError: the sides have no run in common.
        RecordError: a record is missing or damaged.
    """
    found = compare_records(one.benchmark, (one.name, one.read()), (other.name, other.read()))
    dtypes = {pair["run"]["dtype"] for pair in found["pairs"]}
    return {**found, "ceilings": compare_ceilings(one.ceilings, other.ceilings, dtypes)}


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
    compared = [{run: side[run] for run in sorted(shared)} for side in (first, second)]
    pairs = compare_runs(benchmark, *compared)
    return {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [describe_side(one[0], compared[0]), describe_side(other[0], compared[1])],
        "shared": len(shared),
        "environments": compare_circumstances(*compared),
        "ceilings": [],
        "conclusions": conclude(benchmark, pairs),
        "choices": compare_choices(benchmark, *compared),
        "failing": _failing(*compared),
        "counts": count_verdicts(pairs),
        "pairs": pairs,
        "only": [_only(first, second), _only(second, first)],
    }


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned; errors as `compare`."""
    plan = read_json(plan_file)
    one, other = (Side.from_json(side) for side in plan["sides"])
    write_json(output, {**compare(one, other), "languages": plan["languages"]})
