"""On a real GPU: heads of queries that share keys and values, in every kernel that takes that."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.inputs import SEPARATE, attention_of
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.failures import describe_failure
from flashlab.measuring.kernel import load_kernel
from flashlab.records import Record

pytestmark = pytest.mark.gpu

KERNELS = {name: each for name, each in find_implementations().items() if each.takes}
COMPILED = ("Flex", "Flash4")
"""Kernels that compile for seconds at each problem, and so get few of them."""

H = 8
SHORT = {"name": "sampled", "relative_interval": 0.5, "max_seconds": 0.02, "timeout_s": 120}
LAB = Shape(16, 1024, 32, 2048, causal=True)


def shapes_of(name: str, dtype: str) -> list[Shape]:
    """Numbers of heads of keys, odd lengths, both masks, and a second head dimension."""
    if name in COMPILED:
        masks = (True,) if dtype == "bfloat16" else (False, True)
        return [Shape(2, 129, H, H * 64, causal, 2) for causal in masks]
    sizes = [(64, 1), (64, 129), (64, 1000), (128, 1000)]
    return [
        Shape(2, length, H, H * dim, causal, kv)
        for (dim, length), kv, causal in itertools.product(sizes, (8, 2, 1), (False, True))
    ]


@cache
def kernel_of(name: str) -> ModuleType:
    """A kernel's module, loaded once."""
    return load_kernel(KERNELS[name].path)


def outcome(name: str, shape: Shape, dtype: str) -> tuple[str, str]:
    """The status of a comparison of both passes with float64, and why, as a record has them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            attention = attention_of(kernel_of(name), SEPARATE, shape)
            gate.check_correctness(attention, shape, dtype, "cuda", SEPARATE)
        except Exception as error:
            return describe_failure(error, [str(each.message) for each in caught])
    return "ok", ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", KERNELS)
def test_both_passes_agree_with_repeated_keys_in_float64(name: str, dtype: str) -> None:
    """A shape that a kernel cannot compute without shared keys either is left out."""
    found = {shape: outcome(name, shape, dtype) for shape in shapes_of(name, dtype)}
    unshared = {s for s, (status, _) in found.items() if s.group == 1 and status != "ok"}
    if {status for status, _ in found.values()} == {"unsupported"}:
        pytest.skip(f"{name} {dtype}: {next(iter(found.values()))[1][:300]}")
    wrong = {
        str(shape): (status, message[:300])
        for shape, (status, message) in found.items()
        if status != "ok" and replace(shape, num_kv_heads=0) not in unshared
    }
    assert not wrong


def test_shared_keys_that_are_read_in_place_take_no_memory(measured: Callable[..., Record]) -> None:
    """FlashLab keeps no copy of k and v or of their gradients for each head of q.

    It adds dK and dV of the heads that share them up in float32, of the shared one alone.
    """
    both = (measured("FlashLab", replace(LAB, num_kv_heads=kv), SHORT) for kv in (32, 1))
    peaks = [record.metrics["peak_memory"].value for record in both]
    tensor = 16 * 1024 * 2048 * 2 / 2**20
    sums = 2 * 2 * tensor / 32
    assert peaks[0] - peaks[1] == pytest.approx(4 * tensor * (1 - 1 / 32) - sums, abs=2)
