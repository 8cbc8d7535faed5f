"""The kernel ladder as declared: its cases, its metrics, and its counters.

An implementation is a step of the ladder. B batch_size, N seq_len, d head_dim throughout.
"""

from __future__ import annotations

from typing import Any

from flashlab.benchmarks.counters import counted, counters_of
from flashlab.benchmarks.ladder.cases import CASES, Sizes, case_of
from flashlab.benchmarks.ladder.costs import flops
from flashlab.benchmarks.model import (
    Benchmark,
    Derived,
    Metric,
    Parameter,
    Parameters,
    Quantity,
    texts,
)

# Parameters

BATCH_SIZE = Parameter("batch_size", "B", texts("批次大小", "batch size"))
SEQ_LEN = Parameter("seq_len", "N", texts("序列長度", "sequence length"))
HEAD_DIM = Parameter("head_dim", "d", texts("單頭維度", "head dimension"))


CASE = Parameter(
    "case",
    "t",
    texts("測資", "test case"),
    derived_from=Sizes._fields,
    derive=lambda run: case_of(*(int(run[name]) for name in Sizes._fields)),
    stands_for=lambda case: CASES[case]._asdict() if case in CASES else None,
    nominal=True,
)

# Quantities

TIME = Quantity("time", "ms", "lower", texts("kernel 時間", "Kernel time"))
HOST_TIME = Quantity(
    "host_time", "ms", "lower", texts("kernel 與複製的時間", "Time of the kernel with its copies")
)
RATE = Quantity("rate", "TFLOP/s", "higher", texts("運算速率", "Rate"))
PART = Quantity("part", "ms", "lower", texts("時間", "Time"))


def _rate(parameters: Parameters, milliseconds: Any) -> Any:
    return flops(parameters) / 1e9 / milliseconds


PARTS = {
    "start": ("啟動", "start"),
    "compilation": ("編譯", "compilation"),
    "buffers": ("配置主機記憶體", "host buffers"),
    "file_in": ("讀檔", "reading the file"),
    "copy_in": ("複製輸入", "copies in"),
    "kernel": ("kernel", "kernel"),
    "copy_out": ("複製輸出", "copies out"),
    "overlapped": ("重疊的 kernel 與複製", "kernel and copies, overlapped"),
    "file_out": ("寫檔", "writing the file"),
}
"""The parts of the whole process in order, as the program itself times them."""


def _part(name: str, zh_tw: str, en: str) -> Metric:
    """A time that is only shown, never compared; not every run has it."""
    return Metric(name, PART, {"zh_TW": zh_tw, "en": en}, optional=True, only_shown=True)


COUNTED = (
    counted("kernels", "1", "lower", "啟動的 kernel 數", "kernels launched"),
    counted("busy_time", "ms", "lower", "kernel 執行時間", "time in kernels"),
    counted("dram_bytes", "B", "lower", "DRAM 存取量", "DRAM traffic"),
    counted("global_load_bytes", "B", "lower", "全域記憶體讀取量", "global-memory loads"),
    counted("global_store_bytes", "B", "lower", "全域記憶體寫入量", "global-memory stores"),
    counted("shared_load_bytes", "B", "lower", "共享記憶體讀取量", "shared-memory loads"),
    counted("shared_store_bytes", "B", "lower", "共享記憶體寫入量", "shared-memory stores"),
    counted("bank_conflicts", "1", "lower", "bank conflict 數", "bank conflicts"),
    counted("instructions", "1", "lower", "執行的指令數", "instructions executed"),
    counted("warp_efficiency", "%", "higher", "warp 執行效率", "warp execution efficiency"),
    counted("occupancy", "%", "higher", "實際占用率", "achieved occupancy"),
    counted("sm_efficiency", "%", "higher", "SM 使用率", "SM efficiency"),
    counted("fp32_activity", "%", "higher", "FP32 管線使用率", "FP32 pipe activity"),
    counted("matrix_activity", "%", "higher", "Tensor Core 使用率", "Tensor Core activity"),
)
"""The counters in the homework's published profile, read by Nsight Compute (`flashlab.nsight`)."""

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
        Metric("rate", RATE, texts("運算速率", "rate"), derived=Derived(("kernel_time",), _rate)),
        _part("copy_in_time", "複製輸入的時間", "time of copying in"),
        _part("copy_out_time", "複製輸出的時間", "time of copying out"),
        _part("process_time", "整個程式的時間", "time of the whole process"),
        *(_part(f"process_{name}", *labels) for name, labels in PARTS.items()),
    ),
    measure="flashlab.benchmarks.ladder.measure",
    kernels="ladder",
    entry_point="attention(q, k, v, out, stream=None)",
    counters=counters_of({"kernel_time": ("kernel", texts("", ""))}, {"cuda": COUNTED}),
    whole="process_time",
    gated={"out": texts("輸出", "output")},
    variables={"cpu": {"NUMBA_ENABLE_CUDASIM": "1"}},
    simulated=frozenset({"cpu"}),
)
