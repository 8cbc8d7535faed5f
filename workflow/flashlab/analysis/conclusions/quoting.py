"""What conclusions are put together from: findings looked up, and statements quoted from them.

A conclusion quotes other findings and the tables; it decides nothing that they do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.experiment import Experiment, Row, Variant, chosen_metrics, metrics_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.ratios import Ratio, exceeds_margin, rounded
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    MetricName,
    Range,
    Statement,
    Tellable,
    Within,
    heading,
    percent,
    say,
    settings,
)

VERDICTS = (
    *("no_numbers", "alone", "better", "worse", "equivalent", "mixed", "inconclusive", "missing"),
    *("gains", "loses", "level", "best", "near", "changes", "varies"),
    *("map", "naive", "limit", "avoid"),
    *("whole", "climb", "steps", "top", "start", "simulated", "alternatives"),
)
"""What a conclusion may come to."""


@dataclass(frozen=True)
class Told:
    """A statement of a conclusion, and the findings behind it."""

    statement: Statement
    sources: Sequence[Finding] = ()

    @property
    def key(self) -> str:
        """The key of its message."""
        return self.statement.key


def tell(key: str, *about: str, sources: Sequence[Finding] = (), **values: Tellable) -> Told:
    """A statement about `about` that quotes `values` from `sources`."""
    return Told(Statement(key, values, about), sources)


@dataclass(frozen=True)
class Known:
    """The findings that conclusions quote, and the experiments that they are about."""

    findings: Sequence[Finding]
    experiments: Sequence[Experiment]
    ceilings: Ceilings | None = None

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the dataset."""
        return self.experiments[0].benchmark

    @property
    def decisive(self) -> Metric | None:
        """The metric that one chooses by: a total where there is one; None if none is sampled."""
        metrics = chosen_metrics(self.benchmark)
        return metrics[-1] if metrics else None

    @property
    def about(self) -> tuple[str, ...]:
        """What statements on the decisive metric are about: its quantity."""
        return (self.decisive.quantity.name,) if self.decisive else ()

    @property
    def parts(self) -> list[Metric]:
        """The measured metrics that the decisive one is the total of; empty if it is none."""
        decisive = self.decisive
        if decisive is None or decisive.derived is None:
            return []
        return [self.benchmark.metric(name) for name in decisive.derived.of]

    @property
    def sections(self) -> list[Experiment]:
        """The experiments, without the headline."""
        return [experiment for experiment in self.experiments if not experiment.is_summary]

    def every(self, kind: str, experiment: str | None, **subject: Any) -> list[Finding]:
        """The findings of a kind about a subject, in an experiment or on the whole dataset."""
        return [
            finding
            for finding in self.findings
            if finding.kind == kind
            and finding.experiment == experiment
            and finding.is_about(**subject)
        ]

    def across(
        self, experiments: Iterable[Experiment], kind: str, *verdicts: str, **subject: Any
    ) -> list[Finding]:
        """The findings of a kind about a subject in several experiments, by these verdicts."""
        found = (
            f for experiment in experiments for f in self.every(kind, experiment.name, **subject)
        )
        return [finding for finding in found if not verdicts or finding.verdict in verdicts]

    def experiment_of(self, finding: Finding) -> Experiment:
        """The experiment that a finding is about."""
        return next(
            experiment for experiment in self.experiments if experiment.name == finding.experiment
        )

    def find(self, kind: str, experiment: str | None, **subject: Any) -> Finding | None:
        """The first of them, None for none."""
        return next(iter(self.every(kind, experiment, **subject)), None)


def build_conclusion(
    topic: str,
    verdict: str,
    told: Iterable[Told],
    *,
    experiment: str | None = None,
    facts: Mapping[str, Any] | None = None,
    reasons: Sequence[Reason] = (),
    **subject: Any,
) -> Finding:
    """The conclusion that tells these statements, the first of which is its heading."""
    every = list(told)
    sources = [finding for each in every for finding in each.sources]
    return Finding(
        "conclusion",
        experiment,
        {"topic": topic, **subject},
        verdict,
        [each.statement for each in every],
        facts or {},
        [{"kind": f.kind, "experiment": f.experiment, "subject": f.subject} for f in sources],
        reasons,
        sorted({code for finding in sources for code in finding.warnings}),
        told=True,
    )


