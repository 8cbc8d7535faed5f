"""What the measuring process answers and warns of, whose failures are whose, and peak memory."""

from __future__ import annotations

import errno
import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Of
from typing import Any

import psutil
import pytest
import torch
from measuring.conftest import HEAD

from flashlab import machine
from flashlab.benchmarks.attention import measure as attention
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring import ceilings, clocks
from flashlab.measuring.child import measure
from flashlab.measuring.environment import LoadMeter, environment, sample_warnings, state_warnings
from flashlab.measuring.failures import describe_failure, is_of_the_machine
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.memory import peak_memory
from flashlab.measuring.supervise import identified
from flashlab.sources import PACKAGE

MIB = 2**20
Answer = Watched = Callable[..., Any]
RUN = attention_run("Mine", Shape(1, 16, 2, 16, False), "float32", "cpu")


@pytest.fixture
def answer(tmp_path: Path, protocol: dict[str, Any]) -> Answer:
    """The measuring process's answer for a kernel, of which this is what follows `HEAD`."""

    def answered(text: str, **limits: Any) -> dict[str, Any]:
        (tmp_path / "mine.py").write_text(f"{HEAD}\n{text}\n", encoding="utf-8")
        order = {"run": RUN.to_json(), "protocol": protocol | limits, "measure": ATTENTION.measure}
        return measure({**order, "kernel": str(tmp_path / "mine.py")})

    return answered


NO_MEMORY, ALLOC_FAILED = "DefaultCPUAllocator: can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED"
NO_KERNEL = "No available kernel. Aborting execution."


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory."), "oom", "CUDA out of memory."),
        (RuntimeError(NO_MEMORY), "oom", NO_MEMORY),
        (RuntimeError(ALLOC_FAILED), "oom", ALLOC_FAILED),
        (NotImplementedError(), "unsupported", "NotImplementedError"),
        # For the reasons that PyTorch warns of.
        (RuntimeError(NO_KERNEL), "unsupported", f"{NO_KERNEL}; head_dim 7; no GPU"),
        (ValueError("out of memory"), "error", "ValueError: out of memory"),
    ],
)
def test_a_failure_has_a_status_and_a_message(error: Exception, status: str, said: str) -> None:
    assert describe_failure(error, ["head_dim 7", "no GPU"]) == (status, said)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        RuntimeError("ninja: fatal error: error writing to /tmp/a.s: No space left on device"),
        RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("device lost"),
    ],
)
def test_what_the_machine_did_is_told_also_by_its_cause(error: Exception) -> None:
    wrapped = ValueError("cannot be compiled")
    wrapped.__cause__ = error
    assert is_of_the_machine(error) and is_of_the_machine(wrapped)
    assert not is_of_the_machine(RuntimeError("CUDA error: an illegal memory access"))


def test_backward_starts_without_gradients_and_a_kernel_says_whose_it_is(answer: Answer) -> None:
    found = answer(
        "called = []\n"
        "def attention(qkv, causal):\n"
        "    called.append(qkv.grad is None)\n"
        "    return naive(qkv, causal)\n"
        "def provider(device): return f'me on {device}'",
        **{"name": "lab5", "repeats": 7},
    )
    assert (found["status"], found["environment"]["provider"]) == ("ok", "me on cpu")
    called = sys.modules["kernels.mine"].called
    # twice for memory, twice in the gate, warm-up and timed forwards, those outside the clock (the
    # graph's first one, one to warm up, one to compare with, the timed one), and the gate again
    assert called == [True] * (2 + 2 + (2 + 7) + 4 + 1)
    assert found["metrics"]["backward_time"]["stopped"] == "count"


def test_a_kernel_that_cannot_be_imported_is_a_result(answer: Answer) -> None:
    found = answer("import a_library_that_nobody_has")
    assert found["status"] == "error" and found["message"].startswith("ModuleNotFoundError")


def test_ceilings_follow_from_the_times_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "MATRIX_SIZE", {"cpu": 128})
    monkeypatch.setattr(ceilings, "COPY_BYTES", {"cpu": 2**20})
    monkeypatch.setitem(ceilings.PROTOCOL, "max_seconds", 0.05)
    found = ceilings.measure("cpu")
    matrix, copy = found["matrix_product"]["float32"], found["copy"]
    assert matrix["rate(TFLOPs/s)"] == pytest.approx(2 * 128**3 / matrix["time(s)"] / 1e12)
    assert copy["bandwidth(GB/s)"] == pytest.approx(2 * 2**20 / copy["time(s)"] / 1e9)
    assert len(matrix["samples"]) >= 20
    assert found["environment"]["threads"]


# The peak of a run's memory


@pytest.mark.parametrize("form", ["packed", "separate"])
def test_the_naive_passs_peak_is_that_of_its_tensors(form: str) -> None:
    """In the softmax's backward: weights, their gradient and that of the scores; qkv and copies."""
    scores, one = 4 * 2 * 4 * 256**2, 4 * 2 * 256 * 64  # (B, H, N, N), (B, N, H, D)
    kernel = load_kernel(find_implementations()["Pytorch"].path)
    run = {**vars(Shape(2, 256, 4, 64, False)), "dtype": "float32", "device": "cpu"}
    found = attention.peak_memory(kernel, {**run, "inputs": form})
    assert found == 3 * scores + 9 * one  # qkv (3), copies of q, k, v, out, dout, dv


@pytest.mark.parametrize(
    ("steps", "peak"), [((5,), 5), ((5, -5, 3), 5), ((5, 2, -5, 4, 1), 7), ((1, 2, 3, -2, 8), 12)]
)
def test_the_peak_is_what_was_held_at_once(steps: tuple[int, ...], peak: int) -> None:
    """Of steps that each allocate, or free where they are negative, this many MiB."""
    before: list[object] = [torch.empty(50 * MIB, dtype=torch.int8)]
    before.append(before)
    del before  # which the collector frees

    def both_passes() -> None:
        gc.collect()
        held: dict[int, torch.Tensor] = {}
        for step in steps:
            if step > 0:
                held[step] = torch.empty(step * MIB, dtype=torch.int8)
            else:
                del held[-step]

    assert peak_memory(both_passes, "cpu") == peak * MIB


def test_many_operations_are_not_memory_that_pytorch_does_not_know() -> None:
    assert peak_memory(lambda: [len(torch.ones(1) + 1) for _ in range(5000)], "cpu") < MIB


# What is warned of, and the state of the machine

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
