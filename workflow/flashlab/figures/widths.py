"""How wide a figure is: what the report asks too, which draws none."""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import Metric

FEW = 2
"""Most lines of a panel whose values are printed at the points, and their ratio below the axis."""


def is_wide(experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]) -> bool:
    """Whether a figure has a panel a metric side by side, and so the width of a page."""
    few = len(names) * len(experiment.variants) <= FEW
    return few and len(metrics) > 1 and not experiment.is_of_problems