def part_name(metric: Metric) -> Within:
    """A metric by what sets it apart, within a sentence: ``backward``."""
    return Within(MetricName(metric.name, part=True))


def in_units(value: float) -> Measured:
    """An exact value as it is printed: whole from 100 on, else three significant digits."""
    return Measured(float(round(value)) if value >= 100 else rounded(value))


def ratio_of(value: int, place: Mapping[str, Any], name: str) -> Ratio:
    """How many times as good as the only other one an implementation is, from a choice of two.

    `place` is what the choice gives at `value`: who is the best there, and its lead.
    """
    estimate, low, high = place["estimate"], place.get("low"), place.get("high")
    if place["best"] != name:
        estimate, low, high = 1 / estimate, high and 1 / high, low and 1 / low
    return Ratio(value, estimate, low, high, place["n"])


def median_at(
    experiment: Experiment, name: str, variant: Variant, value: int, metric: str
) -> float | None:
    """The value of a metric of one run, None for a run without numbers."""
    run = experiment.run_at(name, variant, value)
    if run is None or run["status"] != "ok":
        return None
    found: float | None = experiment.metric_row(run, metric)["value"]
    return found


def medians_along(
    experiment: Experiment, name: str, variant: Variant, metric: str
) -> dict[int, float]:
    """The values of a metric along a sweep, those of runs with numbers."""
    found = {
        value: median_at(experiment, name, variant, value, metric) for value in experiment.values
    }
    return {value: median for value, median in found.items() if median is not None}


# Exact metrics


def tell_exact(known: Known, experiment: Experiment, name: str, variant: Variant) -> Iterator[Told]:
    """An implementation's exact metrics beside the baseline's, where they differ most."""
    symbol = experiment.parameter.symbol
    for metric in metrics_of(experiment.benchmark, exact=True):
        about = {"implementation": name, "metric": metric.name, "variant": dict(variant)}
        found = known.across([experiment], "exact_comparison", "less", "more", "equal", **about)
        if not found:
            continue
        label = heading(metric.labels)
        if len(found) > 1:
            yield tell(
                "conclusion.exact.varies", sources=found, exact_metric_heading=label, symbol=symbol
            )
            continue
        if found[0].verdict == "equal":
            yield tell("conclusion.exact.equal", sources=found, exact_metric_heading=label)
            continue
        facts, is_less = found[0].facts, found[0].verdict == "less"
        at = facts["low_at"] if is_less else facts["high_at"]
        mine = median_at(experiment, name, variant, at, metric.name)
        theirs = median_at(experiment, experiment.baseline, variant, at, metric.name)
        assert mine is not None and theirs is not None  # the ratio was taken of both
        yield tell(
            "conclusion.exact.less" if is_less else "conclusion.exact.more",
            sources=found,
            exact_metric_heading=label,
            exact_share=Range(percent(facts["low"]), percent(facts["high"])),
            baseline=experiment.baseline,
            exact_mine=in_units(mine),
            exact_theirs=in_units(theirs),
            exact_unit=metric.unit,
            symbol=symbol,
            exact_at=at,
        )


def tell_account(
    known: Known, experiment: Experiment, name: str, variant: Variant, at: int | None = None
) -> Iterator[Told]:
    """What most of an exact metric consists of at a value, the largest one if none is given.

    Nothing where the exact model does not give it.
    """
    about = {"implementation": name, "variant": dict(variant)}
    for finding in known.across([experiment], "exact_account", "explained", **about)[:1]:
        account = known.benchmark.metric(str(finding.metric)).account
        value = at or finding.facts["value"]
        parts = {each["value"]: each["parts"] for each in finding.estimates}.get(value)
        if account is None or parts is None:
            continue
        largest = min(parts, key=lambda part: (-parts[part], part))
        yield tell(
            "conclusion.account",
            sources=[finding],
            account_of=name,
            account_part=Label(account.labels[largest]),
            account_share=percent(parts[largest] / sum(parts.values())),
            account_at=value,
            account_symbol=experiment.parameter.symbol,
        )


