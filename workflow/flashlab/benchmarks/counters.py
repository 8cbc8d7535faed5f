"""The counters of a pass that a benchmark declares, by kind of device.

On a GPU its hardware counters, on a CPU the operators that PyTorch's profiler saw. They are samples
of one pass each, measured apart from the times, and so have no interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from flashlab.benchmarks.model import Counters, Metric, Quantity, Texts


def counted(
    name: str, unit: str, better: Literal["lower", "higher"], zh_tw: str, en: str
) -> Quantity:
    """A counter of a pass, with the words for it within a sentence."""
    return Quantity(name, unit, better, {"zh_TW": zh_tw, "en": en})


KERNEL_QUANTITIES = (
    counted("kernels", "1", "lower", "啟動的 kernel 數", "kernels launched"),
    counted("busy_time", "ms", "lower", "kernel 執行時間", "time in kernels"),
    counted("dram_bytes", "B", "lower", "DRAM 傳輸量", "DRAM traffic"),
    counted("matrix_activity", "%", "higher", "Tensor Core 使用率", "Tensor Core activity"),
    counted("occupancy", "%", "higher", "實際占用率", "achieved occupancy"),
    counted("compute_share", "%", "higher", "運算吞吐量占峰值", "share of peak compute"),
    counted("memory_share", "%", "higher", "記憶體吞吐量占峰值", "share of peak memory"),
)
"""Of the kernels of a pass on a GPU; times and bytes are sums over them, shares their mean weighted
by time."""

OPERATOR_QUANTITIES = (
    counted("operators", "1", "lower", "執行的運算子數", "operators run"),
    counted("operator_time", "ms", "lower", "運算子執行時間", "time in operators"),
    counted("allocated_bytes", "B", "lower", "配置的記憶體", "memory allocated"),
    counted("product_share", "%", "higher", "矩陣乘法占時", "share of matrix products"),
    counted("softmax_share", "%", "lower", "softmax 占時", "share of softmax"),
    counted("fused_share", "%", "higher", "融合運算子占時", "share of fused attention"),
    counted(
        "elementwise_share", "%", "lower", "逐元素運算與複製占時", "share of element-wise operators"
    ),
)
"""Of the operators of a pass on a CPU; shares are of the time in operators, and add up to 100."""

QUANTITIES = {"cuda": KERNEL_QUANTITIES, "cpu": OPERATOR_QUANTITIES}


def _counter(pass_name: str, labels: Texts, quantity: Quantity) -> Metric:
    separators = {"zh_TW": "", "en": " "}
    return Metric(
        f"{pass_name}_{quantity.name}",
        quantity,
        {
            language: f"{labels[language]}{separators[language]}{text}".strip()
            for language, text in quantity.labels.items()
        },
    )


def counters_of(
    passes: Mapping[str, tuple[str, Texts]],
    quantities: Mapping[str, tuple[Quantity, ...]] = QUANTITIES,
) -> Mapping[str, Counters]:
    """The counters of a benchmark's passes on each kind of device.

    `passes` has a pass's name, such as ``forward``, and its labels, by the timed metric's name;
    `quantities` are what is counted of each, by kind of device.
    """
    return {
        device: {
            timed: tuple(_counter(*named, quantity) for quantity in on_device)
            for timed, named in passes.items()
        }
        for device, on_device in quantities.items()
    }
