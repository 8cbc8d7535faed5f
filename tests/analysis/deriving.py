"""Comparisons and ratios derived from planted experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Runs, Warnings
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.statistics import Estimate

Plant = Callable[..., Any]
"""Writes what is planted as records and tables, and reads it as an experiment."""


def rows_of(
    *experiments: Runs,
    compared: str = IMPLEMENTATIONS,
    metric: str = "forward_time",
    pooled: bool = False,
    warnings: Warnings | None = None,
) -> list[dict[str, Any]]:
    """The comparisons of planted experiments, at single settings or `pooled`."""
    table: pd.DataFrame = comparisons(experiments, Estimates(experiments), warnings)
    table = table[(table.compared == compared) & (table.metric == metric)]
    return [dict(row) for row in table[table.value.isna() == pooled].to_dict("records")]


def at_first(experiment: Runs, estimates: Estimates) -> dict[str, Estimate]:
    """The forward time of each implementation at N = 128."""
    of = estimates.of(experiment.benchmark.metric("forward_time"))
    return {
        each.run.implementation: of[each.key]
        for each in experiment.runs
        if each.run["seq_len"] == 128
    }


def of_both(experiment: Runs, estimates: Estimates) -> Ratio:
    """Flash2 over Pytorch there."""
    of = at_first(experiment, estimates)
    return ratio(128, of["Flash2"], of["Pytorch"])
