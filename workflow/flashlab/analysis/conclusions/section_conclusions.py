"""What a reader should take from each section: one conclusion, quoted from its findings.

A section is an experiment, or neighbouring ones that differ in one fixed parameter
(`flashlab.analysis.experiment.sections_of`). Its conclusion begins with a heading and goes on with
how much, the measured cause, and what was looked for and not found. Which heading it gets depends
on what was compared:

- one implementation: how its decisive metric changes along the sweep;
- a variant switched on and off: whom it helps;
- packed inputs beside separate ones: whom that makes faster or slower;
- two implementations: how many times as good as the baseline the other one is, and the trend;
- more: who is the best where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashlab.analysis.conclusions.choosing import (
    SECTION,
    Decided,
    Place,
    decide,
    sufficient,
    told_decision,
)
from flashlab.analysis.conclusions.explaining import tell_cause, tell_changed_pass, tell_jump
from flashlab.analysis.conclusions.quoting import (
    UNDECIDED_PART,
    Known,
    Told,
    build_conclusion,
    in_units,
    part_name,
    ratio_of,
    tell,
    tell_account,
    tell_checks,
    tell_equal_work,
    tell_exact,
    tell_limits,
    tell_parts,
    told_part,
)
from flashlab.analysis.experiment import Experiment, Variant, metrics_of, sections_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.comparison import (
    CLAUSES,
    VERDICTS,
    clauses_of,
    describe_range,
    printed_ends,
    trend_of,
)
from flashlab.analysis.ratios import Ratio, exceeds_margin, printed_ratio, rounded, shared_verdict
from flashlab.analysis.series import Series
from flashlab.analysis.settings import implementations_of
from flashlab.benchmarks.model import Metric
from flashlab.files import canonical
from flashlab.telling.codes import by_code
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    MetricName,
    Number,
    Range,
    Statement,
    Tellable,
    clauses,
    heading,
    say,
    settings,
    to_json,
)

MOST_EFFECTS = 3
"""Most implementations of which each one's gain from a variant is told."""


ONCE = {
    "conclusion.cause.": ("cause_name", "cause_metric"),
    "conclusion.account": ("account_of", "account_part"),
    "conclusion.jump.": ("jump_name", "jump_part"),
    "conclusion.choice.exact": ("exact_metric", "least", "most"),
}
"""Statements that are told once, in the first section that has them, by what they say alike."""

MOST_STATEMENTS = 5
"""Most statements after the heading, beside what was looked for and not found."""


