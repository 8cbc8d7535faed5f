"""Conclusions on alternatives at one setting: which implementation and variant to use, and why.

For experiments whose sweep has no order (`Experiment.has_alternatives`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flashlab.analysis.conclusions.quoting import (
    Known,
    Told,
    build_conclusion,
    in_units,
    off_and_on,
    tell,
)
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    CARDS,
    CARDS_DIFFER,
    Experiment,
    Row,
    Variant,
    comparison_doubts,
    metrics_of,
)
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import place
from flashlab.analysis.kinds.comparison import printed_ends
from flashlab.analysis.ratios import exceeds_margin, ratio, rounded
from flashlab.analysis.replication import UNREPLICATED
from flashlab.benchmarks.model import Metric, Parameter
from flashlab.statistics import Estimate
from flashlab.telling.values import (
    Listed,
    Measured,
    MetricName,
    Number,
    Range,
    Run,
    Short,
    Statement,
    Tellable,
    clauses,
    heading,
    percent,
    say,
    setting,
    settings,
    span,
)

OUTCOMES = {
    "better": "conclusion.alternatives.outcome.helps",
    "worse": "conclusion.alternatives.outcome.costs",
    "equivalent": "conclusion.alternatives.outcome.level",
    "inconclusive": "conclusion.alternatives.outcome.open",
}
"""The effect of a variant, by the verdict on the decisive metric."""

EFFECTS = {
    (True, True): "conclusion.alternatives.effect.both",
    (True, False): "conclusion.alternatives.effect.some",
    (False, True): "conclusion.alternatives.effect.slows",
    (False, False): "conclusion.alternatives.effect.none",
}
"""The heading of what a variant does, by whether it makes any faster, and any slower."""

CARDS_TOLD = "conclusion.alternatives.cards"
PAIR_CARDS_TOLD = "conclusion.alternatives.effect.cards"
"""What says that those that are compared were measured on different cards."""

MOST_WAITING = 4
"""Most runs of which a sentence says for how long the device is busy."""

MOST_NAMED = 6
"""Most runs that a sentence names which may be the best; of more it says how many."""


@dataclass(frozen=True)
class _Alternative:
    """A run that has numbers, its estimate of the decisive metric, and how it is told."""

    run: Row
    estimate: Estimate
    told: Run
    is_plain: bool


def _alternatives(
    experiment: Experiment, metric: Metric, estimates: Estimates
) -> list[_Alternative]:
    """The runs at the first value of the sweep, the best first."""
    found = [
        _Alternative(
            run,
            estimates.of_metric(experiment, run, metric.name),
            _run(experiment, run["implementation"], variant),
            not any(experiment.telling(variant).values()),
        )
        for run in experiment.ordered
        for variant in [experiment.variant_of(run)]
        if run["status"] == "ok" and experiment.value_of(run) == experiment.values[0]
    ]
    sign = -1 if metric.higher_is_better else 1
    return sorted(found, key=lambda each: sign * each.estimate.median)


def alternative_conclusions(known: Known, estimates: Estimates) -> Iterator[Finding]:
    """The answer on page one, then the conclusion of each section that has one."""
    chosen = next(experiment for experiment in known.sections if experiment.has_alternatives)
    yield from _answer(known, chosen, estimates)
    for experiment in known.sections:
        told = [*_effects(known, experiment), *_limits(known, experiment)]
        told += _curves(known, experiment)
        if told:
            name = experiment.name
            about: dict[str, Any] = {"experiment": name, "section": name}
            yield _in_words(build_conclusion("section", "alternatives", told, **about))


def _answer(known: Known, experiment: Experiment, estimates: Estimates) -> Iterator[Finding]:
    """What is best by the decisive metric, and its share of the device's ceiling."""
    metric = known.decisive
    found = _alternatives(experiment, metric, estimates)
    if not found:
        yield build_conclusion("answer", "no_numbers", [tell("conclusion.front.no_numbers")])
        return
    best, by_position = found[0], {str(i): each.estimate for i, each in enumerate(found)}
    choice = place(0, by_position, metric.higher_is_better)  # None of one alone
    first = [e for i, e in enumerate(found) if e is best or (choice and str(i) in choice.possible)]
    naive = _naive(found, known.benchmark.naive)
    tied = choice is not None and len(choice.level) == len(first)
    told = [_best(metric, first, len(found), tied)]
    told += _busy_times(known, experiment, first)
    against = [*_against_naive(first, naive, metric)]
    told += [*against, *_share_of_ceiling(known, experiment, first)]
    told += _least(experiment, found, naive)
    told += _doubts(known, experiment, [*first, *([naive] if naive and against else [])])
    about: dict[str, Any] = {"implementation": best.told.name, "metric": metric.name}
    yield _in_words(build_conclusion("answer", "best", told, **about))