def tell_limits(known: Known, experiments: Sequence[Experiment]) -> Iterator[Told]:
    """Who runs out of memory, and from which value on."""
    found = known.across(experiments, "out_of_memory", "limit_found")
    if not found:
        return
    smallest = min(finding.facts["smallest"] for finding in found)
    names = sorted({f.subject["implementation"] for f in found if smallest in f.facts["failed"]})
    yield tell(
        "conclusion.out_of_memory",
        sources=found,
        symbol=experiments[0].parameter.symbol,
        oom_at=smallest,
        oom_names=Listed(names),
    )


# What was looked for and not found

CHECKS = {
    "crossover": ("none_in_range", "conclusion.absent.crossover"),
    "out_of_memory": ("none", "conclusion.absent.out_of_memory"),
    "monotonicity": ("monotone", "conclusion.absent.monotonicity"),
    "anomaly": ("none", "conclusion.absent.anomaly"),
}
"""By kind the verdict of a check that found nothing, and its message."""


def tell_checks(
    known: Known, experiments: Sequence[Experiment], names: Sequence[str]
) -> Iterator[Told]:
    """What was checked and not found: overtaking, running out of memory, unstable times."""
    absent, sources = [], []
    for kind, (clean, key) in CHECKS.items():
        if kind == "crossover" and len(names) < 2:
            continue  # of the others' pairs alone
        found = [f for f in known.across(experiments, kind) if f.implementations <= set(names)]
        if found and all(finding.verdict == clean for finding in found):
            absent.append(say(key))
            sources += found[:1]
    if absent:
        yield tell("conclusion.checked", sources=sources, absent=Listed(absent))


# One implementation by itself


def _works(experiment: Experiment, metric: Metric) -> set[float]:
    """The operations behind a metric at each value of a sweep; empty where they are not known."""
    timed = [
        experiment.benchmark.metric(name)
        for name in experiment.benchmark.measured_behind(metric.name)
    ]
    if not all(m.work for m in timed):
        return set()
    return {
        rounded(sum(m.work.operations(run) for m in timed if m.work), 6) for run in experiment.runs
    }


def tell_equal_work(
    known: Known, experiment: Experiment, name: str, variant: Variant
) -> Iterator[Told]:
    """Where the operations stay the same along the sweep: the best value, and the worst one."""
    metric = known.decisive
    if metric is None or len(_works(experiment, metric)) != 1:
        return
    found = medians_along(experiment, name, variant, metric.name)
    if len(found) < 2 or metric.higher_is_better:
        return
    best, worst = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    if not _is_surely_longer(experiment, name, variant, metric, worst, best):
        return
    yield tell(
        "conclusion.equal_work",
        *known.about,
        work_name=name,
        work_unit=metric.unit,
        work_best=Measured(rounded(found[best])),
        work_best_where=_sizes(experiment, name, variant, best),
        work_worst_where=_sizes(experiment, name, variant, worst),
        work_percent=percent(found[worst] / found[best] - 1),
    )


def _is_surely_longer(
    experiment: Experiment, name: str, variant: Variant, metric: Metric, value: int, other: int
) -> bool:
    """Whether even the near ends of the 95% intervals differ by more than the margin."""

    def end(at: int, column: str) -> float | None:
        run = experiment.run_at(name, variant, at)
        assert run is not None  # it has numbers
        measured = experiment.benchmark.measured_behind(metric.name)
        ends = [experiment.metric_row(run, each)[column] for each in measured]
        return None if None in ends else sum(ends)

    low, high = end(value, "low"), end(other, "high")
    return low is not None and high is not None and exceeds_margin(low / high)


def _sizes(experiment: Experiment, name: str, variant: Variant, value: int) -> Listed:
    """The swept parameter at a value, and what derives from it."""
    run: Row | None = experiment.run_at(name, variant, value)
    assert run is not None
    derived = [p for p in experiment.varying if p != experiment.parameter and p.derive is not None]
    sizes = {p.name: run[p.name] for p in (experiment.parameter, *derived)}
    return Listed(settings(experiment.benchmark, sizes))