def section_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusion of every section, in their order."""
    told: set[str] = set()
    for group in sections_of(known.sections):
        section = _conclude(known, group)
        heading, *others = section.told
        fresh = [each for each in others if _content(each) not in told]
        told |= {_content(each) for each in fresh} - {""}
        checked = [each for each in fresh if each.key == "conclusion.checked"]
        kept = [each for each in fresh if each not in checked][:MOST_STATEMENTS]
        limits = any(each.key == "conclusion.out_of_memory" for each in kept)
        yield build_conclusion(
            "section",
            section.verdict,
            [heading, *kept, *checked],
            experiment=group[0].name,
            **section.subject,
            metric=known.decisive.name,
            reasons=[each for each in section.reasons if not (limits and each.status == "oom")],
        )


def _content(told: Told) -> str:
    """What a statement that is told once says, wherever; empty for the others."""
    for key, names in ONCE.items():
        if told.key.startswith(key):
            return canonical([told.key, *(to_json(told.statement.values[name]) for name in names)])
    return ""


@dataclass(frozen=True)
class _Section:
    """What a section comes to: a heading with all that follows from it."""

    verdict: str
    told: Sequence[Told]
    subject: Mapping[str, Any] = field(default_factory=dict)
    reasons: Sequence[Reason] = ()


def _conclude(known: Known, group: Sequence[Experiment]) -> _Section:
    good = [run for experiment in group for run in experiment.runs if run["status"] == "ok"]
    names = sorted(implementations_of(group), key=lambda name: name != group[0].baseline)
    able = [name for name in names if any(run["implementation"] == name for run in good)]
    if not good:
        count = sum(len(experiment.runs) for experiment in group)
        return _Section("no_numbers", [tell("conclusion.no_numbers", count=count)])
    if len(able) < 2:
        told = list(_tell_alone(known, group, able[0]))
        return _Section("alone", told, {"implementation": able[0]})
    if len(group) == 1 and any(p.kind is bool for p in group[0].varying_variants):
        return _conclude_variant(known, group[0], able)
    if group[0].packed:
        return _conclude_packed(known, group[0])
    if len(names) == 2 and len(group) == 1 and group[0].baseline in names:
        return _conclude_pair(known, group[0])
    return _conclude_choice(known, group, names)


# One implementation


def _tell_alone(known: Known, group: Sequence[Experiment], name: str) -> Iterator[Told]:
    """How the only implementation with numbers does, in the first series that has any."""
    metric = known.decisive
    every = (Series(e, name, variant, metric) for e in group for variant in e.variants)
    series = next(series for series in every if series.measured_rows)
    experiment, found = series.experiment, series.medians
    first, last = min(found), max(found)
    yield tell(
        "conclusion.alone",
        symbol=experiment.parameter.symbol,
        first=first,
        last=last,
        implementation=name,
        alone_metric=MetricName(metric.name),
        alone_unit=metric.unit,
        alone_first=Measured(rounded(found[first])),
        alone_last=Measured(rounded(found[last])),
    )
    yield from tell_cause(known, [experiment], name)
    yield from tell_checks(known, [experiment], [name])


# Two implementations


def pair_ratios(
    known: Known, experiment: Experiment, name: str, variant: Variant, metric: str
) -> tuple[list[Ratio], Finding | None]:
    """How many times as good as the baseline the other one is at each value, and the choice."""
    choice = known.find("choice", experiment, metric=metric, variant=dict(variant))
    places = choice.estimates if choice else ()
    return [ratio_of(place["value"], place, name) for place in places], choice


def _parts(
    known: Known, experiment: Experiment, name: str, variant: Variant, whole: str
) -> tuple[list[Statement], list[Finding]]:
    """The ratios of the metrics that the decisive one is the total of, and their sources.

    `whole` is the verdict of the total.
    """
    parts, sources, symbol = list[Statement](), [], experiment.parameter.symbol
    for metric in known.parts:
        ratios, choice = pair_ratios(known, experiment, name, variant, metric.name)
        if choice is None or not ratios:
            return [], []

        def at(verdict: str, mine: Sequence[Ratio], metric: Metric = metric) -> Statement:
            values = Listed([ratio.value for ratio in mine])
            return say(CLAUSES[verdict], metric.quantity.name, symbol=symbol, values=values)

        parts.append(told_part(metric, ratios, whole, at))
        sources.append(choice)
    return parts, sources


def _part(metric: Metric, span: Mapping[str, Any]) -> Statement:
    """A metric that is part of a total, with its factors: ``backward 2.30–2.59×``."""
    return say(
        "conclusion.each.part",
        part=part_name(metric),
        range=Range(*printed_ends(span)),
    )


BETTER = by_code(
    *("conclusion.pair.better.one", "conclusion.pair.better.none", "conclusion.pair.better.widens"),
    *("conclusion.pair.better.narrows", "conclusion.pair.better.peaks"),
    "conclusion.pair.better.dips",
)
"""Headings where the other one is better throughout, by how its lead goes along the sweep."""

POOLED_ENDS = ("pooled", "pooled_low", "pooled_high")
"""What a comparison has of the ratio over all its settings, as it is printed."""

PAIR_HEADINGS = by_code(
    *("conclusion.pair.worse", "conclusion.pair.equivalent", "conclusion.pair.inconclusive"),
    "conclusion.pair.mixed",
)


def _pair_heading(
    known: Known, experiment: Experiment, name: str, ratios: Sequence[Ratio], choice: Finding
) -> tuple[str, Told]:
    """The verdict of a pair, and the heading that states it."""
    names: dict[str, Tellable] = {"implementation": name, "baseline": experiment.baseline}
    symbol = experiment.parameter.symbol
    if not ratios:
        told = tell("conclusion.pair.missing", sources=[choice], symbol=symbol, **names)
        return "inconclusive", told
    verdict = shared_verdict(ratios, VERDICTS)
    trend = trend_of(ratios) if len(ratios) > 1 else "one"
    span = describe_range(ratios)
    low, high = printed_ends(span)
    return verdict, tell(
        BETTER[trend] if verdict == "better" else PAIR_HEADINGS[verdict],
        *known.about,
        sources=[choice],
        **names,
        symbol=symbol,
        metric=MetricName(known.decisive.name),
        first=span["first"],
        low=low,
        low_at=span["low_at"],
        high=high,
        high_at=span["high_at"],
        ratio_range=Range(low, high),
        at_first=printed_ratio(ratios[0]),
        at_last=printed_ratio(ratios[-1]),
        clauses=clauses_of(ratios, known.about, symbol),
    )


def _tell_pooled(
    known: Known, experiment: Experiment, name: str, variant: Variant
) -> Iterator[Told]:
    """The parts of the total over the whole sweep, where one is undecided at some of its values."""
    about = {"implementation": name, "baseline": experiment.baseline, "variant": dict(variant)}
    found = [
        (metric, finding)
        for metric in known.parts
        for finding in known.every("comparison", experiment, metric=metric.name, **about)
        if "pooled" in finding.facts
    ]
    every = [estimate for _, finding in found for estimate in finding.estimates]
    if any(estimate["verdict"] == "inconclusive" for estimate in every):
        parts = [
            say(
                "conclusion.pooled.part",
                part=part_name(metric),
                **{key: finding.facts["pooled"][key] for key in POOLED_ENDS},
            )
            for metric, finding in found
        ]
        sources = [finding for _, finding in found]
        count = max(finding.facts["pooled"]["settings"] for finding in sources)
        yield tell("conclusion.pooled", sources=sources, count=count, parts=Listed(parts))


def _conclude_pair(known: Known, experiment: Experiment) -> _Section:
    (other,) = (name for name in experiment.implementations if name != experiment.baseline)
    variant = experiment.variants[0]
    ratios, choice = pair_ratios(known, experiment, other, variant, known.decisive.name)
    assert choice is not None  # there are two implementations with numbers
    verdict, headed = _pair_heading(known, experiment, other, ratios, choice)
    told = [headed]
    parts, sources = _parts(known, experiment, other, variant, verdict)
    is_in_parts = any(part.key != UNDECIDED_PART for part in parts)
    if verdict == "inconclusive" and is_in_parts:
        values = {**headed.statement.values, "parts": clauses(parts)}
        told = [tell("conclusion.pair.inconclusive.parts", sources=[choice, *sources], **values)]
    if ratios:
        told += tell_equal_work(known, experiment, other, variant)
        told += tell_exact(known, experiment, other, variant)
        told += tell_limits(known, [experiment])
        if parts and not (verdict == "inconclusive" and is_in_parts):
            told.append(tell_parts(parts, sources))
        told += _tell_pooled(known, experiment, other, variant)
        told += tell_jump(known, [experiment])
        told += tell_cause(known, [experiment], experiment.baseline)
        told += tell_account(known, experiment, experiment.baseline, variant)
        told += tell_checks(known, [experiment], experiment.implementations)
    subject = {"implementation": other, "baseline": experiment.baseline, "variant": dict(variant)}
    return _Section(verdict, told, subject, choice.reasons)


# Packed inputs

PACKED_OUTCOMES = by_code(
    *("conclusion.packed.better", "conclusion.packed.worse", "conclusion.packed.equivalent"),
    *("conclusion.packed.mixed", "conclusion.packed.inconclusive"),
)
"""What packed inputs do to an implementation, by the verdict on the decisive metric."""


def _conclude_packed(known: Known, experiment: Experiment) -> _Section:
    """Whom packed inputs make faster or slower than separate ones, and by how much in each pass."""
    groups: dict[str, list[str]] = {}
    sources, effects = [], []
    for name, other in experiment.packed.items():
        every = known.every("packed", experiment, implementation=name, baseline=other)
        found = {str(finding.metric): finding for finding in every}
        whole = found[known.decisive.name]
        decided = {each["verdict"] for each in whole.estimates} & {"above", "below"}
        verdict = whole.verdict if decided or whole.verdict == "equivalent" else "inconclusive"
        groups.setdefault(verdict, []).append(other)
        sources.append(whole)
        parts = [
            _part(metric, found[metric.name].facts)
            for metric in known.parts
            if found[metric.name].facts["count"]
        ]
        if parts:
            effects.append(say("conclusion.each.effect", name=other, parts=Listed(parts)))
    outcomes = [
        say(key, names=Listed(groups[verdict]))
        for verdict, key in PACKED_OUTCOMES.items()
        if verdict in groups
    ]
    told = [
        tell("conclusion.packed", sources=sources, outcomes=Listed(outcomes, "clause.separator"))
    ]
    if effects:
        told.append(tell("conclusion.packed.effects", effects=clauses(effects)))
    told += tell_checks(known, [experiment], experiment.implementations)
    return _Section(next(iter(groups)) if len(groups) == 1 else "mixed", told)


# A variant


OUTCOMES = {
    "above": "conclusion.outcome.gains",
    "below": "conclusion.outcome.loses",
    "equal": "conclusion.outcome.level",
    "inconclusive": "conclusion.outcome.undecided",
}
"""What a variant does to an implementation, by the verdict on the decisive metric."""

VARIANT_VERDICTS = {"above": "gains", "below": "loses", "equal": "level"}


def _conclude_variant(known: Known, experiment: Experiment, names: Sequence[str]) -> _Section:
    switched = next(p for p in experiment.varying_variants if p.kind is bool)
    effects: dict[str, dict[str, Finding]] = {}
    for name in names:
        of_name = {"implementation": name, "switched": switched.name}
        for finding in known.every("variant_effect", experiment, **of_name):
            if finding.estimates:
                effects.setdefault(name, {})[str(finding.metric)] = finding
    metric = known.decisive.name
    whole = {name: found[metric] for name, found in effects.items() if metric in found}
    last = max((e["value"] for f in whole.values() for e in f.estimates), default=0)
    groups: dict[str, list[str]] = {}
    for name, finding in whole.items():
        for estimate in finding.estimates:
            if estimate["value"] == last:
                groups.setdefault(estimate["verdict"], []).append(name)
    decided = [verdict for verdict in VARIANT_VERDICTS if verdict in groups]
    verdict = VARIANT_VERDICTS[decided[0]] if len(groups) == len(decided) == 1 else "mixed"
    if not decided:
        verdict = "inconclusive"
    key, values = "conclusion.variant.missing", dict[str, Tellable](switched=Label(switched.labels))
    if decided:
        key = "conclusion.variant"
        outcomes = [
            say(key, *known.about, names=Listed(groups[code]))
            for code, key in OUTCOMES.items()
            if code in groups
        ]
        values["outcomes"] = Listed(outcomes, "outcomes.separator")
        values["metric"] = MetricName(metric)
    elif whole:
        key = "conclusion.variant.inconclusive"
    if whole:
        values |= {"symbol": experiment.parameter.symbol, "last": last}
    about = known.about if decided else ()
    told = [tell(key, *about, sources=[*whole.values()], **values)]
    with_it = next(v for v in experiment.variants if dict(v)[switched.name] is True)
    without = tuple((k, False if k == switched.name else v) for k, v in with_it)
    if len(names) == 2 and experiment.baseline in names:
        (other,) = (name for name in names if name != experiment.baseline)
        told += _tell_both_leads(known, experiment, other, with_it, without)
    else:
        told += _tell_variants_choice(known, experiment, with_it)
    told += _tell_effects(known, effects, switched.name)
    told += tell_changed_pass(known, experiment, effects, groups.get("below", ()), last)
    told += _tell_exact_effect(experiment, switched.name)
    told += tell_checks(known, [experiment], names)
    return _Section(verdict, told, {"switched": switched.name})


def _tell_effects(
    known: Known, effects: Mapping[str, Mapping[str, Finding]], switched: str
) -> Iterator[Told]:
    """What the variant does to each implementation's metrics, beside what operations say.

    Of many implementations, only the largest gain, where it is decided.
    """
    if not effects:
        return
    parts = [metric.name for metric in known.parts]
    effects = {n: {m: f for m, f in found.items() if m in (parts or found)}
               for n, found in effects.items()}  # fmt: skip
    gains = known.every("variant_gain", switched=switched)[:1]
    ideal = {"ideal": Number(gains[0].facts["ideal"])} if gains else {}
    if len(effects) > MOST_EFFECTS:
        if most := _most_gain(known, effects):
            keys = ("conclusion.variant.most", "conclusion.variant.most.ideal")
            yield tell(keys[bool(gains)], sources=gains, **most, **ideal)
        return
    told = []
    for name, found in effects.items():
        each = [_part(known.benchmark.metric(m), finding.facts) for m, finding in found.items()]
        told.append(say("conclusion.each.effect", name=name, parts=Listed(each)))
    keys = ("conclusion.variant.effects", "conclusion.variant.effects.ideal")
    yield tell(keys[bool(gains)], sources=gains, effects=clauses(told), **ideal)


def _most_gain(
    known: Known, effects: Mapping[str, Mapping[str, Finding]]
) -> dict[str, Tellable] | None:
    """Who gains most, in which part and where; None where another may gain as much."""
    every = [
        (estimate, name, finding)
        for name, found in effects.items()
        for finding in found.values()
        for estimate in finding.estimates
    ]
    most, name, finding = max(every, key=lambda each: float(each[0]["estimate"]))
    others = [e["high"] for e, other, _ in every if other != name]
    if None in (most["low"], *others) or not exceeds_margin(most["low"] / max(others)):
        return None
    return {
        "most_name": name,
        "most_part": part_name(known.benchmark.metric(str(finding.metric))),
        "most_gain": Measured(rounded(most["estimate"])),
        "most_at": most["value"],
        "symbol": known.experiment_of(finding).parameter.symbol,
    }


def _tell_both_leads(
    known: Known, experiment: Experiment, other: str, with_it: Variant, without: Variant
) -> Iterator[Told]:
    """The lead of the other implementation with the variant, and without it."""
    spans: dict[str, Tellable] = {}
    sources = []
    for name, variant in (("on_range", with_it), ("off_range", without)):
        ratios, choice = pair_ratios(known, experiment, other, variant, known.decisive.name)
        if not ratios or choice is None:
            return
        span = describe_range(ratios)
        spans[name] = Range(*printed_ends(span))
        sources.append(choice)
    yield tell(
        "conclusion.variant.leads",
        *known.about,
        sources=sources,
        pair_name=other,
        pair_baseline=experiment.baseline,
        **spans,
    )


def _tell_variants_choice(known: Known, experiment: Experiment, variant: Variant) -> Iterator[Told]:
    """Who is the best with the variant, or suffices where."""
    metric = known.decisive
    choice = known.find("choice", experiment, metric=metric.name, variant=dict(variant))
    if choice is None or not choice.estimates:
        return
    decided = _decided(known, [experiment], [choice])
    values: dict[str, Tellable] = {
        "metric": MetricName(metric.name),
        "with_it": Listed(settings(known.benchmark, dict(variant))),
    }
    best = sufficient(decided.places)
    if best and all(place.is_alone for place in decided.places):
        values |= {"name": best[0], "symbol": experiment.parameter.symbol}
        yield tell("conclusion.variant.best", *known.about, sources=[choice], **values)
    elif decided.clauses:
        values["winners"] = decided.winners()
        yield tell("conclusion.variant.choice", *known.about, sources=[choice], **values)


def _tell_exact_effect(experiment: Experiment, switched: str) -> Iterator[Told]:
    """Whether an exact metric is the same with the variant and without."""
    for metric in metrics_of(experiment.benchmark, exact=True):
        by_run: dict[tuple[Any, ...], set[float]] = {}
        for row in experiment.metrics:
            if row["metric"] == metric.name and row["status"] == "ok":
                rest = [v for k, v in experiment.variant_of(row) if k != switched]
                key = (row["implementation"], experiment.value_of(row), *rest)
                by_run.setdefault(key, set()).add(row["value"])
        if by_run and all(len(values) == 1 for values in by_run.values()):
            label = heading(metric.labels)
            yield tell("conclusion.variant.exact_same", exact_metric_heading=label)


# Several implementations


def _conclude_choice(known: Known, group: Sequence[Experiment], names: Sequence[str]) -> _Section:
    metric = known.decisive
    choices, leading = _choices_of(known, group, metric.name), set[str]()
    verdict, told = "missing", [tell("conclusion.choice.missing", symbol=group[0].parameter.symbol)]
    if choices:
        decided, label = _decided(known, group, choices), MetricName(metric.name)
        verdict, told = told_decision(decided, SECTION, known.about, choices, metric=label)
        leading = decided.names
    for part in known.parts:
        found = _choices_of(known, group, part.name)
        of_part = _decided(known, group, found)
        if of_part.names - leading:
            winners = {"part": part_name(part), "part_winners": of_part.winners()}
            told.append(tell("conclusion.choice.part", sources=found, **winners))
            break
    told += tell_limits(known, group)
    told += tell_jump(known, group)
    told += _tell_extremes(group)
    # Of whoever is the best most often, by the medians.
    wins = Counter(estimate["best"] for choice in choices for estimate in choice.estimates)
    leaders = [max(sorted(wins), key=lambda name: wins[name])] if wins else []
    told += tell_cause(known, group, *leaders, group[0].baseline)
    told += tell_account(known, group[0], group[0].baseline, group[0].variants[0])
    told += tell_checks(known, group, names)
    reasons = list({str(r): r for choice in choices for r in choice.reasons}.values())
    return _Section(verdict, told, reasons=reasons)


def _choices_of(known: Known, group: Sequence[Experiment], metric: str) -> list[Finding]:
    return [choice for choice in known.every("choice", *group, metric=metric) if choice.estimates]


def _decided(known: Known, group: Sequence[Experiment], choices: Sequence[Finding]) -> Decided:
    """Who to use where, over the places of choices, which may differ in any parameter."""
    benchmark, places = known.benchmark, []
    order = [*benchmark.variants, *benchmark.derived_parameters, *benchmark.given]
    names = list(dict.fromkeys(p.name for p in order if p != group[0].parameter))
    for choice in choices:
        experiment = known.experiment_of(choice)
        runs = {
            experiment.value_of(run): run
            for run in experiment.runs
            if experiment.variant_of(run) == choice.variant
        }
        places += [
            Place(value, {name: runs[value][name] for name in names}, each)
            for each in choice.estimates
            for value in [each["value"]]
        ]
    rows = {place.row for place in places}
    telling = [n for n in names if len({(p.row, p.where[n]) for p in places}) > len(rows)]
    places = [Place(p.row, {name: p.where[name] for name in telling}, p.choice) for p in places]
    return decide(benchmark, group[0].parameter, places)


def _tell_extremes(group: Sequence[Experiment]) -> Iterator[Told]:
    """Who needs the most and the least of an exact metric, at the largest value of all of them."""
    experiment = group[0]
    for metric in metrics_of(experiment.benchmark, exact=True):
        found: dict[int, dict[str, float]] = {}
        for row in experiment.metrics:
            is_shown = row["metric"] == metric.name and row["status"] == "ok"
            if is_shown and experiment.variant_of(row) == experiment.variants[0]:
                found.setdefault(experiment.value_of(row), {})[row["implementation"]] = row["value"]
        at = max(found, key=lambda value: (len(found[value]), value), default=None)
        if at is None or len(found[at]) < 2:
            continue
        values = found[at]
        least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        if not exceeds_margin(values[most] / values[least]):
            continue
        yield tell(
            "conclusion.choice.exact",
            exact_metric=MetricName(metric.name),
            symbol=experiment.parameter.symbol,
            exact_at=at,
            exact_unit=metric.unit,
            least=least,
            most=most,
            exact_least=in_units(values[least]),
            exact_most=in_units(values[most]),
        )
