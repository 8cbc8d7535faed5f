"""What a reader should take from each section: one conclusion, quoted from its findings.

A section is an experiment, or neighbouring ones that differ in one fixed parameter
(`flashlab.analysis.experiment.sections_of`). Its conclusion begins with a heading and goes on with
how much, the measured cause, and what was looked for and not found. Which heading it gets depends
on what was compared:

- one implementation: how its decisive metric changes along the sweep;
- a variant switched on and off: whom it helps;
- two implementations: how many times as good as the baseline the other one is, and the trend;
- more: who is the best where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.choice_map import suffice
from flashlab.analysis.conclusions.quoting import (
    Known,
    Told,
    as_ratios,
    build_conclusion,
    in_units,
    medians_along,
    part_name,
    stretches_of,
    tell,
    tell_account,
    tell_cause,
    tell_checks,
    tell_equal_work,
    tell_exact,
    tell_limits,
    tell_saturation,
    told_winners,
)
from flashlab.analysis.conclusions.step_conclusions import section_steps, without_times
from flashlab.analysis.experiment import Sweep, Variant, metrics_of, sections_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.comparison import clauses_of, describe_range, trend_of
from flashlab.analysis.ratios import Ratio, exceeds_margin, rounded, shared_verdict
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
    percent,
    say,
    to_json,
)

PAIR_VERDICTS = {
    **{"above": "better", "below": "worse", "equal": "equivalent"},
    **{"mixed": "mixed", "inconclusive": "inconclusive"},
}

MANY_TIMES = 2.0
"""From this lead on a factor says more than a percentage."""

MOST_EFFECTS = 3
"""Most implementations of which each one's gain from a variant is told."""


ONCE = ("conclusion.cause.", "conclusion.account")
"""Statements that are told once, in the first section that has them: later ones say the same."""

MOST_STATEMENTS = 4
"""Most statements after the heading, beside what was looked for and not found."""


