"""Planted sittings, and the doubt on what is compared across them."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, rows_of
from planted.experiments import SIZES

from flashlab.analysis.comparison_rows import FIRST
from flashlab.analysis.experiment import CARDS_DIFFER, SITTINGS_DIFFER, Runs
from flashlab.analysis.sittings import sittings_of


def at(time: str, gpu: str | None = None, boot: str | None = None, cost: int = 1) -> Any:
    """A run that was started then, on a GPU, in a boot of the system."""
    environment = {"device_name": "Abacus", "packages": {}, "gpu_uuid": gpu, "boot": boot}
    started = f"2026-01-02T{time}+00:00"
    return {"forward": cost, "started": started, "environment": environment}


def both(first: Any, second: Any) -> dict[str, Any]:
    """Pytorch in the one sitting and Flash2 in the other."""
    return {
        name: [{**run, "forward": size / 100} for size in SIZES]
        for name, run in (("Pytorch", first), ("Flash2", second))
    }


def counts_of(planted: Runs) -> list[int]:
    """The runs of each sitting, in its order of numbers."""
    found = [number for sittings, _ in sittings_of(planted.runs).values() for number in sittings]
    return [found.count(number) for number in sorted({*found})]


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [
        (at("10:00:00"), at("10:59:59"), [8]),
        (at("10:00:00"), at("11:00:00"), [4, 4]),
        (at("10:00:00", "GPU-1", "a"), at("10:01:00", "GPU-1", "a"), [8]),
        (at("10:00:00", "GPU-b", "a"), at("10:01:00", "GPU-a", "a"), [4, 4]),
        (at("10:00:00", "GPU-1", "a"), at("10:01:00", "GPU-1", "b"), [4, 4]),
    ],
    ids=["under an hour", "an hour", "one GPU", "two GPUs", "two boots"],
)
def test_a_sitting_is_a_span_of_one_device_and_one_boot(
    experiment: Plant, first: Any, second: Any, counts: list[int]
) -> None:
    assert counts_of(experiment(both(first, second), processes=1)) == counts


def test_long_breaks_between_neighbours_end_a_sitting_not_its_whole_length(
    experiment: Plant,
) -> None:
    times = ("10:00:00", "10:50:00", "11:40:00", "12:30:00")
    assert counts_of(experiment({"Flash2": list(map(at, times))}, processes=1)) == [4]


def test_what_was_imported_was_measured_at_no_known_time(experiment: Plant) -> None:
    imported = {**at("10:00:00"), "warnings": [{"code": "imported"}]}
    assert counts_of(experiment({"Flash2": [imported]})) == []


@pytest.mark.parametrize(
    ("later", "doubts"),
    [
        (at("10:30:00", "GPU-1"), []),
        (at("12:00:00", "GPU-1"), [SITTINGS_DIFFER]),
        (at("10:30:00", "GPU-2"), [CARDS_DIFFER]),
        (at("12:00:00", "GPU-2"), [CARDS_DIFFER]),
        (at("12:00:00", None), [SITTINGS_DIFFER]),
    ],
)
def test_a_comparison_across_sittings_or_gpus_is_in_doubt(
    experiment: Plant, later: Any, doubts: list[str]
) -> None:
    planted = experiment(both(at("10:00:00", "GPU-1"), later))
    assert {row["doubts"] for row in rows_of(planted)} == {" ".join(doubts)}
    # Growth is about one implementation, in one sitting.
    assert {row["doubts"] for row in rows_of(planted, compared=FIRST)} == {""}


def test_growth_along_an_experiment_that_was_measured_in_two_sittings_is_in_doubt(
    experiment: Plant,
) -> None:
    row = [at("10:00:00" if size < 512 else "15:00:00", cost=size) for size in SIZES]
    planted = experiment({"Pytorch": row, "Flash2": row})
    growth = {row["value"]: row["doubts"] for row in rows_of(planted, compared=FIRST)}
    assert growth == {256: "", 512: SITTINGS_DIFFER, 1024: SITTINGS_DIFFER}
    # At each value, all were measured in the same sitting.
    assert {row["doubts"] for row in rows_of(planted)} == {""}


def test_a_run_of_processes_in_two_sittings_is_compared_with_one_of_the_same_two(
    experiment: Plant,
) -> None:
    two = [at("10:00:00"), at("15:00:00")]
    for other, doubts in ((two, ""), (two[:1], SITTINGS_DIFFER)):
        planted = experiment({"Pytorch": [two], "Flash2": [other]})
        assert {row["doubts"] for row in rows_of(planted)} == {doubts}
