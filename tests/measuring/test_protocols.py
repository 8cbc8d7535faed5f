from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from flashlab.measuring import protocols
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.protocols import ENOUGH_CALLS, MAX_BATCH, Pass, Timing, lab5, sampled
from flashlab.statistics import Interval, median_interval

NOW = [0]
"""The time in ns, which the calls alone move on: what else the machine does takes none."""


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "perf_counter", lambda: NOW[0] / 1e9)
    monkeypatch.setattr(protocols, "perf_counter_ns", lambda: NOW[0])


class Counted:
    """A call that takes a millisecond, or these in turn, and counts itself."""

    def __init__(self, *milliseconds: float) -> None:
        self.milliseconds = milliseconds or (1.0,)
        self.calls = 0

    def __call__(self) -> None:
        NOW[0] += round(self.milliseconds[self.calls % len(self.milliseconds)] * 1e6)
        self.calls += 1


def timed(
    call: Callable[[], Any] | Pass, max_seconds: float = 5.0, relative_interval: float = 1.0
) -> Timing:
    """A call or a pass, as it is sampled within these limits."""
    limits = {"relative_interval": relative_interval, "max_seconds": max_seconds}
    return sampled(call if isinstance(call, Pass) else Pass(call), limits, "cpu")


NARROW, NEVER = 99.0, -1.0
"""Intervals that any samples reach, and none."""


@pytest.mark.parametrize(
    ("call", "max_seconds", "interval", "stopped", "calls"),
    [
        (Counted(1.0), 5.0, 0.5, "interval", range(ENOUGH_CALLS, ENOUGH_CALLS + MAX_BATCH)),
        (Counted(1.0, 3.0), 0.3, NEVER, "time", range(134, 166)),
        (Counted(10.0, 20.0), 1e-6, NEVER, "time", [protocols.MIN_CALLS]),
        # ten that take long are enough
        (Counted(30.0, 31.0), 0.2, NEVER, "time", [protocols.MIN_LONG_CALLS]),
    ],
)
def test_sampling_stops_once_its_interval_is_narrow_enough_or_its_time_is_spent(
    call: Counted, max_seconds: float, interval: float, stopped: str, calls: range
) -> None:
    timing = timed(call, max_seconds, interval)
    assert timing.stopped == stopped and len(timing.samples) in calls
    assert stopped == "time" or median_interval(timing.samples).relative_half_width <= interval
    assert stopped == "interval" or sum(timing.samples) > max_seconds


def test_the_time_is_the_median_of_samples_that_each_time_one_call_in_their_order() -> None:
    call = Counted(1.0, 1.0, 1.0, 1.0, 60.0)
    timing = timed(call, 0.01, NARROW)
    assert timing.seconds == statistics.median(timing.samples) == pytest.approx(1e-3)
    assert call.calls >= len(timing.samples) + protocols.WARM_UP_CALLS["cpu"]
    slow = [index for index, sample in enumerate(timing.samples) if sample > 0.05]
    assert slow == list(range(slow[0], len(timing.samples), 5)) and slow[0] < 5


def test_a_call_takes_as_long_as_the_machine_takes_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # by its own clock
    assert timed(lambda: time.sleep(1e-3), 0.1).seconds >= 1e-3
    assert lab5(Pass(lambda: time.sleep(1e-3)), {"repeats": 10}, "cpu").seconds >= 1e-3


def test_inputs_change_with_batches_which_end_at_any_call_which_is_compared() -> None:
    done: list[str] = []
    short = Counted(0.01)

    def call() -> None:
        short()
        done.append("c")

    def renew(is_new: bool) -> None:
        done.append(" new " if is_new else " other ")

    timed(Pass(call, lambda: None, renew, lambda _: done.append("! ")), 0.1, NEVER)
    told = "".join(done)
    lengths = [len(batch) for batch in re.findall(r"(c+)! ", told)]
    assert len(lengths) >= 200
    assert done.count(" other ") == pytest.approx(protocols.RENEWED * len(lengths), rel=0.3)
    assert {1, 2, 3} < {*lengths} and max(lengths) <= MAX_BATCH
    assert statistics.mean(lengths) == pytest.approx(protocols.BATCH, rel=0.3)
    assert re.search(r"( new c)+ new c! $", told), "numbers never seen at the end"


def test_the_interval_is_looked_at_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def looked(samples: list[float]) -> Interval:
        looks.append(len(samples))
        return median_interval(samples)

    monkeypatch.setattr(protocols, "median_interval", looked)
    timed(Counted(), 1.0, NEVER)
    assert all(protocols.GROWTH * one <= other for one, other in pairwise(looks[:-1]))
    # 500 × 1.1⁷ is below the 1,000 calls, and the last look is at their end.
    assert looks[0] >= ENOUGH_CALLS and 5 <= len(looks) <= 9


def slower(*, for_good: bool) -> Pass:
    """A pass that, once it is timed, takes twice as long on new numbers, or from there on."""
    call = Counted()

    def renew(is_new: bool) -> None:
        if call.calls > 200 and (is_new or not for_good):
            call.milliseconds = (2.0,) if is_new else (1.0,)

    return Pass(call, renew=renew)


def test_a_pass_that_takes_longer_on_numbers_never_seen_has_no_time() -> None:
    """From its last batch on, so that the warm-up saw nothing of it."""
    with pytest.raises(IncorrectError, match="keeps its answers"):
        timed(slower(for_good=False), 0.3, NEVER)


def test_a_pass_that_is_slower_from_the_end_of_its_timing_on_is_timed_again() -> None:
    """As a short one on two cores is, new numbers or not, once its threads are on both."""
    timing = timed(slower(for_good=True), 0.3, NEVER)
    assert timing.seconds == pytest.approx(2e-3)
    assert len(timing.samples) == pytest.approx(150, abs=MAX_BATCH)


def test_lab5_warms_up_on_other_inputs_than_it_times() -> None:
    done: list[Any] = []
    timed = Pass(lambda: done.append("call"), lambda: done.append("before"), done.append)
    lab5(timed, {"repeats": 3}, "cpu")
    assert done == ["before", "call", "call", False, "before", "call", "call", "call"]


@pytest.mark.parametrize(("repeats", "warm_up"), [(40, 2), (300, 3)])
def test_lab5_means_back_to_back_calls_after_a_short_warm_up(repeats: int, warm_up: int) -> None:
    call = Counted(1.0, 1.0, 1.0, 9.0)
    timing = lab5(Pass(call), {"repeats": repeats}, "cpu")
    assert call.calls == repeats + warm_up
    assert (timing.stopped, timing.samples) == ("count", ())
    assert timing.seconds == pytest.approx(3e-3)  # and no median