def section_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusion of every section, in their order."""
    told: set[str] = set()
    for group in sections_of([sweep for sweep in known.sweeps if not sweep.is_summary]):
        verdict, statements, subject, reasons = _conclude(known, group)
        heading, *others = statements
        fresh = [each for each in others if _content(each) not in told]
        told |= {_content(each) for each in fresh} - {""}
        checked = [each for each in fresh if each.key == "conclusion.checked"]
        kept = [each for each in fresh if each not in checked][:MOST_STATEMENTS]
        limits = any(each.key == "conclusion.out_of_memory" for each in kept)
        yield build_conclusion(
            "section",
            verdict,
            [heading, *kept, *checked],
            experiment=group[0].name,
            **subject,
            reasons=[each for each in reasons if not (limits and each.status == "oom")],
        )


SOMEWHERE = ("cause_where", "account_at", "account_symbol")
"""What tells where a statement holds: elsewhere it says the same."""


def _content(told: Told) -> str:
    """What a statement that is told once says, wherever; empty for the others."""
    if not told.key.startswith(ONCE):
        return ""
    said = {k: v for k, v in told.statement.values.items() if k not in SOMEWHERE}
    return canonical([told.key, to_json(said)])


Conclusion = tuple[str, Sequence[Told], Mapping[str, Any], Sequence[Reason]]
"""Verdict, statements, subject and reasons."""


def _conclude(known: Known, group: Sequence[Sweep]) -> Conclusion:
    good = [run for sweep in group for run in sweep.runs if run["status"] == "ok"]
    names = sorted({name for sweep in group for name in sweep.implementations})
    names.sort(key=lambda name: name != group[0].baseline)
    able = [name for name in names if any(run["implementation"] == name for run in good)]
    metric = known.decisive
    if group[0].is_simulated:
        return _build(known, "simulated", without_times(group))
    if not good:
        count = sum(len(sweep.runs) for sweep in group)
        told = [tell("conclusion.no_numbers", count=count)]
        return _build(known, "no_numbers", told)
    if metric is None or len(able) < 2:
        told = list(_tell_alone(known, group, able[0]))
        return _build(known, "alone", told, {"implementation": able[0]})
    if group[0].steps and not group[0].is_ordered:
        return _build(known, "steps", section_steps(known, group[0]))
    if len(group) == 1 and any(p.kind is bool for p in group[0].varying_variants):
        return _conclude_variant(known, group[0], able)
    if len(names) == 2 and len(group) == 1 and group[0].baseline in names:
        return _conclude_pair(known, group[0])
    return _conclude_choice(known, group, names)


def _build(
    known: Known,
    verdict: str,
    told: Sequence[Told],
    subject: Mapping[str, Any] | None = None,
    reasons: Sequence[Reason] = (),
) -> Conclusion:
    metric = {"metric": known.decisive.name} if known.decisive else {}
    return verdict, told, {**(subject or {}), **metric}, reasons


# One implementation


def _tell_alone(known: Known, group: Sequence[Sweep], name: str) -> Iterator[Told]:
    """How the only implementation with numbers does, in the first series that has any."""
    metric = known.decisive or metrics_of(known.benchmark, exact=True)[0]
    each_series = (
        (sweep, medians_along(sweep, name, variant, metric.name))
        for sweep in group
        for variant in sweep.variants
    )
    sweep, found = next((sweep, found) for sweep, found in each_series if found)
    first, last = min(found), max(found)
    yield tell(
        "conclusion.alone",
        symbol=sweep.parameter.symbol,
        first=first,
        last=last,
        implementation=name,
        alone_metric=MetricName(metric.name),
        alone_unit=metric.unit,
        alone_first=Measured(rounded(found[first])),
        alone_last=Measured(rounded(found[last])),
    )
    yield from tell_cause(known, [sweep], name)
    yield from tell_checks(known, [sweep], [name])


# Two implementations


def pair_ratios(
    known: Known, sweep: Sweep, name: str, variant: Variant, metric: str
) -> tuple[list[Ratio], Finding | None]:
    """How many times as good as the baseline the other one is at each value, and the choice."""
    choice = known.find("choice", sweep.name, metric=metric, variant=dict(variant))
    return (as_ratios(choice, name), choice) if choice else ([], None)


def tell_parts(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Told]:
    """The ratios of the metrics that the decisive one is the total of."""
    parts: list[Tellable] = []
    sources = []
    for metric in known.parts:
        ratios, choice = pair_ratios(known, sweep, name, variant, metric.name)
        if choice is None or not ratios:
            return
        span = describe_range(ratios)
        parts.append(_part(metric, span, is_first=not parts))
        sources.append(choice)
    if parts:
        yield tell("conclusion.parts", sources=sources, parts=Listed(parts))


def _part(metric: Metric, span: Mapping[str, Any], is_first: bool = False) -> Statement:
    """A metric that is part of a total, with its factors: ``backward 2.30–2.59×``."""
    label = MetricName(metric.name, part=True)
    return say(
        "conclusion.each.part",
        part=label if is_first else part_name(metric),
        range=Range(Measured(span["low"]), Measured(span["high"])),
    )


BETTER = by_code(
    *("conclusion.pair.better.one", "conclusion.pair.better.none", "conclusion.pair.better.widens"),
    *("conclusion.pair.better.narrows", "conclusion.pair.better.peaks"),
    "conclusion.pair.better.dips",
)
"""Headings where the other one is better throughout, by how its lead goes along the sweep."""

PAIR_HEADINGS = by_code(
    *("conclusion.pair.worse", "conclusion.pair.equivalent", "conclusion.pair.inconclusive"),
    "conclusion.pair.mixed",
)


def _pair_heading(
    known: Known, sweep: Sweep, name: str, ratios: Sequence[Ratio], choice: Finding
) -> tuple[str, Told]:
    """The verdict of a pair, and the heading that states it."""
    names: dict[str, Tellable] = {"implementation": name, "baseline": sweep.baseline}
    symbol = sweep.parameter.symbol
    if not ratios:
        told = tell("conclusion.pair.missing", sources=[choice], symbol=symbol, **names)
        return "inconclusive", told
    verdict = PAIR_VERDICTS[shared_verdict(ratios)]
    trend = trend_of(ratios) if len(ratios) > 1 else "one"
    span = describe_range(ratios)
    low, high = Measured(span["low"]), Measured(span["high"])
    return verdict, tell(
        BETTER[trend] if verdict == "better" else PAIR_HEADINGS[verdict],
        *known.about,
        sources=[choice],
        **names,
        symbol=symbol,
        first=span["first"],
        low=low,
        low_at=span["low_at"],
        high=high,
        high_at=span["high_at"],
        ratio_range=Range(low, high),
        at_first=Measured(rounded(ratios[0].ratio)),
        at_last=Measured(rounded(ratios[-1].ratio)),
        clauses=clauses_of(ratios, known.about, symbol),
    )


def _conclude_pair(known: Known, sweep: Sweep) -> Conclusion:
    assert known.decisive is not None
    (other,) = (name for name in sweep.implementations if name != sweep.baseline)
    variant = sweep.variants[0]
    ratios, choice = pair_ratios(known, sweep, other, variant, known.decisive.name)
    assert choice is not None  # there are two implementations with numbers
    verdict, headed = _pair_heading(known, sweep, other, ratios, choice)
    told = [headed]
    if ratios:
        told += tell_equal_work(known, sweep, other, variant)
        told += tell_saturation(known, sweep, other, variant)
        told += tell_exact(known, sweep, other, variant)
        told += tell_limits(known, [sweep])
        told += tell_parts(known, sweep, other, variant)
        told += tell_cause(known, [sweep], sweep.baseline)
        told += tell_account(known, sweep, sweep.baseline, variant)
        told += tell_checks(known, [sweep], sweep.implementations)
    subject = {"implementation": other, "baseline": sweep.baseline, "variant": dict(variant)}
    return _build(known, verdict, told, subject, choice.reasons)


# A variant


def _gains(known: Known, sweep: Sweep, name: str, switched: str) -> dict[str, Finding]:
    """The effects of a variant on an implementation, by metric."""
    return {
        str(finding.metric): finding
        for finding in known.across(
            [sweep], "variant_effect", implementation=name, switched=switched
        )
        if finding.estimates
    }


def _helped(effects: Mapping[str, Finding]) -> str:
    """Whether a variant helps at the last value: ``gains``, ``loses``, ``level``, ``mixed``."""
    verdicts = {finding.estimates[-1]["verdict"] for finding in effects.values()}
    if "above" in verdicts:
        return "mixed" if "below" in verdicts else "gains"
    if "below" in verdicts:
        return "loses"
    return "level" if verdicts == {"equal"} else "undecided"


OUTCOMES = by_code(
    *("conclusion.outcome.gains", "conclusion.outcome.loses", "conclusion.outcome.level"),
    "conclusion.outcome.mixed",
)
"""What a variant does, decidedly, to an implementation."""


def _conclude_variant(known: Known, sweep: Sweep, names: Sequence[str]) -> Conclusion:
    switched = next(p for p in sweep.varying_variants if p.kind is bool)
    groups: dict[str, list[str]] = {}
    effects: dict[str, dict[str, Finding]] = {}
    for name in names:
        if found := _gains(known, sweep, name, switched.name):
            groups.setdefault(_helped(found), []).append(name)
            effects[name] = found
    decided = [code for code in OUTCOMES if code in groups]
    verdict = decided[0] if decided in (["gains"], ["loses"], ["level"]) else "mixed"
    if not decided:
        verdict = "inconclusive"
    sources = [finding for found in effects.values() for finding in found.values()]
    quantities = known.benchmark.quantities
    at: dict[str, Tellable] = {"symbol": sweep.parameter.symbol, "last": sweep.values[-1]}
    if decided:
        outcomes = [say(OUTCOMES[c], *quantities, names=Listed(groups[c])) for c in decided]
        headed = tell(
            "conclusion.variant",
            *known.about,
            sources=sources,
            switched_heading=heading(switched.labels),
            outcomes=clauses(outcomes),
            **at,
        )
    else:
        label = Label(switched.labels)
        headed = tell("conclusion.variant.inconclusive", sources=sources, switched=label, **at)
    told = [headed]
    (with_it,) = [v for v in sweep.variants if dict(v)[switched.name] is True][:1]
    without = tuple((k, False if k == switched.name else v) for k, v in with_it)
    if len(names) == 2 and sweep.baseline in names:
        (other,) = (name for name in names if name != sweep.baseline)
        told += _tell_both_leads(known, sweep, other, with_it, without)
    else:
        told += _tell_variants_choice(known, sweep, with_it)
    told += _tell_effects(known, effects, switched.name)
    told += _tell_exact_effect(sweep, switched.name)
    told += tell_cause(known, [sweep], sweep.baseline, with_it)
    told += tell_checks(known, [sweep], names)
    return _build(known, verdict, told, {"switched": switched.name})


def _tell_effects(
    known: Known, effects: Mapping[str, Mapping[str, Finding]], switched: str
) -> Iterator[Told]:
    """What the variant does to each implementation's metrics, beside what operations say.

    Of many implementations, only the largest gain.
    """
    if not effects:
        return
    shown = {name: list(found) for name, found in effects.items()}
    keys = ("conclusion.variant.effects", "conclusion.variant.effects.ideal")
    if len(effects) > MOST_EFFECTS:
        keys = ("conclusion.variant.most", "conclusion.variant.most.ideal")
        every = ((name, metric) for name, found in effects.items() for metric in found)
        name, metric = max(every, key=lambda each: float(effects[each[0]][each[1]].facts["high"]))
        shown = {name: [metric]}
    told = []
    for name, metrics in shown.items():
        parts = [_part(known.benchmark.metric(m), effects[name][m].facts) for m in metrics]
        told.append(say("conclusion.each.effect", name=name, parts=Listed(parts)))
    gains = known.every("variant_gain", None, switched=switched)
    if gains:
        ideal = Number(gains[0].facts["ideal"])
        yield tell(keys[1], sources=gains[:1], effects=clauses(told), ideal=ideal)
    else:
        yield tell(keys[0], effects=clauses(told))


def _tell_both_leads(
    known: Known, sweep: Sweep, other: str, with_it: Variant, without: Variant
) -> Iterator[Told]:
    """The lead of the other implementation with the variant, and without it."""
    assert known.decisive is not None
    spans: dict[str, Tellable] = {}
    sources = []
    for name, variant in (("on_range", with_it), ("off_range", without)):
        ratios, choice = pair_ratios(known, sweep, other, variant, known.decisive.name)
        if not ratios or choice is None:
            return
        span = describe_range(ratios)
        spans[name] = Range(Measured(span["low"]), Measured(span["high"]))
        sources.append(choice)
    yield tell(
        "conclusion.variant.leads",
        sources=sources,
        pair_name=other,
        pair_baseline=sweep.baseline,
        **spans,
    )


def _tell_variants_choice(known: Known, sweep: Sweep, variant: Variant) -> Iterator[Told]:
    """Who is the best with the variant."""
    metric = known.decisive
    assert metric is not None
    choice = known.find("choice", sweep.name, metric=metric.name, variant=dict(variant))
    if choice is not None and choice.estimates:
        yield tell(
            "conclusion.variant.choice",
            *known.about,
            sources=[choice],
            metric=MetricName(metric.name),
            winners=told_winners(choice.facts["winners"], sweep.parameter.symbol),
        )


def _tell_exact_effect(sweep: Sweep, switched: str) -> Iterator[Told]:
    """Whether an exact metric is the same with the variant and without."""
    for metric in metrics_of(sweep.benchmark, exact=True):
        by_run: dict[tuple[Any, ...], set[float]] = {}
        for row in sweep.metrics:
            if row["metric"] == metric.name and row["status"] == "ok":
                rest = [v for k, v in sweep.variant_of(row) if k != switched]
                key = (row["implementation"], sweep.value_of(row), *rest)
                by_run.setdefault(key, set()).add(row["value"])
        if by_run and all(len(values) == 1 for values in by_run.values()):
            label = heading(metric.labels)
            yield tell("conclusion.variant.exact_same", exact_metric_heading=label)


# Several implementations


def _conclude_choice(known: Known, group: Sequence[Sweep], names: Sequence[str]) -> Conclusion:
    metric = known.decisive
    assert metric is not None
    choices = _choices_of(known, group, metric.name)
    symbol = group[0].parameter.symbol
    verdict, headed = _choice_heading(known, choices, symbol)
    told = [headed]
    for part in known.parts:
        found = _choices_of(known, group, part.name)
        winners = _winners(found)
        if found and [w["names"][0] for w in winners] != [w["names"][0] for w in _winners(choices)]:
            label, listed = MetricName(part.name, part=True), told_winners(winners, symbol)
            told.append(
                tell("conclusion.choice.part", sources=found, part=label, part_winners=listed)
            )
            break
    told += tell_limits(known, group)
    told += _tell_extremes(group)
    leader = _leader(choices)
    explained = list(tell_cause(known, group, leader)) if leader else []
    told += explained or tell_cause(known, group, group[0].baseline)
    told += tell_account(known, group[0], group[0].baseline, group[0].variants[0])
    told += tell_checks(known, group, names)
    reasons = list({str(r): r for choice in choices for r in choice.reasons}.values())
    return _build(known, verdict, told, {}, reasons)


def _choices_of(known: Known, group: Sequence[Sweep], metric: str) -> list[Finding]:
    return [choice for choice in known.across(group, "choice", metric=metric) if choice.estimates]


def _by_value(choices: Sequence[Finding]) -> dict[int, list[Mapping[str, Any]]]:
    places: dict[int, list[Mapping[str, Any]]] = {}
    for choice in choices:
        for estimate in choice.estimates:
            places.setdefault(estimate["value"], []).append(estimate)
    return places


def _winners(choices: Sequence[Finding]) -> list[dict[str, Any]]:
    """Who suffices in all of the group's experiments, by stretches of values."""
    return stretches_of({value: suffice(places) for value, places in _by_value(choices).items()})


