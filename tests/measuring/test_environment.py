from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from flashlab import machine
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
    if share:
        assert found[0]["share"] == pytest.approx(share, abs=0.01)


def test_a_cpu_is_measured_without_what_asks_nvidias_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU's node, too, where the package that asks is not installed."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(machine, "NVML_LIBRARY", None)  # loads, as a driver's library would
    machine.nvml.cache_clear()
    assert environment("cpu")["cudnn"] is None
    assert identified("cpu", {})["driver"] is None
    for module in ("measuring.clocks", "benchmarks.training.measure"):
        source = PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
        assert "import pynvml" not in source


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
    meter, burner = LoadMeter(), subprocess.Popen([sys.executable, "-c", "while True: pass"])
    time.sleep(0.5)
    burner.kill()
    burner.wait()
    assert meter.foreign_share() > 0.5 / CPUS


def test_the_environment_says_what_was_measured_and_is_json() -> None:
    found = environment("cpu") | machine.surroundings() | identified("cpu", {})
    assert json.loads(json.dumps(found)) == found
    assert found["device_name"].endswith("CPUs)")
    assert found["packages"]["torch"]