def _run(experiment: Experiment, name: str, variant: Variant) -> Run:
    """A run by what tells it from others."""
    return Run(name, settings(experiment.benchmark, experiment.telling(variant)))


def _runs(several: Sequence[_Alternative]) -> Tellable:
    """Several, with what all of them have in common told once."""
    where = several[0].told.settings
    if len(several) == 1 or not where or any(each.told.settings != where for each in several):
        return Listed([each.told for each in several])
    names = Listed([each.told.name for each in several])
    return say("conclusion.each.alike", names=names, where=Listed(where))


def _best(metric: Metric, first: Sequence[_Alternative], count: int, tied: bool) -> Told:
    """The best of so many, or those that are not decided to be worse than the best.

    They are `tied` where each is decided to be within the margin of whoever is best.
    """
    medians = [rounded(each.estimate.median) for each in first]
    key = "conclusion.alternatives.best.level" if len(first) > 1 else "conclusion.alternatives.best"
    if len(first) > 1 and tied:
        key = "conclusion.alternatives.best.tied"
    values: dict[str, Tellable] = {
        "best_names": _runs(first),
        "best_value": Range(Measured(min(medians)), Measured(max(medians))),
        "best_unit": metric.unit,
    }
    if len(first) > MOST_NAMED and not tied:
        key = "conclusion.alternatives.best.many"
        values = {
            "level_count": len(first),
            "alternatives": count,
            **values,
            "best_names": first[0].told,
        }
    return Told(Statement(key, values, (metric.quantity.name,)))


def _findings_of(
    known: Known, kind: str, experiment: Experiment, several: Sequence[_Alternative]
) -> list[Finding]:
    """The findings of a kind that are about some of the alternatives."""
    variants = [(each.told.name, experiment.variant_of(each.run)) for each in several]
    return [
        finding
        for finding in known.every(kind, experiment)
        if (finding.subject["implementation"], finding.variant) in variants
    ]


def _busy_times(
    known: Known, experiment: Experiment, first: Sequence[_Alternative]
) -> Iterator[Told]:
    """Of those that may be best: how many the host limits, and where the device works least."""
    found = _findings_of(known, "device_use", experiment, first)
    waiting = [finding for finding in found if finding.verdict == "host_bound"]
    if len(first) == 1 or not waiting:
        return
    shortest = min(finding.facts["busy"] for finding in found)
    least = [f for f in found if not exceeds_margin(f.facts["busy"] / shortest)]
    times = [f.facts["busy"] for f in least]
    yield tell(
        "conclusion.alternatives.busy",
        sources=[*waiting, *(f for f in least if f not in waiting)],
        waiting_count=len(waiting),
        busy_names=Listed([_run_of(experiment, finding) for finding in least]),
        busy_value=Range(Measured(min(times)), Measured(max(times))),
    )


def _naive(found: Sequence[_Alternative], naive: str | None) -> _Alternative | None:
    """The naive implementation in its plainest variant."""
    return next((e for e in found if e.told.name == naive and e.is_plain), None)