def _leader(choices: Sequence[Finding]) -> str | None:
    """Who is the best most often."""
    wins = Counter(estimate["best"] for choice in choices for estimate in choice.estimates)
    return max(sorted(wins), key=lambda name: wins[name]) if wins else None


def _choice_heading(known: Known, choices: Sequence[Finding], symbol: str) -> tuple[str, Told]:
    """Who is the best everywhere with its lead, or else who is where."""
    assert known.decisive is not None
    if not choices:
        return "missing", tell("conclusion.choice.missing", symbol=symbol)
    leads = [estimate["estimate"] for choice in choices for estimate in choice.estimates]
    low, high = min(leads), max(leads)
    verdicts = {choice.verdict for choice in choices}
    names = {choice.facts.get("name") for choice in choices}
    values: dict[str, Tellable] = {"metric": MetricName(known.decisive.name), "symbol": symbol}
    if verdicts <= {"one_best", "one_suffices"} and len(names) == 1:
        values["name"] = str(names.pop())
        if verdicts != {"one_best"}:
            key = "conclusion.choice.one_suffices"
        elif high < MANY_TIMES:
            key = "conclusion.choice.one_best"
            values["lead"] = Range(percent(low - 1), percent(high - 1))
        else:
            key = "conclusion.choice.one_best.times"
            values["ratio_range"] = Range(Measured(rounded(low)), Measured(rounded(high)))
        verdict = "one_best" if verdicts == {"one_best"} else "one_suffices"
        return verdict, tell(key, *known.about, sources=choices, **values)
    values["winners"] = told_winners(_winners(choices), symbol)
    verdict, key = "changes", "conclusion.choice.changes"
    if verdicts == {"inconclusive"}:
        verdict, key = "inconclusive", "conclusion.choice.inconclusive"
    return verdict, tell(key, *known.about, sources=choices, **values)


def _tell_extremes(group: Sequence[Sweep]) -> Iterator[Told]:
    """Who needs the most and the least of an exact metric, at the largest value of all of them."""
    sweep = group[0]
    for metric in metrics_of(sweep.benchmark, exact=True):
        found: dict[int, dict[str, float]] = {}
        for row in sweep.metrics:
            is_shown = row["metric"] == metric.name and row["status"] == "ok"
            if is_shown and sweep.variant_of(row) == sweep.variants[0]:
                found.setdefault(sweep.value_of(row), {})[row["implementation"]] = row["value"]
        at = max(found, key=lambda value: (len(found[value]), value), default=None)
        if at is None or len(found[at]) < 2:
            continue
        values = found[at]
        least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        if not exceeds_margin(values[most] / values[least]):
            continue
        yield tell(
            "conclusion.choice.exact",
            exact_metric_heading=heading(metric.labels),
            symbol=sweep.parameter.symbol,
            exact_at=at,
            exact_unit=metric.unit,
            least=least,
            most=most,
            exact_least=in_units(values[least]),
            exact_most=in_units(values[most]),
        )
