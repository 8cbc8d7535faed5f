"""Measuring a run of the ladder, with NumPy and a small program in place of the steps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flashlab.benchmarks.ladder import gate, measure, process
from flashlab.measuring.failures import IncorrectError

RUN = {"batch_size": 3, "seq_len": 20, "head_dim": 8, "device": "cpu"}
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.01}
PROGRAM = """
import json, pathlib, sys
source, target, _, step, _ = sys.argv[1:]
source = pathlib.Path(source)
if step == "Broken":
    sys.exit("no such step")
calls = source.with_suffix(".calls")
calls.write_text(calls.read_text() + "." if calls.exists() else ".")
kernel = float(len(calls.read_text()))
print(json.dumps({"kernel": kernel, "copy_in": 0.5, "overlapped": 0.0}))
"""


@pytest.fixture(autouse=True)
def memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the device's, which the ladder's library gives."""
    library = ModuleType("kernels.lib.device")
    library.__dict__.update(
        copy_in=np.copy,
        empty=lambda shape: np.empty(shape, np.float32),
        copy_out=lambda array, out: np.copyto(out, array),
        synchronize=lambda: None,
        require_gpu=lambda: None,
    )
    for name in ("kernels", "kernels.lib"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "kernels.lib.device", library)


def measured(device: str, error: float = 0.0, **changes: int) -> Mapping[str, Any]:
    """A run on a CPU or a pretended GPU, one element of whose output is off by `error`."""

    def attention(
        q: gate.Array, k: gate.Array, v: gate.Array, out: gate.Array, stream: object = None
    ) -> None:
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        out[:] = weights / weights.sum(axis=2, keepdims=True) @ v
        out[-1, -1, -1] += error

    step = ModuleType("step")
    step.__dict__.update(DEVICE=device, attention=attention)
    found: Mapping[str, Any] = measure.measure(step, {**RUN, **changes}, PROTOCOL)
    return found


def test_a_step_has_its_times_and_on_a_gpu_those_of_its_copies() -> None:
    found = measured("cuda")
    assert [*found["metrics"]] == ["kernel_time", "host_time", "copy_in_time", "copy_out_time"]
    assert all(metric["value"] > 0 for metric in found["metrics"].values())
    assert found["gate"]["errors"]["out"] < 1e-5
    assert found["warnings"] == [{"code": "simulated"}]
    assert [*measured("cpu")["metrics"]] == ["kernel_time", "host_time"]


@pytest.mark.parametrize("error", [0.006, -0.006, float("nan")])
def test_one_wrong_element_is_enough_to_be_incorrect(error: float) -> None:
    with pytest.raises(IncorrectError, match="an element is off by") as caught:
        measured("cuda", error)
    assert caught.value.compared["tolerance"] == 5e-3


def test_a_process_is_timed_with_its_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = sys.executable, "-I", str(tmp_path / "program.py")
    monkeypatch.setattr(process, "PROGRAM", command)
    arrays = [np.ones((2, 4, 32), np.float32) for _ in range(3)]
    found = process.time_process("Streams", *arrays, times=3)
    assert [*found] == ["process_time", "process_kernel", "process_copy_in"]
    assert found["process_kernel"]["samples"] == [1e3, 2e3, 3e3]
    assert found["process_kernel"]["value"] == 2e3
    assert len(found["process_time"]["samples"]) == 3
    with pytest.raises(process.ProgramError, match="hw4 --step Broken: no such step"):
        process.time_process("Broken", *arrays, times=2)
