"""One implementation along a sweep, by one metric: what findings about a sweep are built from."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import (
    Row,
    Sweep,
    Variant,
    difference_codes,
    sitting_doubts,
    warning_codes,
)
from flashlab.analysis.finding import Evidence, Finding, Reason
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import (
    Heading,
    InBrackets,
    Listed,
    MetricName,
    Statement,
    Tellable,
    settings,
)


@dataclass(frozen=True)
class Series:
    """One implementation in one variant along a sweep, by one metric: a curve of a figure."""

    sweep: Sweep
    implementation: str
    variant: Variant
    metric: Metric

    @property
    def runs(self) -> list[Row]:
        """Its rows of the run table, in order of the sweep."""
        return self.sweep.run_rows(self.implementation, self.variant)

    @property
    def measured_rows(self) -> list[Row]:
        """Its rows of the metric table that hold a value, in order of the sweep."""
        rows = self.sweep.metric_rows(self.implementation, self.variant, self.metric.name)
        return [row for row in rows if row["status"] == "ok"]


def each_series(sweep: Sweep, metrics: Sequence[Metric]) -> Iterator[Series]:
    """Every series of a sweep, by implementation, variant and metric."""
    names = sorted(sweep.implementations)
    for name, variant, metric in itertools.product(names, sweep.variants, metrics):
        yield Series(sweep, name, variant, metric)


def excluded_runs(sweep: Sweep, runs: Iterable[Row]) -> list[Reason]:
    """A reason for each of these runs that has no numbers: which one, and its status."""
    return [
        Reason(
            "excluded",
            {
                "implementation": row["implementation"],
                **dict(sweep.variant_of(row)),
                sweep.parameter.name: sweep.value_of(row),
            },
            row["status"],
        )
        for row in runs
        if row["status"] != "ok"
    ]


def shared_variant(series: Sequence[Series]) -> dict[str, Any]:
    """The values of the variants in which all of these series agree."""
    first, *others = (dict(each.variant) for each in series)
    return {
        name: value
        for name, value in first.items()
        if all(other[name] == value for other in others)
    }


def quoted(series: Sequence[Series], **more: Tellable) -> dict[str, Tellable]:
    """What statements on series of one metric quote of them, the first of which is their subject.

    `where` is the metric's part with the variant, as a statement begins: ``Forward (causal)``.
    """
    first = series[0]
    given = settings(first.sweep.benchmark, shared_variant(series))
    variant, name = InBrackets(given), first.metric.name
    return {
        "implementation": first.implementation,
        "metric": MetricName(name),
        "variant": variant,
        "where": Listed([Heading(MetricName(name, part=True)), variant], ""),
        "symbol": first.sweep.parameter.symbol,
        **more,
    }


def _compared(sweep: Sweep, runs: Sequence[Row], value_by_value: bool) -> list[list[Row]]:
    """The runs that are compared with one another: at each value, or all of them."""
    measured = [run for run in runs if run["status"] == "ok"]
    if not value_by_value:
        return [measured]
    return [[run for run in measured if sweep.value_of(run) == value] for value in sweep.values]


def build_finding(
    kind: str,
    series: Sequence[Series],
    verdict: str,
    *,
    method: str,
    n: int,
    estimates: Sequence[Mapping[str, Any]],
    statements: Sequence[Statement] = (),
    facts: Mapping[str, Any] | None = None,
    reasons: Sequence[Reason] = (),
    subject: Mapping[str, str] | None = None,
    values: Collection[int] | None = None,
    each_alone: bool = False,
    of_all: bool = False,
) -> Finding:
    """A finding about series of one sweep and one metric, the first of which is its subject.

    `subject` names what else it is about; it is about `of_all` of them equally, or about the first.
    The runs without numbers are named before the other `reasons`. Only the runs at `values` of the
    sweep count, where those are given. Runs of several series are compared value by value, those of
    a single one along the sweep, unless `each_alone` says that no run is compared with another.
    """
    sweep, metric = series[0].sweep, series[0].metric
    variant = shared_variant(series)
    in_order = sorted(series, key=lambda each: (each.implementation, each.variant))
    runs = [
        run
        for each in in_order
        for run in each.runs
        if values is None or sweep.value_of(run) in values
    ]
    measured = sweep.benchmark.measured_behind(metric.name)
    rows = {
        "implementation": list(dict.fromkeys(each.implementation for each in series)),
        **variant,
        "metric": measured[0] if len(measured) == 1 else list(measured),
    }
    if values is not None:
        rows[sweep.parameter.name] = list(values)
    doubts = [] if each_alone else sitting_doubts(_compared(sweep, runs, len(series) > 1))
    return Finding(
        kind=kind,
        experiment=sweep.name,
        device=sweep.device,
        subject={
            **({} if of_all else {"implementation": series[0].implementation}),
            **(subject or {}),
            "metric": metric.name,
            "variant": variant,
        },
        verdict=verdict,
        statements=statements,
        facts=facts or {},
        evidence=Evidence(
            table=f"tables/{sweep.name}/{'metrics' if metric.exact else 'samples'}.csv",
            rows=rows,
            method=method,
            n=n,
            estimates=estimates,
        ),
        reasons=[*excluded_runs(sweep, runs), *reasons],
        warnings=difference_codes(runs, *measured)
        if metric.exact
        else sorted([*warning_codes(runs, *measured), *doubts]),
    )