def _against_naive(
    first: Sequence[_Alternative], naive: _Alternative | None, metric: Metric
) -> Iterator[Told]:
    """How many times as good as the naive implementation they are, where each decidedly differs."""
    if naive is None or naive in first:
        return
    verdicts = {ratio(0, each.estimate, naive.estimate).verdict for each in first}
    if not verdicts <= {"above", "below"}:
        return
    factors = [each.estimate.median / naive.estimate.median for each in first]
    times = [rounded(each if metric.higher_is_better else 1 / each) for each in factors]
    yield tell(
        "conclusion.alternatives.naive",
        metric.quantity.name,
        naive=naive.told,
        naive_value=Measured(rounded(naive.estimate.median)),
        best_times=span(min(times), max(times)),
        best_unit=metric.unit,
    )


def _share_of_ceiling(
    known: Known, experiment: Experiment, first: Sequence[_Alternative]
) -> Iterator[Told]:
    """The share of the device's measured matrix-product rate that they reach."""
    found = _findings_of(known, "roofline", experiment, first)
    if not found:
        return
    shares = [finding.facts["matrix_high"] / 100 for finding in found]
    rate, sustained = (found[0].facts[name] for name in ("ceiling", "sustained"))
    values: dict[str, Tellable] = {
        "ceiling_share": _shares(shares),
        "ceiling_rate": Measured(rate),
    }
    key = "conclusion.alternatives.ceiling"
    if sustained is not None:
        key = "conclusion.alternatives.ceiling.sustained"
        values["sustained_share"] = _shares([share * rate / sustained for share in shares])
        values["sustained_rate"] = Measured(sustained)
    yield tell(key, sources=found[:1], **values)


def _shares(shares: Sequence[float]) -> Range:
    return Range(percent(min(shares)), percent(max(shares)))


def _least(
    experiment: Experiment, found: Sequence[_Alternative], naive: _Alternative | None
) -> Iterator[Told]:
    """Who takes the least of the first exact metric, or hardly more, and what the naive one does.

    An implementation stands for all of its alternatives where they all do.
    """
    metrics = metrics_of(experiment.benchmark, exact=True)
    if not metrics or naive is None:
        return
    metric = metrics[0]
    values = [float(experiment.metric_row(e.run, metric.name)["value"]) for e in found]
    of_naive = values[found.index(naive)]
    near = [not exceeds_margin(value / min(values)) for value in values]
    least = [each for each, is_near in zip(found, near, strict=True) if is_near]
    if naive in least:
        return
    in_part = {each.told.name for each in found if each not in least}
    names = [each.told if each.told.name in in_part else each.told.name for each in least]
    ends = [value for value, is_near in zip(values, near, strict=True) if is_near]
    yield tell(
        "conclusion.alternatives.least",
        exact_metric=MetricName(metric.name),
        exact_unit=metric.unit,
        least_names=Listed([name for i, name in enumerate(names) if name not in names[:i]]),
        least_value=Range(in_units(min(ends)), in_units(max(ends))),
        least_naive=in_units(of_naive),
        naive=naive.told,
        least_share=_shares([end / of_naive for end in (min(ends), max(ends))]),
    )


def _doubts(
    known: Known, experiment: Experiment, compared: Sequence[_Alternative]
) -> Iterator[Told]:
    """What else may make a difference between those that are compared: their cards, one process."""
    if CARDS_DIFFER in comparison_doubts([[each.run for each in compared]]):
        cards: dict[frozenset[str] | None, list[_Alternative]] = {}
        for each in compared:
            cards.setdefault(each.run[CARDS], []).append(each)
        told = clauses(
            Listed([f"({number}) ", _runs(of_card)], "")
            for number, of_card in enumerate(cards.values(), start=1)
        )
        yield tell(CARDS_TOLD, cards=told)
    processes = known.find("processes")
    single = [each for each in compared if len(experiment.processes_of(each.run)) == 1]
    if processes is None or not single:
        return
    if processes.verdict == "single":
        assumed = Number(rounded(100 * UNREPLICATED.deviation))
        yield tell("conclusion.alternatives.single", sources=[processes], assumed=assumed)
    elif len(single) > MOST_NAMED:
        key = "conclusion.alternatives.single.many"
        yield tell(key, sources=[processes], single_count=len(single))
    else:
        key = "conclusion.alternatives.single.some"
        yield tell(key, sources=[processes], single_names=_runs(single))


