"""The kernel ladder as declared: its cases, its metrics with their costs, and its counters.

An implementation is a step of the ladder. B batch_size, N seq_len, d head_dim throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashlab.benchmarks.counters import counters_of
from flashlab.benchmarks.ladder.cases import CASES, PARTS, Sizes, case_of
from flashlab.benchmarks.model import Benchmark, Derived, Metric, Parameter, Quantity, texts

# Parameters

BATCH_SIZE = Parameter("batch_size", "B", texts("批次大小", "batch size"))
SEQ_LEN = Parameter("seq_len", "N", texts("序列長度", "sequence length"))
HEAD_DIM = Parameter("head_dim", "d", texts("單頭維度", "head dimension"))
CASE = Parameter(
    "case",
    "t",
    texts("測資", "test case"),
    derive=lambda run: case_of(*(int(run[name]) for name in Sizes._fields)),
    stands_for=lambda case: CASES[case]._asdict() if case in CASES else None,
    nominal=True,
)

# Quantities


def flops(parameters: Mapping[str, Any]) -> float:
    """4·B·N²·d: the products q·kᵀ and p·v, a multiplication and an addition each."""
    batch_size, seq_len, head_dim = (float(parameters[name]) for name in Sizes._fields)
    return 4 * batch_size * seq_len**2 * head_dim


TIME = Quantity("time", "ms", "lower")
HOST_TIME = Quantity("host_time", "ms", "lower")
RATE = Quantity("rate", "TFLOP/s", "higher", unit_on={"cpu": ("MFLOP/s", 1e6)})
PART = Quantity("part", "ms", "lower")


def _part(name: str, *words: str) -> Metric:
    """A time that is never compared, and shown in columns that have words of their own."""
    labels = texts(*words) if words else {}
    return Metric(name, PART, labels, optional=True, only_shown=True)


COUNTED = {
    **{"kernels": "1", "busy_time": "ms", "dram_bytes": "B"},
    **{"global_load_bytes": "B", "global_store_bytes": "B"},
    **{"shared_load_bytes": "B", "shared_store_bytes": "B", "bank_conflicts": "1"},
    **{"instructions": "1", "warp_efficiency": "%", "occupancy": "%", "sm_efficiency": "%"},
    **{"fp32_activity": "%", "matrix_activity": "%"},
}
"""The counters in the homework's published profile, read by Nsight Compute (`flashlab.nsight`), and
their units."""

LADDER = Benchmark(
    name="ladder",
    report="ladder",
    parameters=(BATCH_SIZE, SEQ_LEN, HEAD_DIM, CASE),
    metrics=(
        Metric(
            "host_time",
            HOST_TIME,
            texts("kernel 與複製的時間", "time of the kernel with its copies"),
        ),
        Metric("kernel_time", TIME, texts("kernel 時間", "kernel time")),
        Metric(
            *("rate", RATE, texts("運算速率", "rate")),
            derived=Derived(("kernel_time",), lambda run, ms: flops(run) / 1e9 / ms),
        ),
        *map(_part, ("copy_in_time", "copy_out_time")),
        _part("process_time", "整個行程的時間", "time of the whole process"),
        *(_part(f"process_{name}") for name in PARTS),
    ),
    measure="flashlab.benchmarks.ladder.measure",
    kernels="ladder",
    entry_point="attention(q, k, v, out, stream=None)",
    counters=counters_of({"kernel_time": "kernel"}, {"cuda": COUNTED}),
    whole="process_time",
    gated={"out": texts("輸出", "output")},
    variables={"cpu": {"NUMBA_ENABLE_CUDASIM": "1"}},
    simulated=frozenset({"cpu"}),
)
