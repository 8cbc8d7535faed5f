"""Planted sittings, and the doubt on what is compared across them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import SITTING, SITTINGS_DIFFER, Sweep, read_sweep, sitting_doubts
from flashlab.analysis.kinds.balance import balances
from flashlab.analysis.kinds.comparison import comparisons
from flashlab.analysis.kinds.scaling import scalings
from flashlab.analysis.kinds.sittings import find_sittings, sittings, with_sittings
from flashlab.analysis.kinds.worse_than_naive import worse_than_naive
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab.records import Record

Plant = Callable[..., Sweep]
SIZES = (128, 256, 512, 1024)


@pytest.fixture
def started(
    record_of: Callable[..., Record], planned: Callable[..., dict[str, Any]], tmp_path: Path
) -> Plant:
    """A sweep of runs that were started then: (implementation, N) to a time, a GPU and a boot."""

    def build(runs: dict[tuple[str, int], tuple[str, str | None, str | None]]) -> Sweep:
        records = []
        for (name, size), (time, gpu, boot) in runs.items():
            run = attention_run(name, Shape(1, size, 2, 64, False), "float32", "cpu")
            factor = size * (2 if name == "Pytorch" else 1)
            times = [factor * 1e-5 * (1 + 1e-3 * i) for i in range(15)]
            record = record_of(run, forward=times, backward=times)
            environment = {**record.environment, "gpu_uuid": gpu, "boot": boot}
            records.append(
                replace(record, started=f"2026-01-02T{time}+00:00", environment=environment)
            )
        plan = planned(records)
        write_json(tmp_path / "plan.json", plan)
        write_tables(tmp_path / "plan.json", tmp_path / "tables" / plan["name"])
        return read_sweep(plan, tmp_path / "tables", with_samples=True)

    return build


def both(
    first: tuple[str, str | None, str | None], second: tuple[str, str | None, str | None]
) -> dict[tuple[str, int], tuple[str, str | None, str | None]]:
    """Pytorch in the one sitting and Flash2 in the other."""
    return {
        (name, size): at for name, at in (("Pytorch", first), ("Flash2", second)) for size in SIZES
    }


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (("10:00:00", None, None), ("10:59:59", None, None), 1),
        (("10:00:00", None, None), ("11:00:00", None, None), 2),
        (("10:00:00", "GPU-1", "a"), ("10:01:00", "GPU-1", "a"), 1),
        (("10:00:00", "GPU-1", "a"), ("10:01:00", "GPU-2", "a"), 2),
        (("10:00:00", "GPU-1", "a"), ("10:01:00", "GPU-1", "b"), 2),
    ],
    ids=["under an hour", "an hour", "one GPU", "two GPUs", "two boots"],
)
def test_a_sitting_is_a_span_of_one_device_and_one_boot(
    started: Plant, first: Any, second: Any, count: int
) -> None:
    sweep = started(both(first, second))
    assert len(find_sittings(sweep.runs)) == count
    (found,) = sittings([sweep])
    assert found.verdict == ("one" if count == 1 else "several")
    assert [each["records"] for each in found.estimates] == ([8] if count == 1 else [4, 4])


def test_a_gpu_is_told_by_its_number_and_never_by_its_uuid(started: Plant) -> None:
    sweep = started(both(("10:00:00", "GPU-b", "x"), ("11:00:00", "GPU-a", "x")))
    (found,) = sittings([sweep])
    assert [each["gpu"] for each in found.estimates] == [1, 2]
    assert "GPU-" not in str(found.to_json())
    (found,) = sittings([started(both(("10:00:00", "GPU-b", "x"), ("12:00:00", "GPU-b", "x")))])
    assert [each["gpu"] for each in found.estimates] == [None, None]


def test_long_breaks_between_neighbours_end_a_sitting_not_its_whole_length(started: Plant) -> None:
    times = dict(zip(SIZES, ("10:00:00", "10:50:00", "11:40:00", "12:30:00"), strict=True))
    sweep = started({("Flash2", size): (time, None, None) for size, time in times.items()})
    assert len(find_sittings(sweep.runs)) == 1


def test_what_was_imported_was_measured_at_no_known_time(started: Plant) -> None:
    sweep = started(both(("10:00:00", None, None), ("12:00:00", None, None)))
    records = [{**record, "warnings": [{"code": "imported"}]} for record in sweep.records]
    (found,) = sittings([replace(sweep, records=records)])
    assert (found.verdict, found.estimates) == ("unknown", [])


@pytest.mark.parametrize(("later", "doubts"), [("10:30:00", []), ("12:00:00", [SITTINGS_DIFFER])])
def test_a_comparison_across_sittings_is_in_doubt(
    started: Plant, later: str, doubts: list[str]
) -> None:
    (sweep,) = with_sittings([started(both(("10:00:00", None, None), (later, None, None)))])
    estimates = Estimates()
    found = [*comparisons(sweep, estimates), *worse_than_naive([sweep], estimates)]
    assert {finding.kind for finding in found} == {"comparison", "worse_than_naive"}
    assert all(finding.warnings == doubts for finding in found)
    # Each of these is about one implementation, in one sitting.
    own = [*scalings(sweep, estimates), *balances(sweep, estimates)]
    assert own and all(finding.warnings == [] for finding in own)


def test_growth_along_a_sweep_that_was_measured_in_two_sittings_is_in_doubt(started: Plant) -> None:
    runs = {
        (name, size): ("10:00:00" if size < 512 else "15:00:00", None, None)
        for name in ("Pytorch", "Flash2")
        for size in SIZES
    }
    (sweep,) = with_sittings([started(runs)])
    estimates = Estimates()
    sampled = [f for f in scalings(sweep, estimates) if f.metric != "peak_memory"]
    assert sampled and all(f.warnings == [SITTINGS_DIFFER] for f in sampled)
    assert all(f.warnings == [] for f in balances(sweep, estimates))
    # At each value, both were measured in the same sitting.
    assert all(f.warnings == [] for f in comparisons(sweep, estimates))


def test_a_run_of_processes_in_two_sittings_is_compared_with_one_of_the_same_two() -> None:
    def run_in(*sittings: int) -> dict[str, Any]:
        return {SITTING: sittings}

    assert sitting_doubts([[run_in(1, 2), run_in(1, 2)]]) == []
    assert sitting_doubts([[run_in(1, 2), run_in(1)]]) == [SITTINGS_DIFFER]


@pytest.mark.parametrize(
    ("last", "boots", "expected"),
    [
        ("10:05:00", ("a", "a"), [2, 2]),  # while the first GPU still measured
        ("10:05:00", ("a", "b"), [1, 1]),  # on two hosts
        ("10:00:30", ("a", "a"), [1, 1]),  # after the first had ended
        ("10:05:00", (None, None), [None, None]),
    ],
)
def test_gpus_of_one_host_measure_at_once_where_their_sittings_overlap(
    started: Plant, last: str, boots: Any, expected: list[int | None]
) -> None:
    sweep = started(
        {
            **{("Pytorch", SIZES[0]): ("10:00:00", "GPU-1", boots[0])},
            **{("Pytorch", SIZES[1]): (last, "GPU-1", boots[0])},
            **{("Flash2", SIZES[0]): ("10:01:00", "GPU-2", boots[1])},
            **{("Flash2", SIZES[1]): ("10:09:00", "GPU-2", boots[1])},
        }
    )
    (found,) = sittings([sweep])
    assert [each["gpus_at_once"] for each in found.estimates] == expected
