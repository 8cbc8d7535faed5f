from __future__ import annotations

import re
import statistics
import time
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from flashlab.measuring import protocols
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.protocols import (
    BATCH,
    ENOUGH_CALLS,
    GROWTH,
    MAX_BATCH,
    MIN_CALLS,
    MIN_LONG_CALLS,
    RENEWED,
    WARM_UP_CALLS,
    Pass,
    lab5,
    sampled,
)
from flashlab.statistics import Interval, median_interval


class Clock:
    """A clock that only the calls move on: what else the machine does takes no time."""

    def __init__(self) -> None:
        self.ns = 0

    def perf_counter_ns(self) -> int:
        return self.ns

    def perf_counter(self) -> float:
        return self.ns / 1e9

    def advance(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_clock" not in request.fixturenames:
        monkeypatch.setattr(protocols, "perf_counter", CLOCK.perf_counter)
        monkeypatch.setattr(protocols, "perf_counter_ns", CLOCK.perf_counter_ns)


@pytest.fixture
def real_clock() -> None:
    """Leaves the protocols the machine's clock."""


class Counted:
    """A call that takes a millisecond, or as long as it is told, and counts itself."""

    def __init__(self, *milliseconds: float) -> None:
        self.milliseconds = milliseconds or (1.0,)
        self.calls = 0

    def __call__(self) -> None:
        CLOCK.advance(self.milliseconds[self.calls % len(self.milliseconds)] / 1e3)
        self.calls += 1


def limits(**changes: float) -> dict[str, Any]:
    return {"relative_interval": 1.0, "max_seconds": 5.0, **changes}


def test_sampling_stops_once_the_interval_is_narrow_enough() -> None:
    timing = sampled(Pass(Counted()), limits(relative_interval=0.5), "cpu")
    assert timing.stopped == "interval"
    assert median_interval(timing.samples).relative_half_width <= 0.5
    enough = len(sampled(Pass(Counted()), limits(relative_interval=99), "cpu").samples)
    assert ENOUGH_CALLS <= enough < ENOUGH_CALLS + MAX_BATCH


def test_sampling_stops_when_its_time_is_spent() -> None:
    begin = CLOCK.perf_counter()
    timing = sampled(
        Pass(Counted(1.0, 3.0)), limits(relative_interval=1e-9, max_seconds=0.3), "cpu"
    )
    assert timing.stopped == "time"
    assert 0.3 < CLOCK.perf_counter() - begin < 0.4
    assert len(timing.samples) > MIN_CALLS
    assert sum(timing.samples) == pytest.approx(0.3, rel=0.1)
    timing = sampled(
        Pass(Counted(10.0, 20.0)), limits(relative_interval=1e-9, max_seconds=1e-6), "cpu"
    )
    assert (timing.stopped, len(timing.samples)) == ("time", MIN_CALLS)


def test_ten_calls_that_take_long_are_enough() -> None:
    hasty = limits(relative_interval=1e-9, max_seconds=0.2)
    timing = sampled(Pass(Counted(30.0, 31.0)), hasty, "cpu")
    assert (timing.stopped, len(timing.samples)) == ("time", MIN_LONG_CALLS)


def test_dependent_calls_are_sampled_for_longer() -> None:
    random = Random(2)
    level, taken = 0.0, 0

    def call() -> None:
        nonlocal level, taken
        level = 0.95 * level + 0.4 * random.gauss(0, 1)
        taken += 1
        CLOCK.advance(1e-4 * 1.05**level)

    timing = sampled(Pass(call), limits(relative_interval=0.01, max_seconds=2.0), "cpu")
    assert len(timing.samples) > ENOUGH_CALLS


def test_the_time_is_the_median_of_samples_that_each_time_one_call() -> None:
    call = Counted()
    timing = sampled(Pass(call), limits(), "cpu")
    assert timing.seconds == statistics.median(timing.samples) == pytest.approx(1e-3)
    assert call.calls >= len(timing.samples) + WARM_UP_CALLS["cpu"]


@pytest.mark.usefixtures("real_clock")
def test_a_call_takes_as_long_as_the_machine_takes_for_it() -> None:
    def call() -> None:
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass

    assert sampled(Pass(call), limits(max_seconds=0.1), "cpu").seconds >= 1e-3
    assert lab5(Pass(call), {"repeats": 10}, "cpu").seconds >= 1e-3


def test_samples_stay_in_the_order_of_measurement() -> None:
    timing = sampled(
        Pass(Counted(1.0, 1.0, 1.0, 1.0, 60.0)),  # 12.8 ms a call on average
        limits(relative_interval=99, max_seconds=0.01),
        "cpu",
    )
    slow = [index for index, sample in enumerate(timing.samples) if sample > 0.05]
    assert slow == list(range(slow[0], len(timing.samples), 5))
    assert slow[0] < 5


def test_inputs_change_with_batches_which_end_at_any_call_which_is_compared() -> None:
    done: list[str] = []
    short = Counted(0.01)

    def call() -> None:
        short()
        done.append("call")

    def renew(is_new: bool) -> None:
        done.append("new" if is_new else "other")

    timed = Pass(call, lambda: None, renew, lambda _: done.append("check"))
    sampled(timed, limits(relative_interval=-1, max_seconds=0.1), "cpu")
    told = " ".join([*done, ""]).replace("call ", "c").replace("check ", "! ")
    batches = re.findall(r"(c+)! ", told)
    assert len(batches) >= 200
    assert done.count("other") == pytest.approx(RENEWED * len(batches), rel=0.3)
    lengths = [len(batch) for batch in batches]
    assert {1, 2, 3} < {*lengths} and max(lengths) <= MAX_BATCH
    assert statistics.mean(lengths) == pytest.approx(BATCH, rel=0.3)
    assert re.search(r"(new c)+new c! $", told), "numbers never seen at the end"


def test_the_interval_is_looked_at_the_more_rarely_the_more_samples_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def looked(samples: list[float]) -> Interval:
        looks.append(len(samples))
        return median_interval(samples)

    monkeypatch.setattr(protocols, "median_interval", looked)
    sampled(Pass(Counted()), limits(relative_interval=-1, max_seconds=1.0), "cpu")
    assert ENOUGH_CALLS <= looks[0] < ENOUGH_CALLS + MAX_BATCH
    assert all(GROWTH * one <= other for one, other in pairwise(looks[:-1]))
    # 500 × 1.1⁷ is below the 1,000 calls, and the last look is at their end.
    assert 5 <= len(looks) <= 9


def test_a_pass_that_takes_longer_on_numbers_never_seen_has_no_time() -> None:
    """From its last batch on, so that the warm-up saw nothing of it."""
    done = 0

    def call() -> None:
        nonlocal done
        done += 1
        CLOCK.advance(1e-3 if done < 200 or not timed_new else 2e-3)

    timed_new = False

    def renew(is_new: bool) -> None:
        nonlocal timed_new
        timed_new = is_new

    with pytest.raises(IncorrectError, match="keeps its answers"):
        sampled(Pass(call, renew=renew), limits(relative_interval=-1, max_seconds=0.3), "cpu")


def test_a_pass_that_is_slower_from_the_end_of_its_timing_on_is_timed_again() -> None:
    """As a short one on two cores is, new numbers or not, once its threads are on both."""
    pace = 1e-3

    def renew(is_new: bool) -> None:
        nonlocal pace
        pace = 2e-3 if is_new and timed.calls > 200 else pace

    timed = Pass(lambda: CLOCK.advance(pace), renew=renew)
    timing = sampled(timed, limits(relative_interval=-1, max_seconds=0.3), "cpu")
    assert timing.seconds == pytest.approx(2e-3)
    assert len(timing.samples) == pytest.approx(150, abs=MAX_BATCH)


def test_lab5_warms_up_on_other_inputs_than_it_times() -> None:
    done: list[Any] = []
    timed = Pass(lambda: done.append("call"), lambda: done.append("before"), done.append)
    lab5(timed, {"repeats": 3}, "cpu")
    assert done == ["before", "call", "call", False, "before", "call", "call", "call"]


@pytest.mark.parametrize(("repeats", "warm_up"), [(1, 2), (30, 2), (300, 3)])
def test_lab5_means_back_to_back_calls_after_a_short_warm_up(repeats: int, warm_up: int) -> None:
    call = Counted(0.2)
    timing = lab5(Pass(call), {"repeats": repeats}, "cpu")
    assert call.calls == repeats + warm_up
    assert (timing.stopped, timing.samples) == ("count", ())
    assert timing.seconds == pytest.approx(0.2e-3)
    mean = lab5(Pass(Counted(1.0, 1.0, 1.0, 9.0)), {"repeats": 40}, "cpu").seconds
    assert mean == pytest.approx(3e-3)  # and no median
