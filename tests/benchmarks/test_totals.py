"""Which derived metrics are taken for sums, by which implementations are ranked."""

from __future__ import annotations

from dataclasses import replace

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Derived, Metric, Quantity

RATIO = Quantity("balance", "1", "lower", {"zh_TW": "比值", "en": "Ratio"})


def test_the_sum_of_both_passes_is_a_total_and_their_ratio_is_none() -> None:
    ratio = Metric(
        "balance",
        RATIO,
        {"zh_TW": "反向／前向", "en": "backward over forward"},
        derived=Derived(
            ("forward_time", "backward_time"), lambda _, forward, backward: backward / forward
        ),
    )
    both = replace(ATTENTION, metrics=(*ATTENTION.metrics, ratio))
    assert [metric.name for metric in both.totals] == ["forward_backward_time"]
