"""A dataset's comparisons as a tidy frame, a gain a row, for figures and report.

A gain is how many times as good one implementation is as another: the sign of a ratio is turned
once, here.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS, OPPOSITE
from flashlab.benchmarks.model import Benchmark

KEY = ["experiment", "variant", "metric", "subject", "reference", "value"]
"""The index of gains; a variant as in comparisons.csv, a value of the sweep."""

Key = tuple[str, str, str, str, str, int]


class Gain(NamedTuple):
    """How many times as good the subject is, with its 95% interval: above 1 where it is better."""

    x: float
    low: float | None
    high: float | None
    verdict: str

    @property
    def is_decided(self) -> bool:
        """True if it is shown to be better, or worse, by more than the margin."""
        return self.verdict in ("above", "below")


def gains(table: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """The gains of each of two implementations over the other at single values of a sweep.

    Args:
        table: the comparisons of a dataset (`comparisons.read_comparisons`).
        benchmark: whose metrics they are by.

    Returns:
        The fields of `Gain`, by `KEY`; ``low`` and ``high`` are missing without an interval.
    """
    rows = table[(table.compared == IMPLEMENTATIONS) & table.value.notna()]
    better = {metric.name: metric.higher_is_better for metric in benchmark.metrics}
    is_kept = rows.metric.map(better).astype(bool)
    kept = pd.DataFrame({"x": rows.ratio, "low": rows.low, "high": rows.high}).astype(float)
    turned = pd.DataFrame({"x": 1 / kept.x, "low": 1 / kept.high, "high": 1 / kept.low})
    opposite = rows.verdict.replace(OPPOSITE)
    sides = []
    for keep, names in ((is_kept, KEY), (~is_kept, [*KEY[:3], KEY[4], KEY[3], KEY[5]])):
        side = kept.where(keep, turned).assign(verdict=rows.verdict.where(keep, opposite))
        index = dict(zip(KEY, (rows[name] for name in names), strict=True))
        sides.append(side.assign(**index).astype({"value": int}))
    return pd.concat(sides).set_index(KEY)


def by_key(frame: pd.DataFrame) -> dict[Key, Gain]:
    """Gains to look single ones up."""
    known = frame.astype(object).where(frame.notna(), None)
    return {row[0]: Gain(*row[1:]) for row in known.itertuples(name=None)}
