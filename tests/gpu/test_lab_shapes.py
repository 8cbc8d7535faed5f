"""On a real GPU: every implementation, the exact model of memory, and each fault that needs one."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from exact_memory import exact_peak_memory

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.protocols import Pass, sampled
from flashlab.measuring.supervise import job_environment
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import Record

pytestmark = pytest.mark.gpu

LAB5 = {"name": "lab5", "repeats": 3, "timeout_s": 300}
SHORT = {"name": "sampled", "relative_interval": 0.5, "max_seconds": 0.02, "timeout_s": 120}
SLIDE = Shape(32, 1024, 32, 2048, causal=False)
LAB = Shape(16, 1024, 32, 2048, causal=True)
PRELOADS = """
import sys, torch
from flashlab.forks import open_devices, preload
from flashlab.measuring.supervise import LAZY
preload((*LAZY, *sys.argv[1:]))
torch.zeros(1, device="cuda")
assert open_devices()
"""
IMPLEMENTATIONS = find_implementations()
Measure = Callable[..., Record]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


@pytest.mark.parametrize("name", sorted(IMPLEMENTATIONS))
def test_every_implementation_is_right_or_says_why_it_cannot_in_a_fork_as_in_an_interpreter(
    measured: Measure, name: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(shared))  # where all of them find one server
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv(WORKFLOW_PID, str(os.getpid()))
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    shape = Shape(2, 512, 4, 256, causal=True)
    warm = measured(name, shape, LAB5)
    monkeypatch.delenv(WORKFLOW_PID)
    cold = measured(name, shape, LAB5)
    assert warm.status in ("ok", "unsupported"), warm.message
    assert warm.environment["started_warm"] and not cold.environment["started_warm"]
    assert (warm.status, warm.message) == (cold.status, cold.message)
    assert warm.metrics.get("peak_memory") == cold.metrics.get("peak_memory")


@pytest.mark.parametrize(
    "shape", [Shape(2, 129, 8, 512, True, 2), Shape(2, 1000, 8, 1024, False, 1)], ids=str
)
@pytest.mark.parametrize("name", sorted(IMPLEMENTATIONS))
def test_shared_keys_are_right_or_unsupported(measured: Measure, name: str, shape: Shape) -> None:
    """A sampled run gives q, k and v apart, and is compared with repeated keys in float64."""
    record = measured(name, shape, SHORT)
    allowed = ("ok", "unsupported") if IMPLEMENTATIONS[name].takes else ("unsupported",)
    assert record.status in allowed, record.message


@pytest.mark.parametrize(
    "shape",
    [
        SLIDE,
        Shape(16, 512, 32, 2048, causal=True),
        Shape(32, 512, 8, 2048, causal=True),
        Shape(1, 2048, 16, 1024, causal=False),
        Shape(16, 2048, 1, 64, causal=True),
        *(replace(LAB, num_kv_heads=kv_heads) for kv_heads in (8, 1)),
        replace(LAB, num_kv_heads=8, batch_size=1),  # whose repeated keys are views
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["Flash2", "Pytorch"])
def test_peak_memory_is_the_models_to_the_byte(measured: Measure, name: str, shape: Shape) -> None:
    record = measured(name, shape, SHORT if shape.num_kv_heads else LAB5)
    assert record.status == "ok", record.message
    stated = record.environment["provider"], record.environment["device_name"]
    model = exact_peak_memory(record.run, *stated)
    if model is None:
        pytest.fail(f"there is no exact model of {stated}; are its workspaces in devices.csv?")
    assert record.metrics["peak_memory"].value == model


def test_shared_keys_that_are_read_in_place_take_no_memory(measured: Measure) -> None:
    """FlashLab keeps no copy of k and v or of their gradients for each head of q.

    It adds dK and dV of the heads that share them up in float32, of the shared one alone.
    """
    both = (measured("FlashLab", replace(LAB, num_kv_heads=kv), SHORT) for kv in (32, 1))
    peaks = [record.metrics["peak_memory"].value for record in both]
    tensor = 16 * 1024 * 2048 * 2 / 2**20
    sums = 2 * 2 * tensor / 32
    assert peaks[0] - peaks[1] == pytest.approx(4 * tensor * (1 - 1 / 32) - sums, abs=2)


def test_scores_that_do_not_fit_are_out_of_memory(measured: Measure) -> None:
    record = measured("Pytorch", Shape(8, 65536, 32, 2048, causal=False), LAB5)
    assert (record.status, record.metrics) == ("oom", {})


def test_what_is_imported_ahead_opens_no_device() -> None:
    preloads = [module for each in IMPLEMENTATIONS.values() for module in each.preloads]
    subprocess.run([sys.executable, "-c", PRELOADS, *preloads], check=True, env=job_environment())


def test_a_sample_holds_no_wait_for_its_launch() -> None:
    x = torch.randn(1024, device="cuda")

    def call() -> None:
        time.sleep(3e-4)  # a slow launch of a short kernel
        x.mul_(1.0)

    timing = sampled(Pass(call), {"relative_interval": 0.01, "max_seconds": 0.5}, "cuda")
    assert statistics.quantiles(timing.samples, n=20)[-1] < 1e-4
