"""The hardware counters of real runs, by the Nsight Compute that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashlab import machine, nsight
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.supervise import measure_run
from flashlab.plan.runs import counting_protocol
from flashlab.records import Record

NCU = nsight.version()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        NCU is None or not machine.gpus() or not machine.torch_has_cuda(),
        reason="needs a GPU, torch for CUDA and Nsight Compute (ncu) on PATH",
    ),
]


def count(implementation: str, shape: Shape, folder: Path) -> dict[str, float]:
    run = attention_run(implementation, shape, "float16", "cuda")
    kernel = find_implementations()[implementation]
    config = {"measure": {"timeout_s": 300}, "counters": "yes", "quick": False}
    protocol = counting_protocol(ATTENTION, "cuda", config, Path())
    assert protocol
    record: Record = measure_run(ATTENTION, run, protocol, kernel, {}, folder / "counters.json")
    assert (record.status, record.message) == ("ok", None)
    assert record.details is not None
    for kernels in record.details["kernels"].values():
        assert not any(nsight.MARKER in kernel["name"] for kernel in kernels)
    return {name: measured.value for name, measured in record.metrics.items()}


def test_the_naive_implementation_moves_its_scores_several_times(tmp_path: Path) -> None:
    shape = Shape(16, 1024, 32, 2048, False)
    found = count("Pytorch", shape, tmp_path)
    scores = 2 * 16 * 32 * 1024**2
    assert found["forward_kernels"] >= 3
    assert found["backward_kernels"] > found["forward_kernels"]
    assert 3 * scores < found["forward_dram_bytes"] < 8 * scores
    assert found["forward_matrix_activity"] < 30


def test_a_fused_kernel_moves_hardly_more_than_it_must(tmp_path: Path) -> None:
    shape = Shape(1, 16384, 16, 2048, False)
    found = count("SdpaCudnn", shape, tmp_path)
    least = sum(costs.compulsory_tensors(shape, "float16")["forward"])
    assert found["forward_kernels"] <= 2
    assert 0.9 * least < found["forward_dram_bytes"] < 2 * least
    assert found["forward_matrix_activity"] > 50
    assert found["backward_busy_time"] > found["forward_busy_time"]
