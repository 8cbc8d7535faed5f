"""Rates along a sweep: level times, saturation, and jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from findings.lookups import the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.kinds.jump import jumps
from flashlab.analysis.kinds.launch_bound import launch_bounds
from flashlab.analysis.kinds.saturation import saturations

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZES = (128, 256, 512, 1024)


@pytest.fixture
def timed(sweep: Plant, noisy: Noisy) -> Callable[..., Sweep]:
    """A sweep with these times of each implementation, in units of 10 µs."""

    def build(times: Mapping[str, tuple[float, ...]], **options: Any) -> Sweep:
        runs: dict[Any, Any] = {
            (name, False, size): {"forward": noisy(time * 1e-5)}
            for name, along in times.items()
            for size, time in zip(SIZES, along, strict=True)
        }
        return sweep(runs, **options)

    return build


def with_rates(*rates: float) -> tuple[float, ...]:
    """Times at which the operations, as N², give these rates."""
    return tuple((size / 128) ** 2 / rate for size, rate in zip(SIZES, rates, strict=True))


@pytest.mark.parametrize(
    ("times", "verdict", "until"),
    [
        ((1, 1.01, 4, 16), "level", 256),
        ((1, 1.01, 0.99, 16), "level", 512),
        ((1, 4, 16, 64), "none", 128),
        ((1, 1.2, 1.21, 16), "none", 128),  # level later, but not at the small end
    ],
)
def test_a_time_that_is_level_while_the_operations_grow_is_found_at_the_small_end(
    timed: Callable[..., Sweep], times: tuple[float, ...], verdict: str, until: int
) -> None:
    found = the_one(launch_bounds(timed({"A": times}), Estimates()))
    assert (found.verdict, found.params["until"]) == (verdict, until)
    assert found.params["times_work"] == (until / 128) ** 2


def test_a_level_time_at_level_operations_means_nothing(sweep: Plant, noisy: Noisy) -> None:
    """The batch falls as the heads rise."""
    runs: dict[Any, Any] = {("A", False, h): {"forward": noisy(1e-5)} for h in (1, 2, 4)}
    sizes = {"sizes": lambda h: {"num_heads": h}}
    found = the_one(launch_bounds(sweep(runs, sweep="num_heads", **sizes), Estimates()))
    assert found.verdict == "none"


@pytest.mark.parametrize(
    ("rates", "verdict", "start"),
    [
        ((1, 2, 2.01, 2), "reached", 256),
        ((2, 2, 2.01, 2), "reached", 128),
        ((1, 2, 3, 4), "rising", None),
        ((1, 4, 4, 3), "falls", None),
        ((1, 4, 3, 4), "uneven", None),
        ((1, 1, 1, 2), "rising", None),
    ],
)
def test_saturation_is_where_the_rate_stays_at_its_highest(
    timed: Callable[..., Sweep], rates: tuple[float, ...], verdict: str, start: int | None
) -> None:
    found = the_one(saturations(timed({"A": with_rates(*rates)}), Estimates()))
    assert (found.verdict, found.params["from"]) == (verdict, start)


def test_a_rate_known_by_means_alone_decides_nothing(sweep: Plant) -> None:
    runs: dict[Any, Any] = {("A", False, n): {"forward": [1.0], "means": True} for n in SIZES}
    planted = sweep(runs)
    assert the_one(saturations(planted, Estimates())).verdict == "inconclusive"
    assert the_one(launch_bounds(planted, Estimates())).verdict == "inconclusive"
    assert {finding.verdict for finding in jumps(planted, Estimates())} <= {"none"}


def found_jumps(sweep: Sweep) -> list[tuple[Any, ...]]:
    return [
        (f.subject["implementation"], f.verdict, f.params["before"], f.params["value"])
        for f in jumps(sweep, Estimates())
        if f.verdict != "none" and f.metric == "forward_time"
    ]


def test_a_jump_of_one_implementation_is_found_and_one_of_all_is_not(
    timed: Callable[..., Sweep],
) -> None:
    calm, all_jump = with_rates(1, 1.1, 1.2, 1.3), with_rates(1, 2, 2, 2)
    assert found_jumps(timed({"A": with_rates(1, 2, 2, 2), "B": calm, "C": calm})) == [
        ("A", "rises", 128, 256)
    ]
    assert found_jumps(timed({"A": calm, "B": with_rates(4, 4, 4, 2)})) == [
        ("B", "falls", 512, 1024)
    ]
    assert found_jumps(timed({"A": all_jump, "B": all_jump, "C": calm})) == []
    assert found_jumps(timed({"A": with_rates(1, 1.4, 1.9, 2.5), "B": calm})) == []
    assert found_jumps(timed({"A": with_rates(1, 2, 2, 2)})) == []


def test_the_steps_that_are_no_jump_are_counted(timed: Callable[..., Sweep]) -> None:
    calm = with_rates(1, 1.1, 1.2, 1.3)
    (found,) = jumps(timed({"A": calm, "B": calm}), Estimates())
    assert found.verdict == "none"
    assert (found.params["checks"], found.params["clean"]) == (12, 12)
