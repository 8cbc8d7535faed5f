"""The estimate of each run by itself, as one plain table: estimates.csv.

The intervals rest on the spread between processes that the runs of an implementation share over the
whole dataset, as verdicts do; those of an experiment's metrics.csv on the run's own calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    Experiment,
    Row,
    SampleKey,
    chosen_metrics,
    run_keys,
    with_warnings,
)
from flashlab.analysis.tables import write_csv
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.files import canonical
from flashlab.statistics import Floats, function_interval

COLUMNS = ("metric", "low", "high", "least", "most", "warnings")
"""Beside what distinguishes a run: the 95% interval of the metric, in its unit; the least and the
greatest of its processes; and the warnings that only the samples give (`analysis.doubts`)."""

Warnings = Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]]
"""The warnings on runs, by what distinguishes a run."""


def _estimated(benchmark: Benchmark) -> dict[str, Metric]:
    """The sampled metrics and their totals, by name."""
    shown = [metric for metric in benchmark.measured if not metric.exact]
    return {metric.name: metric for metric in (*chosen_metrics(benchmark), *shown)}


def _itself(value: Floats) -> Floats:
    return value


def estimate_rows(
    experiments: Sequence[Experiment], estimates: Estimates, warnings: Warnings
) -> Iterator[dict[str, Any]]:
    """A row for each metric of each run that is ok, once a dataset, by experiment, run and metric.

    Each has what distinguishes a run and the cells of `COLUMNS`.
    """
    seen: set[SampleKey] = set()
    for experiment in experiments:
        named = _estimated(experiment.benchmark)
        rows = {(experiment.key_of(row), row["metric"]): row for row in experiment.metrics}
        for (key, name), row in sorted(rows.items(), key=lambda item: item[0]):
            if row["status"] != "ok" or name not in named or (*key, name) in seen:
                continue
            seen.add((*key, name))
            metric = named[name]
            estimate = estimates.of_metric(experiment, row, metric.name)
            low, high = function_interval(_itself, [estimate]) or (None, None)
            medians = estimates.medians_of(experiment, row, metric)
            of_metric = [w for w in warnings.get(key, ()) if w["metric"] == metric.name]
            yield {
                **dict(zip(run_keys(experiment.benchmark), key, strict=True)),
                **{"metric": metric.name, "low": low, "high": high},
                **{"least": min(medians, default=None), "most": max(medians, default=None)},
                "warnings": of_metric or None,
            }


class RunEstimates:
    """The table of estimates, to look runs up in.

    Args:
        rows: as `estimate_rows` gives them.
    """

    def __init__(self, rows: Sequence[Row], benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        keys = run_keys(benchmark)
        self._rows = {(*(row[name] for name in keys), row["metric"]): row for row in rows}

    @cached_property
    def warnings(self) -> Warnings:
        """The warnings derived from samples, by the run's key (`Experiment.key_of`)."""
        found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for (*key, _), row in self._rows.items():
            if row["warnings"]:
                found.setdefault(tuple(key), []).extend(row["warnings"])
        return found

    def warned(self, experiment: Experiment) -> list[Row]:
        """The runs of an experiment, with these warnings beside those of their records."""
        return with_warnings(self._benchmark, experiment.runs, self.warnings)


def write_run_estimates(path: Path, rows: Sequence[Row], benchmark: Benchmark) -> None:
    """Write the table."""
    written = [
        {**row, "warnings": canonical(row["warnings"]) if row["warnings"] else None} for row in rows
    ]
    write_csv(path, (*run_keys(benchmark), *COLUMNS), written)
