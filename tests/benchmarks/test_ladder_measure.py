"""Measuring a run of the ladder, with NumPy kernels in place of the steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from flashlab.benchmarks.ladder import gate, measure
from flashlab.benchmarks.ladder.cases import ASSIGNMENT, CASES, case_of
from flashlab.measuring.failures import IncorrectError

RUN = {"batch_size": 3, "seq_len": 20, "head_dim": 8, "device": "cpu"}
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.01}
Array = gate.Array


def attend(q: Array, k: Array, v: Array, out: Array) -> None:
    """Attention as its definition has it."""
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    out[:] = weights / weights.sum(axis=2, keepdims=True) @ v


def step(device: str, error: float = 0.0) -> ModuleType:
    """A step on the CPU or on a pretended GPU, one element of whose output is off by `error`."""

    def attention(q: Array, k: Array, v: Array, out: Array, stream: Any = None) -> None:
        attend(q, k, v, out)
        out[-1, -1, -1] += error

    made = ModuleType("step")
    made.__dict__.update({"DEVICE": device, "attention": attention})
    return made


@pytest.fixture(autouse=True)
def device_of_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device whose memory is the host's, in the place of the ladder's library."""
    library = ModuleType("kernels.lib.device")
    library.__dict__.update(
        {
            "copy_in": np.copy,
            "empty": lambda shape: np.empty(shape, np.float32),
            "copy_out": lambda array, out: np.copyto(out, array),
            "synchronize": lambda: None,
            "require_gpu": lambda: None,
        }
    )
    for name in ("kernels", "kernels.lib"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "kernels.lib.device", library)
    torch.manual_seed(1)
    yield


def measured(kernel: ModuleType, **changes: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = measure.measure(kernel, {**RUN, **changes}, PROTOCOL)
    return found


def test_a_step_on_a_gpu_has_the_times_of_its_copies() -> None:
    found = measured(step("cuda"))
    assert [*found["metrics"]] == ["kernel_time", "host_time", "copy_in_time", "copy_out_time"]
    assert all(metric["value"] > 0 for metric in found["metrics"].values())
    assert found["gate"]["errors"]["out"] < 1e-5
    assert found["warnings"] == [{"code": "simulated"}]


def test_a_step_on_the_cpu_copies_nothing() -> None:
    assert [*measured(step("cpu"))["metrics"]] == ["kernel_time", "host_time"]


@pytest.mark.parametrize("error", [0.006, -0.006, float("nan")])
def test_one_wrong_element_is_enough_to_be_incorrect(error: float) -> None:
    with pytest.raises(IncorrectError, match="an element is off by") as caught:
        measured(step("cuda", error))
    assert caught.value.compared["tolerance"] == 5e-3


def test_the_reference_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 2, 33, 8).unbind(0)
    whole = gate.reference(q, k, v)
    monkeypatch.setattr(gate, "CHUNK_SCORES", {"cpu": 100})
    assert torch.allclose(gate.reference(q, k, v), whole, rtol=1e-12)


def test_what_would_take_hours_is_unsupported() -> None:
    with pytest.raises(NotImplementedError, match="275 GFLOP are too much for one thread"):
        measured(step("cpu"), batch_size=4, seq_len=16384, head_dim=64)
    with pytest.raises(NotImplementedError, match="simulator of CUDA would take hours"):
        measured(step("cuda"), seq_len=2048)


def test_the_cases_are_those_of_the_assignment() -> None:
    assert sorted(ASSIGNMENT) == list(range(1, 31))
    assert len(set(CASES.values())) == len(CASES)
    assert max(b * n * d for b, n, d in ASSIGNMENT.values()) == 78_643_200
    assert (case_of(4, 16384, 64), case_of(4, 16384, 32)) == (28, 0)
