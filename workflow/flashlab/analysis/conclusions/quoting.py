"""What conclusions are put together from: findings looked up, and statements quoted from them.

A conclusion quotes other findings and the tables; it decides nothing that they do not hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import Row, Sweep, Variant, chosen_metrics, metrics_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.ratios import Ratio, exceeds_margin, rounded
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.telling.codes import by_code
from flashlab.telling.values import (
    Listed,
    Measured,
    MetricName,
    Range,
    Short,
    Statement,
    Tellable,
    Within,
    clauses,
    heading,
    percent,
    say,
    settings,
)

VERDICTS = (
    *("no_numbers", "alone", "better", "worse", "equivalent", "mixed", "inconclusive", "missing"),
    *("gains", "loses", "level", "one_best", "one_suffices", "changes"),
    *("map", "always", "most", "by_size", "varies", "naive", "limit", "avoid"),
    *("climb", "steps", "top", "start", "simulated", "best", "alternatives"),
)
"""What a conclusion may come to."""

KERNEL_CAUSES = by_code(
    *("conclusion.cause.unfused", "conclusion.cause.memory_bound", "conclusion.cause.matrix_bound"),
    *("conclusion.cause.launch_bound", "conclusion.cause.occupancy"),
)
"""Verdicts of a cause that explain a time on a GPU, the most telling first."""

TELLING_CAUSES = (*KERNEL_CAUSES, "elementwise", "products", "fused")


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
    sweeps: Sequence[Sweep]

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the dataset."""
        return self.sweeps[0].benchmark

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
    def sections(self) -> list[Sweep]:
        """The experiments, without the headline."""
        return [sweep for sweep in self.sweeps if not sweep.is_summary]

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
        self, sweeps: Iterable[Sweep], kind: str, *verdicts: str, **subject: Any
    ) -> list[Finding]:
        """The findings of a kind about a subject in several experiments, by these verdicts."""
        found = (f for sweep in sweeps for f in self.every(kind, sweep.name, **subject))
        return [finding for finding in found if not verdicts or finding.verdict in verdicts]

    def sweep_of(self, finding: Finding) -> Sweep:
        """The experiment that a finding is about."""
        return next(sweep for sweep in self.sweeps if sweep.name == finding.experiment)

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


def as_ratios(finding: Finding, name: str) -> list[Ratio]:
    """The ratio at each value of a choice of two."""
    return [ratio_of(place["value"], place, name) for place in finding.estimates]


def median_at(sweep: Sweep, name: str, variant: Variant, value: int, metric: str) -> float | None:
    """The value of a metric of one run, None for a run without numbers."""
    run = sweep.run_at(name, variant, value)
    if run is None or run["status"] != "ok":
        return None
    found: float | None = sweep.metric_row(run, metric)["value"]
    return found


def medians_along(sweep: Sweep, name: str, variant: Variant, metric: str) -> dict[int, float]:
    """The values of a metric along a sweep, those of runs with numbers."""
    found = {value: median_at(sweep, name, variant, value, metric) for value in sweep.values}
    return {value: median for value, median in found.items() if median is not None}


# Stretches of values


