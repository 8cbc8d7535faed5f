"""What conclusions are put together from: findings looked up, and statements quoted from them.

A conclusion quotes other findings and the tables; it decides nothing that they do not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.experiment import Experiment, Row, Variant, chosen_metrics, metrics_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.comparison import VERDICTS as PAIR_VERDICTS
from flashlab.analysis.kinds.comparison import describe_range, printed_ends
from flashlab.analysis.ratios import Ratio, exceeds_margin, rounded, shared_verdict
from flashlab.analysis.series import Series
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
    clauses,
    heading,
    percent,
    say,
    settings,
)

VERDICTS = (
    *("no_numbers", "alone", "better", "worse", "equivalent", "mixed", "inconclusive", "missing"),
    *("gains", "loses", "level", "best", "near", "changes", "varies"),
    *("map", "naive", "limit", "avoid"),
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
    def decisive(self) -> Metric:
        """The metric that one chooses by."""
        return chosen_metrics(self.benchmark)[-1]

    @property
    def about(self) -> tuple[str]:
        """What statements on the decisive metric are about: its quantity."""
        return (self.decisive.quantity.name,)

    @property
    def parts(self) -> list[Metric]:
        """The measured metrics that the decisive one is the total of; empty if it is none."""
        derived = self.decisive.derived
        return [self.benchmark.metric(name) for name in derived.of] if derived else []

    @property
    def sections(self) -> list[Experiment]:
        """The experiments, without the headline."""
        return [experiment for experiment in self.experiments if not experiment.is_summary]

    def every(
        self, kind: str, *experiments: Experiment, verdicts: Collection[str] = (), **subject: Any
    ) -> list[Finding]:
        """The findings of a kind about a subject, with these verdicts if any are named.

        In the experiments, one after the other; on the whole dataset where none is given.
        """
        names: list[str | None] = [experiment.name for experiment in experiments]
        return [
            finding
            for name in names or [None]
            for finding in self.findings
            if (finding.kind, finding.experiment) == (kind, name)
            and finding.is_about(**subject)
            and (not verdicts or finding.verdict in verdicts)
        ]

    def experiment_of(self, finding: Finding) -> Experiment:
        """The experiment that a finding is about."""
        return next(
            experiment for experiment in self.experiments if experiment.name == finding.experiment
        )

    def find(self, kind: str, *experiments: Experiment, **subject: Any) -> Finding | None:
        """The first of them, None for none."""
        return next(iter(self.every(kind, *experiments, **subject)), None)


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


PLAIN_PART = "conclusion.each.part"
UNDECIDED_PART = "conclusion.each.part.open"


def told_part(
    metric: Metric,
    ratios: Sequence[Ratio],
    whole: str,
    clause: Callable[[str, Sequence[Ratio]], Statement],
) -> Statement:
    """A metric that is part of a total, with its factors: ``backward 2.30–2.59×``.

    Where its verdict is another than that of the `whole`, `clause` says where it is which decided
    difference.
    """
    part, verdict = part_name(metric), shared_verdict(ratios, PAIR_VERDICTS)
    if verdict == "equivalent" or (verdict == whole and verdict in ("better", "worse")):
        return say(PLAIN_PART, part=part, range=_range_of(ratios))
    decided: list[Tellable] = [
        say("conclusion.each.clause", clause=clause(code, mine), range=_range_of(mine))
        for code in ("above", "below")
        if (mine := [ratio for ratio in ratios if ratio.verdict == code])
    ]
    if decided:
        return say("conclusion.each.part.decided", part=part, clauses=Listed(decided))
    return say(UNDECIDED_PART, part=part, range=_range_of(ratios))


def tell_parts(parts: Sequence[Statement], sources: Sequence[Finding]) -> Told:
    """The parts of a total (`told_part`), one after the other."""
    are_plain = all(part.key == PLAIN_PART for part in parts)
    told = Listed(parts) if are_plain else clauses(parts)
    return tell("conclusion.parts", sources=sources, parts=told)


def _range_of(ratios: Sequence[Ratio]) -> Range:
    return Range(*printed_ends(describe_range(ratios)))


def off_and_on(experiment: Experiment, effect: Finding) -> list[Variant]:
    """The two variants that an effect is of: without what is switched, and with it."""
    shared = dict(effect.variant or ())
    return [
        tuple((p.name, shared.get(p.name, is_on)) for p in experiment.benchmark.variants)
        for is_on in (False, True)
    ]


# Exact metrics


def tell_exact(known: Known, experiment: Experiment, name: str, variant: Variant) -> Iterator[Told]:
    """An implementation's exact metrics beside the baseline's, where they differ most."""
    symbol = experiment.parameter.symbol
    for metric in metrics_of(experiment.benchmark, exact=True):
        about = {"implementation": name, "metric": metric.name, "variant": dict(variant)}
        found = known.every("exact_comparison", experiment, **about)
        if not found or found[0].verdict == "withheld":
            continue
        label: dict[str, Tellable] = {"exact_metric_heading": heading(metric.labels)}
        if len(found) > 1:
            yield tell("conclusion.exact.varies", sources=found, **label, symbol=symbol)
            continue
        if found[0].verdict == "equal":
            yield tell("conclusion.exact.equal", sources=found, **label)
            continue
        facts, is_less = found[0].facts, found[0].verdict == "less"
        at = facts["low_at"] if is_less else facts["high_at"]
        mine, theirs = (
            Series(experiment, who, variant, metric).medians[at]
            for who in (name, experiment.baseline)
        )
        yield tell(
            "conclusion.exact.less" if is_less else "conclusion.exact.more",
            sources=found,
            **label,
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
    for finding in known.every("exact_account", experiment, verdicts=["explained"], **about)[:1]:
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
    found = known.every("out_of_memory", *experiments, verdicts=["limit_found"])
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
        found = [f for f in known.every(kind, *experiments) if f.implementations <= set(names)]
        if found and all(finding.verdict == clean for finding in found):
            absent.append(say(key))
            sources += found[:1]
    if absent:
        yield tell("conclusion.checked", sources=sources, absent=Listed(absent))


# One implementation by itself


def tell_equal_work(
    known: Known, experiment: Experiment, name: str, variant: Variant
) -> Iterator[Told]:
    """Where the operations stay the same along the sweep: the best value, and the worst one.

    If even the near ends of their 95% intervals differ by more than the margin.
    """
    metric, benchmark = known.decisive, experiment.benchmark
    measured = [benchmark.metric(each) for each in benchmark.measured_behind(metric.name)]
    works = [each.work for each in measured if each.work]
    amounts = {rounded(sum(w.operations(run) for w in works), 6) for run in experiment.runs}
    found = Series(experiment, name, variant, metric).medians
    if len(works) < len(measured) or len(amounts) > 1 or len(found) < 2:
        return
    best, worst = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    runs = {experiment.value_of(run): run for run in experiment.run_rows(name, variant)}
    low, high = (
        [experiment.metric_row(runs[at], each.name)[end] for each in measured]
        for at, end in ((worst, "low"), (best, "high"))
    )
    if None in (*low, *high) or not exceeds_margin(sum(low) / sum(high)):
        return
    yield tell(
        "conclusion.equal_work",
        *known.about,
        work_name=name,
        work_unit=metric.unit,
        work_best=Measured(rounded(found[best])),
        work_best_where=_sizes(experiment, runs[best]),
        work_worst_where=_sizes(experiment, runs[worst]),
        work_percent=percent(found[worst] / found[best] - 1),
    )


def _sizes(experiment: Experiment, run: Row) -> Listed:
    """The swept parameter of a run, and what derives from it."""
    derived = [p for p in experiment.covarying if p.derive is not None]
    sizes = {p.name: run[p.name] for p in (experiment.parameter, *derived)}
    return Listed(settings(experiment.benchmark, sizes))
