"""Planted sittings, and the doubt on what is compared across them."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived
from planted.experiments import SIZES

from flashlab.analysis.experiment import (
    CARDS_DIFFER,
    SITTING,
    SITTINGS_DIFFER,
    comparison_doubts,
)
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.scaling import SCALING
from flashlab.analysis.kinds.sittings import SITTINGS, find_sittings, with_sittings
from flashlab.analysis.kinds.worse_than_naive import WORSE_THAN_NAIVE


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


@pytest.mark.parametrize(
    ("first", "second", "counts", "gpus"),
    [
        (at("10:00:00"), at("10:59:59"), [8], [None]),
        (at("10:00:00"), at("11:00:00"), [4, 4], [None, None]),
        (at("10:00:00", "GPU-1", "a"), at("10:01:00", "GPU-1", "a"), [8], [None]),
        (at("10:00:00", "GPU-b", "a"), at("10:01:00", "GPU-a", "a"), [4, 4], [1, 2]),
        (at("10:00:00", "GPU-1", "a"), at("10:01:00", "GPU-1", "b"), [4, 4], [None, None]),
    ],
    ids=["under an hour", "an hour", "one GPU", "two GPUs", "two boots"],
)
def test_a_sitting_is_a_span_of_one_device_and_one_boot(
    experiment: Plant, first: Any, second: Any, counts: list[int], gpus: list[int | None]
) -> None:
    (found,) = derived(SITTINGS, experiment(both(first, second), processes=1))
    assert found.verdict == ("one" if len(counts) == 1 else "several")
    assert [each["records"] for each in found.estimates] == counts
    # A GPU is told by its number, where there are several, and never by its UUID.
    assert [each["gpu"] for each in found.estimates] == gpus
    assert "GPU-" not in str(found.to_json())


def test_long_breaks_between_neighbours_end_a_sitting_not_its_whole_length(
    experiment: Plant,
) -> None:
    times = ("10:00:00", "10:50:00", "11:40:00", "12:30:00")
    assert len(find_sittings(experiment({"Flash2": list(map(at, times))}).runs)) == 1


def test_what_was_imported_was_measured_at_no_known_time(experiment: Plant) -> None:
    imported = {**at("10:00:00"), "warnings": [{"code": "imported"}]}
    (found,) = derived(SITTINGS, experiment({"Flash2": [imported]}))
    assert (found.verdict, found.estimates) == ("unknown", [])


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
    (planted,) = with_sittings([experiment(both(at("10:00:00", "GPU-1"), later))])
    for kind in (COMPARISON, WORSE_THAN_NAIVE):
        found = derived(kind, planted)
        assert found and all(finding.warnings == doubts for finding in found)
    found = derived(SCALING, planted)  # about one implementation, in one sitting
    assert found and all(finding.warnings == [] for finding in found)


def test_growth_along_an_experiment_that_was_measured_in_two_sittings_is_in_doubt(
    experiment: Plant,
) -> None:
    row = [at("10:00:00" if size < 512 else "15:00:00", cost=size) for size in SIZES]
    (planted,) = with_sittings([experiment({"Pytorch": row, "Flash2": row})])
    sampled = [f for f in derived(SCALING, planted) if f.metric != "peak_memory"]
    assert sampled and all(f.warnings == [SITTINGS_DIFFER] for f in sampled)
    # At each value, all were measured in the same sitting.
    assert all(finding.warnings == [] for finding in derived(COMPARISON, planted))


def test_a_run_of_processes_in_two_sittings_is_compared_with_one_of_the_same_two() -> None:
    assert comparison_doubts([[{SITTING: (1, 2)}, {SITTING: (1, 2)}]]) == []
    assert comparison_doubts([[{SITTING: (1, 2)}, {SITTING: (1,)}]]) == [SITTINGS_DIFFER]


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
    experiment: Plant, last: str, boots: Any, expected: list[int | None]
) -> None:
    runs = {
        "Pytorch": (at("10:00:00", "GPU-1", boots[0]), at(last, "GPU-1", boots[0])),
        "Flash2": (at("10:01:00", "GPU-2", boots[1]), at("10:09:00", "GPU-2", boots[1])),
    }
    (found,) = derived(SITTINGS, experiment(runs))
    assert [each["gpus_at_once"] for each in found.estimates] == expected


def test_experiments_share_their_sittings(experiment: Plant) -> None:
    one, other = (experiment({"Flash2": [at(time)]}, time) for time in ("10:00:00", "12:00:00"))
    numbers = [[run[SITTING] for run in each.runs] for each in with_sittings([other, one])]
    assert numbers == [[(2,)], [(1,)]]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("2026-01-02T10:00:59", "2026-01-02 10:00 UTC"),
        ("2026-01-02T10:40:00", "2026-01-02 10:00–10:40 UTC"),
        ("2026-01-03T00:05:00", "2026-01-02 23:50 – 2026-01-03 00:05 UTC"),
    ],
    ids=["a minute", "a day", "midnight"],
)
def test_a_sitting_is_told_by_its_times(experiment: Plant, last: str, told: str) -> None:
    first = at("23:50:00" if last.startswith("2026-01-03") else "10:00:00")
    runs = both(first, {**first, "started": f"{last}+00:00"})
    (found,) = derived(SITTINGS, experiment(runs, processes=1))
    assert found.statements[0].values["when"] == told
