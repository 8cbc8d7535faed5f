"""What the measuring process answers, and which failures are whose."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from measuring.cheats import HEAD

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import ceilings
from flashlab.measuring.child import measure
from flashlab.measuring.failures import IncorrectError, describe_failure, is_of_the_machine

PASSES = ("forward", "backward")
RUN = attention_run("Mine", Shape(1, 16, 2, 16, False), "float32", "cpu")


@pytest.fixture
def answer(tmp_path: Path, protocol: dict[str, Any]) -> Callable[..., Any]:
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
        (IncorrectError("wrong"), "incorrect", "wrong"),
        (NotImplementedError(), "unsupported", "NotImplementedError"),
        # For the reasons that PyTorch warns of.
        (RuntimeError(NO_KERNEL), "unsupported", f"{NO_KERNEL}; head_dim 7; no GPU"),
        (RuntimeError("shape"), "error", "RuntimeError: shape"),
        (ValueError("out of memory"), "error", "ValueError: out of memory"),
    ],
)
def test_a_failure_has_a_status_and_always_a_message(
    error: Exception, status: str, said: str
) -> None:
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
def test_what_the_machine_did_is_told_from_what_the_kernel_did_also_by_its_cause(
    error: Exception,
) -> None:
    wrapped = ValueError("cannot be compiled")
    wrapped.__cause__ = error
    assert is_of_the_machine(error) and is_of_the_machine(wrapped)
    assert not is_of_the_machine(RuntimeError("CUDA error: an illegal memory access"))


def test_backward_starts_from_a_cleared_gradient_and_a_kernel_says_whose_code_it_runs(
    answer: Callable[..., Any],
) -> None:
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
    assert {found["metrics"][f"{name}_time"]["stopped"] for name in PASSES} == {"count"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import a_library_that_nobody_has", "ModuleNotFoundError"),
        *(("del attention", "AttributeError"), ("def (", "SyntaxError")),
    ],
)
def test_a_kernel_that_cannot_be_imported_is_a_result_too(
    answer: Callable[..., Any], text: str, said: str
) -> None:
    found = answer(text)
    assert found["status"] == "error" and found["message"].startswith(said)


def test_ceilings_follow_from_the_times_that_stand_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceilings, "MATRIX_SIZE", {"cpu": 128})
    monkeypatch.setattr(ceilings, "COPY_BYTES", {"cpu": 2**20})
    monkeypatch.setitem(ceilings.PROTOCOL, "max_seconds", 0.05)
    found = ceilings.measure("cpu")
    matrix, copy = found["matrix_product"]["float32"], found["copy"]
    assert matrix["rate(TFLOPs/s)"] == pytest.approx(2 * 128**3 / matrix["time(s)"] / 1e12)
    assert copy["bandwidth(GB/s)"] == pytest.approx(2 * 2**20 / copy["time(s)"] / 1e9)
    assert len(matrix["samples"]) >= 20
    assert found["environment"]["threads"]