def _in_words(conclusion: Finding) -> Finding:
    """A conclusion without the mark of what it says in words: that cards differ."""
    if not any(told.key in (CARDS_TOLD, PAIR_CARDS_TOLD) for told in conclusion.statements):
        return conclusion
    warnings = [code for code in conclusion.warnings if code != CARDS_DIFFER]
    return replace(conclusion, warnings=warnings)


# What a variant does


def _effects(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Whom switching a variant on helps and by how much, and from when on it pays."""
    metric = known.decisive
    for switched in experiment.varying_variants:
        found = [
            finding
            for finding in known.every(
                "variant_effect", experiment, switched=switched.name, metric=metric.name
            )
            if finding.facts["count"]
        ]
        if not found:
            continue
        gains: dict[str, list[Tellable]] = {}
        for finding in sorted(found, key=lambda each: -each.facts["low"]):
            name, times = finding.subject["implementation"], printed_ends(finding.facts)[0]
            verdict = finding.verdict if finding.verdict in OUTCOMES else "inconclusive"
            told_gain = say("conclusion.each.gain", name=name, times=times)
            gains.setdefault(verdict, []).append(told_gain)
        helped = [finding for finding in found if finding.verdict == "better"]
        key = EFFECTS[bool(helped), "worse" in gains]
        if len(helped) == len(found):
            key = "conclusion.alternatives.effect.all"
        told: dict[str, Tellable] = {
            "effect_of_heading": heading(switched.labels),
            "slowed": Listed([f.subject["implementation"] for f in found if f.verdict == "worse"]),
        }
        if helped:
            factors = [printed_ends(finding.facts)[0] for finding in helped]
            told |= {"count": len(helped), "of": len(found)}
            low, high = (choose(factors, key=lambda end: end.value) for choose in (min, max))
            told["effect_times"] = span(low, high)
        yield tell(key, sources=found, **told)
        outcomes = clauses(
            say(key, effects=Listed(gains[verdict]))
            for verdict, key in OUTCOMES.items()
            if verdict in gains
        )
        yield tell("conclusion.alternatives.effect.each", sources=found, effect_outcomes=outcomes)
        yield from _broken_graphs(experiment, found)
        yield from _apart(experiment, switched, found)
        yield from _break_even(experiment, switched, metric, found)


def _pair(experiment: Experiment, finding: Finding) -> list[Row]:
    """The two runs that an effect is of: without the variant, and with it."""
    name = finding.subject["implementation"]
    return [experiment.run_rows(name, each)[0] for each in off_and_on(experiment, finding)]


def _broken_graphs(experiment: Experiment, found: Sequence[Finding]) -> Iterator[Told]:
    """Whose model is not compiled whole, by the graph breaks that torch.compile counted."""
    breaks = {}
    for finding in found:
        processes = experiment.processes_of(_pair(experiment, finding)[1])
        if most := max((process["graph_breaks"] or 0 for process in processes), default=0):
            breaks[finding.subject["implementation"]] = (finding, most)
    if breaks:
        told = [
            say("conclusion.alternatives.graph_breaks.of", name=name, count=most)
            for name, (_, most) in breaks.items()
        ]
        sources = [finding for finding, _ in breaks.values()]
        yield tell("conclusion.alternatives.graph_breaks", sources=sources, broken=Listed(told))


def _apart(experiment: Experiment, switched: Parameter, found: Sequence[Finding]) -> Iterator[Told]:
    """Of whom the two runs were measured on different cards."""
    pairs = {f.subject["implementation"]: _pair(experiment, f) for f in found}
    apart = [name for name, pair in pairs.items() if CARDS_DIFFER in comparison_doubts([pair])]
    if apart:
        off, on = (setting(switched, is_on) for is_on in (False, True))
        yield tell(PAIR_CARDS_TOLD, apart=Listed(apart), off=off, on=on)


def _break_even(
    experiment: Experiment, switched: Parameter, metric: Metric, found: Sequence[Finding]
) -> Iterator[Told]:
    """From which step on the time that a variant costs at the start is made up for.

    Where the benchmark measures a start in seconds and chooses by a time in ms.
    """
    starts = [m for m in experiment.benchmark.measured if m.quantity.once and m.unit == "s"]
    if metric.unit != "ms" or not starts:
        return
    steps: dict[str, int] = {}
    for finding in (finding for finding in found if finding.verdict == "better"):
        (start_off, time_off), (start_on, time_on) = (
            [experiment.metric_row(run, m.name)["value"] for m in (starts[0], metric)]
            for run in _pair(experiment, finding)
        )
        count = math.ceil((start_on - start_off) * 1e3 / (time_off - time_on))
        if count > 0:
            steps[finding.subject["implementation"]] = count
    if not steps:
        return
    label = heading(switched.labels)
    fewest, *others = sorted(steps, key=lambda name: (steps[name], name))
    if not others:
        key, count = "conclusion.alternatives.break_even.one", Short(steps[fewest])
        yield tell(key, effect_of_heading=label, name=fewest, count=count)
        return
    ends = [
        say("conclusion.each.step", name=name, count=Short(steps[name]))
        for name in (fewest, others[-1])
    ]
    key = "conclusion.alternatives.break_even"
    yield tell(key, effect_of_heading=label, fewest=ends[0], most=ends[1])


# What limits a run


def _limits(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Whom the host limits, and whom the power limit of the device, as far as it was measured."""
    found = known.every("device_use", experiment) if experiment.has_alternatives else []
    waiting = sorted(
        (f for f in found if f.verdict == "host_bound"), key=lambda f: float(f.facts["share"])
    )
    if waiting:
        told = clauses(
            say(
                "conclusion.each.busy",
                run=_run_of(experiment, finding),
                busy=Measured(finding.facts["busy"]),
                whole=Measured(finding.facts["whole"]),
                unit=experiment.benchmark.metric(str(finding.metric)).unit,
                kernels=Short(finding.facts["kernels"]),
            )
            for finding in waiting[:MOST_WAITING]
        )
        key = "conclusion.alternatives.host_bound"
        values: dict[str, Tellable] = {"waiting": told}
        if len(waiting) > MOST_WAITING:
            key = "conclusion.alternatives.host_bound.more"
            values["more"] = len(waiting) - MOST_WAITING
        yield tell(key, sources=waiting, **values)
    limited = [f for f in found if f.facts["power_limited"]]
    if limited:
        names = Listed([_run_of(experiment, finding) for finding in limited])
        yield tell("conclusion.alternatives.power_limited", sources=limited, limited=names)


def _run_of(experiment: Experiment, finding: Finding) -> Run:
    """The run that a finding is about."""
    return _run(experiment, finding.subject["implementation"], finding.variant or ())


# Curves


def _curves(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Whether all curves lie within the spread of the naive implementation's, with both numbers."""
    judged = known.every("curve", experiment, verdicts=["within", "differs"])
    differing = [finding for finding in judged if finding.verdict == "differs"]
    if not judged:
        return
    farthest = max(differing or judged, key=lambda f: float(f.facts["distance"]))
    numbers = ("distance", "spread", "last_distance", "last_spread")
    values: dict[str, Tellable] = {
        "curve_label": farthest.facts["label"],
        "farthest": _run_of(experiment, farthest),
        "baseline": farthest.subject["baseline"],
        "steps": farthest.facts["steps"],
        "seeds": farthest.facts["runs"],
        "unit": farthest.facts["unit"],
        **{name: Short(farthest.facts[name]) for name in numbers},
    }
    if differing:
        names = Listed(sorted({f.subject["implementation"] for f in differing}))
        key = "conclusion.alternatives.curve.differs"
        yield tell(key, sources=differing, curve_names=names, **values)
    else:
        yield tell("conclusion.alternatives.curve.within", sources=judged, **values)
