from __future__ import annotations

import errno
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation
from flashlab.measuring.child import measure
from flashlab.measuring.failures import IncorrectError, describe_failure, is_of_the_machine

Kernel = Callable[[str], Implementation]
RUN = attention_run("Mine", Shape(1, 16, 2, 16, False), "float32", "cpu")


def measure_kernel(protocol: dict[str, Any], path: Path) -> dict[str, Any]:
    """The measuring process's answer for a kernel's file."""
    order = {"run": RUN.to_json(), "protocol": protocol, "kernel": str(path)}
    return measure(order | {"measure": ATTENTION.measure})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory."), ("oom", "CUDA out of memory.")),
        (MemoryError(), ("oom", "MemoryError")),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            ("oom", "DefaultCPUAllocator: can't allocate memory: you tried"),
        ),
        (
            RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"),
            ("oom", "CUBLAS_STATUS_ALLOC_FAILED when calling"),
        ),
        (IncorrectError("wrong"), ("incorrect", "wrong")),
        (NotImplementedError("head_dim 7"), ("unsupported", "head_dim 7")),
        (NotImplementedError(), ("unsupported", "NotImplementedError")),
        (RuntimeError("shape"), ("error", "RuntimeError: shape")),
        (ValueError("out of memory"), ("error", "ValueError: out of memory")),
    ],
)
def test_a_failure_has_a_status_and_always_a_message(
    error: Exception, expected: tuple[str, str]
) -> None:
    assert describe_failure(error, []) == expected


def test_a_backend_without_a_kernel_is_unsupported_for_the_reasons_that_pytorch_warns_of() -> None:
    error = RuntimeError("No available kernel. Aborting execution.")
    assert describe_failure(error, ["head_dim 7", "no GPU"]) == (
        "unsupported",
        "No available kernel. Aborting execution.; head_dim 7; no GPU",
    )


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
    assert not is_of_the_machine(wrapped)
    wrapped.__cause__ = error
    assert is_of_the_machine(error) and is_of_the_machine(wrapped)
    assert not is_of_the_machine(RuntimeError("CUDA error: an illegal memory access"))


def test_times_are_the_medians_of_their_samples(kernel: Kernel, protocol: dict[str, Any]) -> None:
    answer = measure_kernel(protocol, kernel("return naive(qkv, causal)").path)
    metrics = answer["metrics"]
    assert answer["status"] == "ok"
    assert {name: metric["unit"] for name, metric in metrics.items()} == {
        metric.name: metric.unit for metric in ATTENTION.measured if not metric.optional
    }
    for name in ("forward_time", "backward_time"):
        median = statistics.median(metrics[name]["samples"])
        assert metrics[name]["value"] == pytest.approx(median)


def test_a_kernel_says_whose_code_it_runs(kernel: Kernel, protocol: dict[str, Any]) -> None:
    path = kernel("return naive(qkv, causal)").path
    assert measure_kernel(protocol, path)["environment"]["provider"] == f"torch {torch.__version__}"
    path.write_text(path.read_text() + "\ndef provider(device): return f'me on {device}'\n")
    assert measure_kernel(protocol, path)["environment"]["provider"] == "me on cpu"


def test_backward_starts_from_a_cleared_gradient_and_is_not_a_forward(
    kernel: Kernel, protocol: dict[str, Any]
) -> None:
    path = kernel(
        """
        calls.append(qkv.grad is None)
        return naive(qkv, causal)
        """
    ).path
    path.write_text(path.read_text() + "\ncalls = []\n")
    answer = measure_kernel(protocol | {"name": "lab5", "repeats": 7}, path)
    calls = sys.modules["kernels.mine"].calls
    # twice for memory, twice in the gate, warm-up and timed forwards, those outside the clock (the
    # graph's first one, one to warm up, one to compare with, the timed one), and the gate again
    assert len(calls) == 2 + 2 + (2 + 7) + 4 + 1
    assert all(calls)
    timed = [answer["metrics"][name] for name in ("forward_time", "backward_time")]
    assert [metric["stopped"] for metric in timed] == ["count", "count"]


def test_a_kernel_that_cannot_be_imported_is_a_result_too(
    tmp_path: Path, protocol: dict[str, Any]
) -> None:
    path = tmp_path / "mine.py"
    for source, said in {
        "import a_library_that_nobody_has": "ModuleNotFoundError",
        "x = 1": "AttributeError",
        "def (": "SyntaxError",
    }.items():
        path.write_text(source)
        answer = measure_kernel(protocol, path)
        assert answer["status"] == "error"
        assert answer["message"].startswith(said)
