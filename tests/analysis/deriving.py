"""Comparisons and ratios derived from planted experiments."""

from __future__ import annotations

from typing import Any

from flashlab.analysis.comparison_rows import IMPLEMENTATIONS
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.doubts import doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Runs
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.statistics import Estimate


def rows_of(
    *experiments: Runs,
    compared: str = IMPLEMENTATIONS,
    metric: str = "forward_time",
    pooled: bool = False,
) -> list[dict[str, Any]]:
    """The comparisons of planted experiments, at single settings or `pooled`."""
    estimates = Estimates(experiments)
    table = comparisons(experiments, estimates, doubts(experiments, estimates))
    table = table[(table.compared == compared) & (table.metric == metric)]
    return [dict(row) for row in table[table.value.isna() == pooled].to_dict("records")]


def at_first(experiment: Runs, estimates: Estimates) -> dict[str, Estimate]:
    """The forward time of each implementation at N = 128."""
    of = estimates.of(experiment.benchmark.metric("forward_time"))
    runs = [each for each in experiment.runs if each.run["seq_len"] == 128]
    return {each.run.implementation: of[each.key] for each in runs}


def of_both(experiment: Runs, estimates: Estimates) -> Ratio:
    """Flash2 over Pytorch there."""
    of = at_first(experiment, estimates)
    return ratio(128, of["Flash2"], of["Pytorch"])
