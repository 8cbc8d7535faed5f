"""What a GPU's hardware counters give of one pass: the metrics that a benchmark declares of it.

They are samples of one pass each, measured apart from the times, and so have no interval.
"""

from __future__ import annotations

from typing import Literal

from flashlab.benchmarks.model import Metric, Quantity, Texts


def _quantity(
    name: str, unit: str, better: Literal["lower", "higher"], zh_tw: str, en: str
) -> Quantity:
    return Quantity(name, unit, better, exact=False, labels={"zh_TW": zh_tw, "en": en})


QUANTITIES = (
    _quantity("kernels", "1", "lower", "啟動的 kernel 數", "kernels launched"),
    _quantity("busy_time", "ms", "lower", "kernel 執行時間", "time in kernels"),
    _quantity("dram_bytes", "B", "lower", "DRAM 傳輸量", "DRAM traffic"),
    _quantity("matrix_activity", "%", "higher", "矩陣單元使用率", "matrix-unit activity"),
    _quantity("occupancy", "%", "higher", "實際占用率", "achieved occupancy"),
    _quantity("compute_share", "%", "higher", "運算吞吐量占峰值", "share of peak compute"),
    _quantity("memory_share", "%", "higher", "記憶體吞吐量占峰值", "share of peak memory"),
)
"""What is counted of each pass; times and bytes are sums over its kernels, shares their mean
weighted by time."""


def counters_of(name: str, labels: Texts) -> tuple[Metric, ...]:
    """The counters of the pass called `name`, such as ``forward_dram_bytes``."""
    separators = {"zh_TW": "", "en": " "}
    return tuple(
        Metric(
            f"{name}_{quantity.name}",
            quantity,
            {
                language: f"{labels[language]}{separators[language]}{text}"
                for language, text in quantity.labels.items()
            },
        )
        for quantity in QUANTITIES
    )
