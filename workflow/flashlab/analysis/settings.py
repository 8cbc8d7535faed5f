"""The distinct settings of a dataset, each with its runs, whichever experiments ask for them.

Pairs of them differ in one thing alone. What a variant gains (`kinds.variant_gain`) and what a
derived size does (`kinds.derived_size`) are factors of such pairs, judged against the ratio of the
operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, comparison_warnings, run_keys
from flashlab.analysis.finding import Finding
from flashlab.analysis.ratios import (
    Ratio,
    interval_json,
    printed_ratio,
    ratio,
    rounded,
    shared_verdict,
    without_samples,
)
from flashlab.benchmarks.model import Benchmark, Metric, Value
from flashlab.statistics import Estimate
from flashlab.telling.values import (
    Heading,
    InBrackets,
    Listed,
    MetricName,
    Tellable,
    say,
    settings,
    span,
)


@dataclass(frozen=True)
class Setting:
    """All given parameters of a run, and the run of each implementation that has numbers there."""

    key: tuple[Any, ...]
    parameters: Mapping[str, Value]
    runs: Mapping[str, tuple[Experiment, Row]]

    def estimate(self, estimates: Estimates, implementation: str, metric: Metric) -> Estimate:
        """A metric of an implementation, which must have numbers here."""
        return estimates.of_metric(*self.runs[implementation], metric.name)


def distinct_runs(experiments: Iterable[Experiment]) -> list[tuple[Experiment, Row]]:
    """Every run once, with the first experiment that has it, in order of what tells them apart."""
    found: dict[tuple[Any, ...], tuple[Experiment, Row]] = {}
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        for row in experiment.runs:
            found.setdefault(experiment.key_of(row), (experiment, row))
    return [found[key] for key in sorted(found)]


def settings_of(experiments: Sequence[Experiment], without: Collection[str] = ()) -> list[Setting]:
    """The distinct settings at which any implementation has numbers, in order of their values.

    The implementations in `without` are left out.
    """
    runs: dict[tuple[Any, ...], dict[str, tuple[Experiment, Row]]] = {}
    for experiment, row in distinct_runs(experiments):
        keys = [row[name] for name in run_keys(experiment.benchmark) if name != "implementation"]
        if row["status"] == "ok" and row["implementation"] not in without:
            runs.setdefault(tuple(keys), {})[row["implementation"]] = (experiment, row)
    return [
        Setting(key, given_parameters(*next(iter(mine.values()))), mine)
        for key, mine in sorted(runs.items())
    ]


def given_parameters(experiment: Experiment, row: Row) -> dict[str, Value]:
    """The parameters that a run states."""
    return {p.name: row[p.name] for p in experiment.benchmark.given}


def in_short(benchmark: Benchmark, setting: Setting, among: Sequence[Setting]) -> dict[str, Value]:
    """The sizes and variants of a setting that vary among several, derived ones too."""
    others = [benchmark.all_parameters(other.parameters) for other in among]
    sizes = benchmark.all_parameters(setting.parameters).items()
    return {name: v for name, v in sizes if any(other[name] != v for other in others)}


def at_settings(
    benchmark: Benchmark, places: Sequence[Setting], ratios: Iterable[Ratio]
) -> list[dict[str, Any]]:
    """Ratios as evidence, each with all parameters of its setting; its value is their place."""
    return [
        {
            "setting": benchmark.all_parameters(places[ratio.value].parameters),
            **interval_json(ratio),
            "verdict": ratio.verdict,
        }
        for ratio in ratios
    ]


# Pairs that differ in one thing alone, across experiments: one factor for each


def timed_metrics(benchmark: Benchmark) -> list[Metric]:
    """The measured times whose operations are known."""
    return [m for m in benchmark.measured if m.work and not m.higher_is_better]


def operations(metric: Metric, parameters: Mapping[str, Any]) -> float:
    """The operations of a metric that has work, for a run with these parameters."""
    assert metric.work is not None
    return metric.work.operations(parameters)


Pair = tuple[Setting, Setting]


def pairs_of(given: Sequence[Setting], names: Sequence[str]) -> Iterator[Pair]:
    """Pairs of settings that differ in nothing but these parameters."""
    grouped: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in given:
        alike = [v for k, v in setting.parameters.items() if k not in names]
        grouped.setdefault((*alike, *setting.key[len(setting.parameters) :]), []).append(setting)
    for group in grouped.values():
        yield from itertools.combinations(group, 2)


def implementations_of(experiments: Sequence[Experiment]) -> list[str]:
    """Every implementation of several experiments, by name."""
    return sorted({name for experiment in experiments for name in experiment.implementations})


def pair_finding(
    kind: str,
    benchmark: Benchmark,
    estimates: Estimates,
    pairs: Sequence[Pair],
    *,
    verdicts: Mapping[str, str],
    messages: Mapping[str, str],
    metric: Metric,
    ideal: float = 1.0,
    subject: Mapping[str, Any],
    named: Mapping[str, Tellable],
) -> Finding:
    """A finding on pairs of settings: by what factor the first one's metric is the second one's.

    The factors are judged as shares of the `ideal` one. What they amount to, in words for it
    (`verdicts`), is told by its message, where there is one, which may quote what is `named`.
    """
    name = subject["implementation"]
    medians = ([one.estimate(estimates, name, metric) for one in pair] for pair in pairs)
    factors = [ratio(at, first, second, ideal) for at, (first, second) in enumerate(medians)]
    verdict = shared_verdict(factors, verdicts)
    lowest, highest = (choose(factors, key=lambda factor: factor.ratio) for choose in (min, max))
    firsts = [pair[0] for pair in pairs]

    def where(factor: Ratio) -> Listed:
        return Listed(settings(benchmark, in_short(benchmark, firsts[factor.value], firsts)))

    values: dict[str, Tellable] = {
        "implementation": name,
        "metric": MetricName(metric.name),
        "where": Heading(MetricName(metric.name, part=True)),
        "variant": InBrackets([]),
        "count": len(factors),
        "low": printed_ratio(lowest),
        "high": printed_ratio(highest),
        "low_where": where(lowest),
        "high_where": where(highest),
        "factors": span(printed_ratio(lowest), printed_ratio(highest)),
        **named,
    }
    key = messages.get(verdict)
    compared = [[one.runs[name][1] for one in pair] for pair in pairs]
    return Finding(
        kind,
        None,
        {**subject, "metric": metric.name},
        verdict,
        [say(key, metric.quantity.name, **values)] if key else [],
        {"count": len(factors)} | ({"ideal": rounded(ideal)} if ideal != 1 else {}),
        at_settings(benchmark, firsts, factors),
        without_samples(factors),
        comparison_warnings(benchmark, metric.name, compared),
    )
