"""The state of the GPU while a pass is timed, on a driver that says what it is told to."""

from __future__ import annotations

from types import SimpleNamespace as Of

import pytest
import torch

from flashlab import machine
from flashlab.measuring import clocks

FREE, CAPPED = (0, 500_000, 1980), (0x4, 700_000, 1500)
"""Reasons, mW and MHz before the power limit is met, and there."""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, on a GPU whose driver answers: the clock falls where the power limit is met."""
    said, time = [CAPPED] * 10_000 + [FREE] * 2, [0.0]
    driver = Of(
        NVML_CLOCK_SM=1,
        NVML_FI_DEV_POWER_INSTANT=186,
        nvmlDeviceGetHandleByUUID=str,
        nvmlDeviceGetCurrentClocksEventReasons=lambda _: said[-1][0],
        nvmlDeviceGetFieldValues=lambda *_: [Of(value=Of(uiVal=said[-1][1]))],
        nvmlDeviceGetClockInfo=lambda *_: said.pop()[2],
    )
    monkeypatch.setattr(machine, "nvml", lambda: driver)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Of(uuid="of-a-card"))
    monkeypatch.setattr(clocks, "perf_counter", lambda: time[0])
    return time


def watch(now: list[float], seconds: float, batches: int) -> clocks.Watch:
    found = clocks.Watch("cuda")
    for _ in range(batches):
        now[0] += seconds / batches
        found.look()
    return found


def test_a_watch_tells_clock_power_and_how_often_the_power_limit_was_met(now: list[float]) -> None:
    assert watch(now, seconds=0.4, batches=4).seen() == {
        **{"looks": 4, "sm_clock_MHz": [1500.0, 1740.0, 1980.0], "power_W": [500.0, 600.0, 700.0]},
        "at_power_limit": 0.5,
    }


def test_a_watch_looks_at_most_every_twentieth_of_a_second_and_not_at_a_cpu(
    now: list[float],
) -> None:
    seen = watch(now, seconds=0.5, batches=1000).seen()
    assert seen is not None and 9 <= seen["looks"] <= 10
    assert watch(now, seconds=0.2, batches=10).seen() is None  # a pass that is over at once
    on_cpu = clocks.Watch("cpu")
    on_cpu.look()
    assert on_cpu.seen() is None
