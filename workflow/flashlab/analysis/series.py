"""One implementation along a sweep, by one metric: a curve of a figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flashlab.analysis.experiment import Experiment, Row, Variant
from flashlab.benchmarks.model import Metric


@dataclass(frozen=True)
class Series:
    """One implementation in one variant along a sweep, by one metric: a curve of a figure."""

    experiment: Experiment
    implementation: str
    variant: Variant
    metric: Metric

    @property
    def runs(self) -> list[Row]:
        """Its rows of the run table, in order of the sweep."""
        return self.experiment.run_rows(self.implementation, self.variant)

    @property
    def measured_rows(self) -> list[Row]:
        """Its rows of the metric table that hold a value, in order of the sweep."""
        rows = self.experiment.metric_rows(self.implementation, self.variant, self.metric.name)
        return [row for row in rows if row["status"] == "ok"]

    @property
    def medians(self) -> dict[int, float]:
        """Its medians in the metric's unit, by value of the sweep."""
        return {self.experiment.value_of(row): row["value"] for row in self.measured_rows}


def each_series(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[Series]:
    """Every series of a sweep, by implementation, variant and metric."""
    names = sorted(experiment.implementations)
    for name, variant, metric in itertools.product(names, experiment.variants, metrics):
        yield Series(experiment, name, variant, metric)
