"""The table of page one: each implementation's mean speed by class of sizes and pass."""

from __future__ import annotations

from flashlab import numbers
from flashlab.benchmarks.model import Metric
from flashlab.story.compare.table import Compared, as_speeds, counts
from flashlab.story.tables import EQUAL, FASTER, SLOWER, UNDECIDED

MOST_COLUMNS = 6
"""Columns that fit the page; of a benchmark with more times the total is shown."""

MARKS = {FASTER: "+", SLOWER: "−", EQUAL: "=", UNDECIDED: "?"}


def shown_times(compared: Compared) -> list[Metric]:
    """The times that each class of sizes has a column of."""
    columns = len(compared.times) * len(compared.classes(compared.speeds))
    return [compared.total] if columns > MOST_COLUMNS else compared.times


def mean_cell(compared: Compared, name: str, sizes: str, metric: str) -> tuple[str, str] | None:
    """The mean speed with its range, and how many settings have which verdict; None of none."""
    every = compared.table
    rows = every[(every.implementation == name) & (every.metric == metric) & (every.sizes == sizes)]
    single, pooled = (as_speeds(rows[rows["shape"].isna() == is_pooled]) for is_pooled in (0, 1))
    if single.empty or pooled.empty:
        return None
    ends = numbers.span([float(single.x.min()), float(single.x.max())])
    found = (f"{count}{MARKS[word]}" for word, count in counts(single).items() if count)
    return f"{numbers.ratio(float(pooled.x.iloc[0]))} ({ends})", " ".join(found)
