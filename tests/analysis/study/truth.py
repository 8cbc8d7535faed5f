"""The truth of a planted sweep of attention, by which its comparisons are judged.

A row of comparisons.csv is judged by the ratio that was planted: whether its verdict is false,
whether it misses a plain difference, and whether its interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import geometric_mean
from typing import Any

from analysis.study.planted import Planted, true_median

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS, PREVIOUS
from flashlab.story.attention.roles import margins

MARGIN = margins(1)
PLAIN = margins(2)
TOTAL = "forward_backward_time"

Judged = tuple[bool, bool | None]
"""True if a row is false; then True if a plain effect is missed, None where none is plain."""

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "above": lambda ratio: ratio > MARGIN,
    "below": lambda ratio: ratio < 1 / MARGIN,
    "equal": lambda ratio: 1 / MARGIN <= ratio <= MARGIN,
    "inconclusive": lambda _: True,
}
"""The test of a verdict by the margin, given the true ratio."""


class Truth:
    """The times of a planted sweep of attention, in milliseconds."""

    def __init__(self, dataset: Planted) -> None:
        self.names, self.sweep = dataset.names, dataset.sweep
        self.masks = sorted({shape.causal for _, shape, _ in dataset.passes})
        self._times: dict[tuple[str, bool, str], dict[int, float]] = {}
        for (name, shape, timed), planted in dataset.passes.items():
            if (name, shape) not in dataset.failed:
                value, time = int(getattr(shape, dataset.sweep)), true_median(planted)
                for metric in (f"{timed}_time", TOTAL):
                    along = self._times.setdefault((name, shape.causal, metric), {})
                    along[value] = along.get(value, 0.0) + time

    def along(self, name: str, causal: bool, metric: str = TOTAL) -> dict[int, float]:
        """A time of an implementation along the sweep, where it has one."""
        return self._times.get((name, causal, metric), {})

    def speeds(
        self, causal: bool, metric: str = TOTAL, one: str = "Flash2", over: str = "Pytorch"
    ) -> dict[int, float]:
        """The true speed of one implementation over another, along the sweep."""
        mine, theirs = (self.along(name, causal, metric) for name in (one, over))
        return {size: theirs[size] / mine[size] for size in sorted(mine.keys() & theirs.keys())}

    def gains(self, name: str, metric: str = TOTAL) -> dict[int, float]:
        """The true speed of an implementation with the mask over without it."""
        off, on = (self.along(name, mask, metric) for mask in (False, True))
        return {size: off[size] / on[size] for size in sorted(off.keys() & on.keys())}

    def ratio(self, row: Mapping[str, Any]) -> float:
        """The planted ratio of a row of comparisons.csv, pooled ones included."""
        causal, metric = row["variant"] == "causal=true", row["metric"]
        if row["compared"] == IMPLEMENTATIONS:
            ratios = self.speeds(causal, metric, row["reference"], row["subject"])
        elif row["compared"] in (PREVIOUS, FIRST):
            times = self.along(row["subject"], causal, metric)
            return times[int(row["value"])] / times[int(row["reference_value"])]
        elif row["compared"] == "causal":
            ratios = {size: 1 / gain for size, gain in self.gains(row["subject"], metric).items()}
        else:
            raise ValueError(f"what is planted says nothing of {row['compared']}")
        if math.isnan(row["value"]):
            return geometric_mean(ratios.values())
        return ratios[int(row["value"])]


def judge_row(row: Mapping[str, Any], ratio: float) -> Judged:
    """A row of comparisons.csv against the planted ratio."""
    is_plain = max(ratio, 1 / ratio) >= PLAIN
    missed = row["verdict"] not in ("above", "below") if is_plain else None
    return not RIGHT[row["verdict"]](ratio), missed
