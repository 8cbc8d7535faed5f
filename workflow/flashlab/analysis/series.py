"""One implementation along a sweep, by one metric: what findings about a sweep are built from."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import (
    PROCESSES_DIFFER,
    Experiment,
    Row,
    Variant,
    comparison_doubts,
    warning_codes,
)
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.ratios import Ratio, without_samples
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import (
    Heading,
    InBrackets,
    Listed,
    MetricName,
    ParameterName,
    Statement,
    Tellable,
    say,
    settings,
)


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
        """What the table has of it, by value of the sweep."""
        return {self.experiment.value_of(row): row["value"] for row in self.measured_rows}


def each_series(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[Series]:
    """Every series of a sweep, by implementation, variant and metric."""
    names = sorted(experiment.implementations)
    for name, variant, metric in itertools.product(names, experiment.variants, metrics):
        yield Series(experiment, name, variant, metric)


def excluded_runs(experiment: Experiment, runs: Iterable[Row]) -> list[Reason]:
    """A reason for each of these runs that has no numbers: which one, and its status."""
    reasons = []
    for row in runs:
        if row["status"] != "ok":
            where = {
                **dict(experiment.variant_of(row)),
                experiment.parameter.name: experiment.value_of(row),
            }
            run = {"implementation": row["implementation"], **where}
            reasons.append(Reason("excluded", run, row["status"]))
    return reasons


def shared_variant(series: Sequence[Series]) -> dict[str, Any]:
    """The values of the variants in which all of these series agree."""
    first, *others = (dict(each.variant) for each in series)
    return {k: v for k, v in first.items() if all(other[k] == v for other in others)}


def quoted(series: Sequence[Series], **more: Tellable) -> dict[str, Tellable]:
    """What statements on series of one metric quote of them, the first of which is their subject.

    `where` is the metric's part with the variant, as a statement begins: ``Forward (causal)``.
    """
    first = series[0]
    given = settings(first.experiment.benchmark, shared_variant(series))
    variant, name = InBrackets(given), first.metric.name
    return {
        "implementation": first.implementation,
        "metric": MetricName(name),
        "variant": variant,
        "where": Listed([Heading(MetricName(name, part=True)), variant], ""),
        "symbol": first.experiment.parameter.symbol,
        **more,
    }


def told_covaried(experiment: Experiment) -> Iterator[Statement]:
    """What else varies along a sweep, where anything does."""
    if experiment.covaried:
        names = Listed([ParameterName(parameter.name) for parameter in experiment.covaried])
        yield say("covaried", symbol=experiment.parameter.symbol, covaried=names)


def build_finding(
    kind: str,
    series: Sequence[Series],
    verdict: str,
    *,
    estimates: Sequence[Mapping[str, Any]] = (),
    ratios: Sequence[Ratio] = (),
    statements: Sequence[Statement] = (),
    facts: Mapping[str, Any] | None = None,
    reasons: Sequence[Reason] = (),
    subject: Mapping[str, str] | None = None,
    values: Collection[int] | None = None,
    each_alone: bool = False,
    of_all: bool = False,
) -> Finding:
    """A finding about series of one sweep and one metric, the first of which is its subject.

    Its evidence are `estimates`, or `ratios`. `subject` names what else it is about; it is about
    `of_all` of them equally, or about the first. The runs without numbers are named before the
    other `reasons`. Only the runs at `values` of the sweep count, where those are given. Runs of
    several series are compared value by value, those of a single one along the sweep, unless
    `each_alone` says that no run is compared with another.
    """
    experiment, metric = series[0].experiment, series[0].metric
    in_order = sorted(series, key=lambda one: (one.implementation, one.variant))
    runs = [run for one in in_order for run in one.runs]
    if values is not None:
        runs = [run for run in runs if experiment.value_of(run) in values]
    measured = experiment.benchmark.measured_behind(metric.name)
    warnings = warning_codes(runs, *measured)
    if metric.exact:
        warnings = [code for code in warnings if code == PROCESSES_DIFFER]
    if not each_alone:
        good = [run for run in runs if run["status"] == "ok"]
        at_value = [
            [run for run in good if experiment.value_of(run) == v] for v in experiment.values
        ]
        compared = at_value if len(series) > 1 else [good]
        warnings = sorted([*warnings, *comparison_doubts(compared, metric.exact)])
    about = {} if of_all else {"implementation": series[0].implementation}
    about |= {**(subject or {}), "metric": metric.name}
    return Finding(
        kind,
        experiment.name,
        {**about, "variant": shared_variant(series)},
        verdict,
        statements,
        facts or {},
        [*estimates, *(ratio.to_json() for ratio in ratios)],
        [*excluded_runs(experiment, runs), *reasons, *without_samples(ratios)],
        warnings,
    )
