"""The hardware counters of real runs, by the Nsight Compute that is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flashlab import nsight
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.plan.runs import counting_protocol
from flashlab.records import Record

COUNTING = {"measure": {"timeout_s": 300}, "counters": "yes", "quick": False}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(nsight.version() is None, reason="needs Nsight Compute (ncu) on PATH"),
]


@pytest.fixture
def count(measured: Callable[..., Record]) -> Callable[[str, Shape], dict[str, float]]:
    """The counters of an implementation at a shape."""

    def counters(name: str, shape: Shape) -> dict[str, float]:
        record = measured(name, shape, counting_protocol(ATTENTION, "cuda", COUNTING, Path()))
        assert (record.status, record.message) == ("ok", None)
        assert record.details is not None
        for kernels in record.details["kernels"].values():
            assert not any(nsight.MARKER in kernel["name"] for kernel in kernels)
        return {name: found.value for name, found in record.metrics.items()}

    return counters


def test_naive_scores_move_several_times(count: Callable[[str, Shape], dict[str, float]]) -> None:
    found = count("Pytorch", Shape(16, 1024, 32, 2048, False))
    scores = 2 * 16 * 32 * 1024**2
    assert found["forward_kernels"] >= 3
    assert found["backward_kernels"] > found["forward_kernels"]
    assert 3 * scores < found["forward_dram_bytes"] < 8 * scores
    assert found["forward_matrix_activity"] < 30


def test_a_fused_kernel_moves_little(count: Callable[[str, Shape], dict[str, float]]) -> None:
    shape = Shape(1, 16384, 16, 2048, False)
    found = count("SdpaCudnn", shape)
    least = sum(costs.compulsory_tensors(shape)["forward"])
    assert found["forward_kernels"] <= 2
    assert 0.9 * least < found["forward_dram_bytes"] < 2 * least
    assert found["forward_matrix_activity"] > 50
    assert found["backward_busy_time"] > found["forward_busy_time"]