def stretches_of(winners: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """Values with the same winners, by stretches of neighbours."""
    grouped = itertools.groupby(sorted(winners), key=lambda value: list(winners[value]))
    return [{"names": names, "values": list(values)} for names, values in grouped]


def _where(values: Sequence[int], is_first: bool, is_last: bool, symbol: str) -> Statement:
    """Where a stretch of values is: up to one, from one on, or between two."""
    if is_first and is_last:
        return say("conclusion.stretch.all", symbol=symbol)
    if len(values) == 1:
        return say("conclusion.stretch.at", symbol=symbol, low=values[0])
    if is_first:
        return say("conclusion.stretch.to", symbol=symbol, high=values[-1])
    if is_last:
        return say("conclusion.stretch.from", symbol=symbol, low=values[0])
    return say("conclusion.stretch.span", symbol=symbol, low=values[0], high=values[-1])


def told_winners(stretches: Sequence[Mapping[str, Any]], symbol: str) -> Listed:
    """``SdpaCudnn up to N = 1024; Flash4 from N = 2048``."""
    last = len(stretches) - 1
    return clauses(
        say(
            "conclusion.each.winner",
            names=Listed(stretch["names"], "conclusion.or"),
            where=_where(stretch["values"], at == 0, at == last, symbol),
        )
        for at, stretch in enumerate(stretches)
    )


def told_places(benchmark: Benchmark, places: Sequence[Mapping[str, Any]]) -> Listed:
    """Settings, in short."""
    return clauses(Listed(settings(benchmark, place)) for place in places)


# Exact metrics


def tell_exact(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Told]:
    """An implementation's exact metrics beside the baseline's, where they differ most."""
    symbol = sweep.parameter.symbol
    for metric in metrics_of(sweep.benchmark, exact=True):
        about = {"implementation": name, "metric": metric.name, "variant": dict(variant)}
        found = known.across([sweep], "exact_comparison", "less", "more", "equal", **about)
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
        mine = median_at(sweep, name, variant, at, metric.name)
        theirs = median_at(sweep, sweep.baseline, variant, at, metric.name)
        assert mine is not None and theirs is not None  # the ratio was taken of both
        yield tell(
            "conclusion.exact.less" if is_less else "conclusion.exact.more",
            sources=found,
            exact_metric_heading=label,
            exact_share=Range(percent(facts["low"]), percent(facts["high"])),
            baseline=sweep.baseline,
            exact_mine=in_units(mine),
            exact_theirs=in_units(theirs),
            exact_unit=metric.unit,
            symbol=symbol,
            exact_at=at,
        )


def tell_account(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Told]:
    """What most of an exact metric consists of, where the exact model gives it."""
    about = {"implementation": name, "variant": dict(variant)}
    for finding in known.across([sweep], "exact_account", "explained", **about)[:1]:
        yield tell(
            "conclusion.account",
            sources=[finding],
            account_of=name,
            account_part=finding.facts["largest_part"],
            account_share=percent(finding.facts["share"] / 100),
            account_at=finding.facts["value"],
            account_symbol=sweep.parameter.symbol,
        )


def tell_limits(known: Known, sweeps: Sequence[Sweep]) -> Iterator[Told]:
    """Who runs out of memory, and from which value on."""
    found = known.across(sweeps, "out_of_memory", "limit_found")
    if not found:
        return
    smallest = min(finding.facts["smallest"] for finding in found)
    names = sorted({f.subject["implementation"] for f in found if smallest in f.facts["failed"]})
    yield tell(
        "conclusion.out_of_memory",
        sources=found,
        symbol=sweeps[0].parameter.symbol,
        oom_at=smallest,
        oom_names=Listed(names),
    )


# Causes


def telling_cause(
    known: Known, sweeps: Sequence[Sweep], name: str, variant: Variant | None
) -> Finding | None:
    """What the counters of an implementation's runs tell of its times, the most telling verdict."""
    found = known.across(sweeps, "cause", *TELLING_CAUSES, implementation=name)
    of_variant = (finding for finding in found if variant in (None, finding.variant))
    return min(of_variant, key=_telling_first, default=None)


def _telling_first(finding: Finding) -> tuple[int, float]:
    """By verdict, and then the pass that takes the greatest share of what bounds it."""
    busiest = max(finding.estimates[-1].get(f"{of}_percent", 0.0) for of in ("copy", "matrix"))
    return TELLING_CAUSES.index(finding.verdict), -busiest


def tell_cause(
    known: Known, sweeps: Sequence[Sweep], name: str, variant: Variant | None = None
) -> Iterator[Told]:
    """The measured cause of an implementation's time at one value, where there is one.

    Of one variant alone, where it is given.
    """
    finding = telling_cause(known, sweeps, name, variant)
    if finding is None:
        return
    figures, metric = finding.estimates[-1], known.benchmark.metric(str(finding.metric))
    values: dict[str, Tellable] = {
        "cause_name": name,
        "cause_metric": part_name(metric),
        "cause_where": Listed(settings(known.benchmark, _place(known, finding))),
        "cause_idle": percent(figures["idle_percent"] / 100),
    }
    if "operators" in figures:  # counted by the profiler of a CPU
        yield _operators(finding, figures, values)
        return
    yield tell(
        KERNEL_CAUSES[finding.verdict],
        sources=[finding],
        **values,
        cause_kernels=figures["kernels"],
        cause_gigabytes=Measured(rounded(figures["bytes"] / 1e9)),
        cause_excess=Short(figures["bytes"] / figures["compulsory_bytes"]),
        cause_copy=percent(figures["copy_percent"] / 100),
        cause_matrix=percent(figures["matrix_percent"] / 100),
        cause_occupancy=percent(figures["occupancy_percent"] / 100),
    )


def _operators(
    finding: Finding, figures: Mapping[str, Any], values: Mapping[str, Tellable]
) -> Told:
    """What a pass on a CPU spends its time in."""
    key = "conclusion.cause.operators"
    if finding.verdict == "launch_bound":
        key = "conclusion.cause.operators.launch_bound"
    elif finding.verdict == "fused" and figures["operators"] == 1:
        key = "conclusion.cause.operators.fused"
    return tell(
        key,
        sources=[finding],
        **values,
        cause_operators=figures["operators"],
        cause_product=percent(figures["product_percent"] / 100),
        cause_softmax=percent(figures["softmax_percent"] / 100),
        cause_elementwise=percent(figures["elementwise_percent"] / 100),
        cause_fused=percent(figures["fused_percent"] / 100),
    )


def _place(known: Known, finding: Finding) -> dict[str, Any]:
    """The last value of a finding about a sweep, and its variant where the sweep has several."""
    sweep = known.sweep_of(finding)
    several = {parameter.name for parameter in sweep.varying_variants}
    variant = {name: value for name, value in finding.variant or () if name in several}
    return {sweep.parameter.name: finding.estimates[-1]["value"], **variant}


# What was looked for and not found

CHECKS = {
    "crossover": ("none_in_range", "conclusion.absent.crossover"),
    "out_of_memory": ("none", "conclusion.absent.out_of_memory"),
    "monotonicity": ("monotone", "conclusion.absent.monotonicity"),
    "anomaly": ("none", "conclusion.absent.anomaly"),
}
"""By kind the verdict of a check that found nothing, and its message."""


def tell_checks(known: Known, sweeps: Sequence[Sweep], names: Sequence[str]) -> Iterator[Told]:
    """What was checked and not found: overtaking, running out of memory, unstable times."""
    absent, sources = [], []
    for kind, (clean, key) in CHECKS.items():
        found = [f for f in known.across(sweeps, kind) if f.implementations <= set(names)]
        if found and all(finding.verdict == clean for finding in found):
            absent.append(say(key))
            sources += found[:1]
    if absent:
        yield tell("conclusion.checked", sources=sources, absent=Listed(absent))


# One implementation by itself


def _works(sweep: Sweep, metric: Metric) -> set[float]:
    """The operations behind a metric at each value of a sweep; empty where they are not known."""
    timed = [sweep.benchmark.metric(name) for name in sweep.benchmark.measured_behind(metric.name)]
    if not all(m.work for m in timed):
        return set()
    return {rounded(sum(m.work.operations(run) for m in timed if m.work), 6) for run in sweep.runs}


def tell_equal_work(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Told]:
    """Where the operations stay the same along the sweep: the best value, and the worst one."""
    metric = known.decisive
    if metric is None or len(_works(sweep, metric)) != 1:
        return
    found = medians_along(sweep, name, variant, metric.name)
    if len(found) < 2 or metric.higher_is_better:
        return
    best, worst = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    if not _is_surely_longer(sweep, name, variant, metric, worst, best):
        return
    yield tell(
        "conclusion.equal_work",
        *known.about,
        work_name=name,
        work_unit=metric.unit,
        work_best=Measured(rounded(found[best])),
        work_best_where=_sizes(sweep, name, variant, best),
        work_worst_where=_sizes(sweep, name, variant, worst),
        work_percent=percent(found[worst] / found[best] - 1),
    )


def _is_surely_longer(
    sweep: Sweep, name: str, variant: Variant, metric: Metric, value: int, other: int
) -> bool:
    """Whether even the near ends of the 95% intervals differ by more than the margin."""

    def end(at: int, column: str) -> float | None:
        run = sweep.run_at(name, variant, at)
        assert run is not None  # it has numbers
        measured = sweep.benchmark.measured_behind(metric.name)
        ends = [sweep.metric_row(run, each)[column] for each in measured]
        return None if None in ends else sum(ends)

    low, high = end(value, "low"), end(other, "high")
    return low is not None and high is not None and exceeds_margin(low / high)


def _sizes(sweep: Sweep, name: str, variant: Variant, value: int) -> Listed:
    """The swept parameter at a value, and what derives from it."""
    run: Row | None = sweep.run_at(name, variant, value)
    assert run is not None
    derived = [p for p in sweep.varying if p != sweep.parameter and p.derive is not None]
    sizes = {p.name: run[p.name] for p in (sweep.parameter, *derived)}
    return Listed(settings(sweep.benchmark, sizes))


def tell_saturation(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Told]:
    """From which value on more work is no longer done any faster."""
    about = {"implementation": name, "variant": dict(variant)}
    found = known.every("saturation", sweep.name, **about)
    reached = [f for f in found if f.verdict == "reached" and f.facts["from"] != f.facts["first"]]
    if not found or len(reached) != len(found):
        return
    start = max(finding.facts["from"] for finding in reached)
    if start != sweep.values[-1]:
        symbol = sweep.parameter.symbol
        yield tell(
            "conclusion.saturation", sources=reached, full_name=name, symbol=symbol, full_from=start
        )
