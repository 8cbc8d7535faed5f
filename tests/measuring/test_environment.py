from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace as Of
from typing import Any

import psutil
import pytest
import torch

from flashlab import machine
from flashlab.measuring import clocks
from flashlab.measuring.environment import LoadMeter, environment, sample_warnings, state_warnings
from flashlab.measuring.supervise import identified
from flashlab.sources import PACKAGE

CPUS = psutil.cpu_count() or 1
STEADY = [1.0 + 0.001 * random.Random(i).random() for i in range(60)]


def slower(by: Callable[[int], float]) -> list[float]:
    """Steady samples, each of them so much longer."""
    return [time * (1 + by(i)) for i, time in enumerate(STEADY)]


@pytest.mark.parametrize(
    ("samples", "codes", "share"),
    [
        (STEADY, [], None),
        (slower(lambda i: 0.002 * i), ["drift"], 0.08),
        (slower(lambda i: 0.002 * i)[::-1], ["drift"], None),
        (slower(lambda i: i % 5 == 2), ["outliers"], None),
        ([*STEADY, 2.0], [], None),
        (slower(lambda i: 0.08 * (i // 5 % 2)), ["states"], 0.08),
    ],
    ids=["steady", "rising", "falling", "a fifth is slow", "one is slow", "two states"],
)
def test_what_the_samples_of_a_pass_show_is_warned_of(
    samples: list[float], codes: list[str], share: float | None
) -> None:
    found = sample_warnings("backward", samples)
    assert [(w["metric"], w["code"]) for w in found] == [("backward", code) for code in codes]
    assert share is None or found[0]["share"] == pytest.approx(share, abs=0.01)


def test_a_cpu_is_measured_without_nvidias_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU's node, too, where the package that asks is not installed."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(machine, "NVML_LIBRARY", None)  # loads, as a driver's library would
    machine.nvml.cache_clear()
    assert environment("cpu")["cudnn"] is None
    assert identified("cpu", {})["driver"] is None
    for module in ("measuring/clocks", "benchmarks/training/measure"):
        assert "import pynvml" not in (PACKAGE / f"{module}.py").read_text("utf-8")


def test_a_busy_machine_a_throttled_and_a_shared_gpu_are_named() -> None:
    idle, power_cap = 0x1, 0x4
    quiet = {"clock_reasons": idle, "other_processes": 0}
    capped = {"clock_reasons": idle | power_cap, "other_processes": 2}
    assert state_warnings(0.05, [quiet]) == []
    assert state_warnings(0.5, [quiet, capped]) == [
        {"code": "cpu_load", "share": 0.5},
        {"code": "throttled", "reasons": power_cap},
        {"code": "shared_device", "processes": 2},
    ]


def test_the_meter_sees_the_load_of_another_process_and_not_its_own() -> None:
    meter, own, begin = LoadMeter(), time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < 0.5:
        pass
    own_share = (time.process_time() - own) / (time.perf_counter() - begin) / CPUS
    assert meter.foreign_share() <= 1 - own_share + 0.1
    meter = LoadMeter()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", "while True: pass"], timeout=0.5)
    assert meter.foreign_share() > 0.5 / CPUS


# The state of the GPU while a pass is timed, on a driver that says what it is told to

FREE, CAPPED = (0, 500_000, 1980), (0x4, 700_000, 1500)
"""Reasons, mW and MHz before the power limit is met, and there."""


Watched = Callable[..., Any]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """What is seen of a pass on a GPU whose driver answers: its clock falls at the power limit."""
    said, now = [CAPPED] * 10_000 + [FREE] * 2, 0.0

    def watch(seconds: float, batches: int, device: str = "cuda") -> Any:
        nonlocal now
        watch = clocks.Watch(device)
        for _ in range(batches):
            now += seconds / batches
            watch.look()
        return watch.seen()

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
    monkeypatch.setattr(clocks, "perf_counter", lambda: now)
    return watch


def test_a_watch_tells_clock_power_and_how_often_the_limit_was_met(watched: Watched) -> None:
    """It looks at most every twentieth of a second, and not at a CPU."""
    assert watched(seconds=0.4, batches=4) == {
        **{"looks": 4, "sm_clock_MHz": [1500.0, 1740.0, 1980.0], "power_W": [500.0, 600.0, 700.0]},
        "at_power_limit": 0.5,
    }
    assert 9 <= watched(seconds=0.5, batches=1000)["looks"] <= 10
    assert watched(seconds=0.2, batches=10) is None  # a pass that is over at once
    assert watched(seconds=0.5, batches=10, device="cpu") is None
