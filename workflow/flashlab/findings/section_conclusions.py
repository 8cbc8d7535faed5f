"""What a reader should take from each section: one conclusion, quoted from its findings.

A section is an experiment, or neighbouring ones that differ in one fixed parameter
(`flashlab.sweep.sections_of`). Its conclusion begins with a heading and goes on with how much, the
measured cause, and what was looked for and not found. Which heading it gets depends on what was
compared:

- one implementation: how its decisive metric changes along the sweep;
- a variant switched on and off: whom it helps;
- two implementations: how many times as good as the baseline the other one is, and the trend;
- more: who is the best where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.files import canonical
from flashlab.findings.choice_map import suffice
from flashlab.findings.comparisons import describe_range, trend_of
from flashlab.findings.conclusion_parts import (
    Known,
    Statement,
    as_ratios,
    build_conclusion,
    in_percent,
    in_units,
    medians_along,
    stretches_of,
    tell_account,
    tell_cause,
    tell_checks,
    tell_equal_work,
    tell_exact,
    tell_limits,
    tell_saturation,
)
from flashlab.findings.model import Finding, Reason
from flashlab.findings.ratios import Ratio, exceeds_margin, rounded, shared_verdict, with_verdict
from flashlab.sweep import Sweep, Variant, metrics_of, sections_of

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
            group,
            "section",
            verdict,
            [heading, *kept, *checked],
            experiment=group[0].name,
            subject=subject,
            reasons=[each for each in reasons if not (limits and each.status == "oom")],
        )


SOMEWHERE = ("cause_where", "account_at", "account_symbol")
"""What tells where a statement holds: elsewhere it says the same."""


def _content(statement: Statement) -> str:
    """What a statement that is told once says, wherever; empty for the others."""
    if not statement.key.startswith(ONCE):
        return ""
    said = {k: v for k, v in statement.params.items() if k not in SOMEWHERE}
    return canonical([statement.key, said])


Conclusion = tuple[str, Sequence[Statement], Mapping[str, Any], Sequence[Reason]]
"""Verdict, statements, subject and reasons."""


def _conclude(known: Known, group: Sequence[Sweep]) -> Conclusion:
    good = [run for sweep in group for run in sweep.runs if run["status"] == "ok"]
    names = sorted({name for sweep in group for name in sweep.implementations})
    names.sort(key=lambda name: name != group[0].baseline)
    able = [name for name in names if any(run["implementation"] == name for run in good)]
    metric = known.decisive
    if not good:
        count = sum(len(sweep.runs) for sweep in group)
        told = [Statement("conclusion.no_numbers", {"count": count})]
        return _build(known, "no_numbers", told)
    if metric is None or len(able) < 2:
        told = list(_tell_alone(known, group, able[0]))
        return _build(known, "alone", told, {"implementation": able[0]})
    if len(group) == 1 and any(p.kind is bool for p in group[0].varying_variants):
        return _conclude_variant(known, group[0], able)
    if len(names) == 2 and len(group) == 1 and group[0].baseline in names:
        return _conclude_pair(known, group[0])
    return _conclude_choice(known, group, names)


def _build(
    known: Known,
    verdict: str,
    told: Sequence[Statement],
    subject: Mapping[str, Any] | None = None,
    reasons: Sequence[Reason] = (),
) -> Conclusion:
    metric = {} if known.decisive is None else {"metric": known.decisive.name}
    return verdict, told, {**(subject or {}), **metric}, reasons


# One implementation


def _tell_alone(known: Known, group: Sequence[Sweep], name: str) -> Iterator[Statement]:
    """How the only implementation with numbers does, in the first series that has any."""
    metric = known.decisive or metrics_of(known.benchmark, exact=True)[0]
    each_series = (
        (sweep, medians_along(sweep, name, variant, metric.name))
        for sweep in group
        for variant in sweep.variants
    )
    sweep, found = next((sweep, found) for sweep, found in each_series if found)
    first, last = min(found), max(found)
    yield Statement(
        "conclusion.alone",
        {
            "first": first,
            "last": last,
            "alone_metric": dict(metric.labels),
            "alone_unit": metric.unit,
            "alone_first": rounded(found[first]),
            "alone_last": rounded(found[last]),
        },
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


def tell_parts(
    known: Known, sweep: Sweep, name: str, variant: Variant, suffix: str = ""
) -> Iterator[Statement]:
    """The ratios of the metrics that the decisive one is the total of."""
    parts, sources = [], []
    for metric in known.parts:
        ratios, choice = pair_ratios(known, sweep, name, variant, metric.name)
        if choice is None or not ratios:
            return
        span = describe_range(ratios)
        parts.append(
            {"label": dict(metric.part or metric.labels), "low": span["low"], "high": span["high"]}
        )
        sources.append(choice)
    if parts:
        yield Statement(f"conclusion.parts{suffix}", {"parts": parts}, sources)


def _pair_heading(ratios: Sequence[Ratio], choice: Finding) -> tuple[str, Statement]:
    """The verdict of a pair, and the heading that states it."""
    if not ratios:
        return "inconclusive", Statement("conclusion.pair.missing", {}, [choice])
    verdict = PAIR_VERDICTS[shared_verdict(ratios)]
    trend = trend_of(ratios) if len(ratios) > 1 else "one"
    params = {
        **describe_range(ratios),
        "at_first": rounded(ratios[0].ratio),
        "at_last": rounded(ratios[-1].ratio),
        "better_at": with_verdict(ratios, "above"),
        "worse_at": with_verdict(ratios, "below"),
        "equal_at": with_verdict(ratios, "equal"),
        "undecided_at": with_verdict(ratios, "inconclusive"),
    }
    key = f"conclusion.pair.{verdict}" + (f".{trend}" if verdict == "better" else "")
    return verdict, Statement(key, params, [choice])


def _conclude_pair(known: Known, sweep: Sweep) -> Conclusion:
    assert known.decisive is not None
    (other,) = (name for name in sweep.implementations if name != sweep.baseline)
    variant = sweep.variants[0]
    ratios, choice = pair_ratios(known, sweep, other, variant, known.decisive.name)
    assert choice is not None  # there are two implementations with numbers
    verdict, heading = _pair_heading(ratios, choice)
    told = [heading]
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
        for finding in known.every(
            "variant_effect", sweep.name, implementation=name, switched=switched
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


def _conclude_variant(known: Known, sweep: Sweep, names: Sequence[str]) -> Conclusion:
    switched = next(p for p in sweep.varying_variants if p.kind is bool)
    groups: dict[str, list[str]] = {}
    effects: list[dict[str, Any]] = []
    sources: list[Finding] = []
    for name in names:
        found = _gains(known, sweep, name, switched.name)
        if not found:
            continue
        groups.setdefault(_helped(found), []).append(name)
        parts = [
            {
                "label": dict(known.benchmark.metric(metric).part),
                "low": finding.params["low"],
                "high": finding.params["high"],
            }
            for metric, finding in found.items()
        ]
        effects.append({"name": name, "parts": parts})
        sources += found.values()
    decided = [code for code in ("gains", "loses", "level", "mixed") if code in groups]
    verdict = "_".join(decided) if decided in (["gains"], ["loses"], ["level"]) else "mixed"
    if not decided:
        verdict = "inconclusive"
    outcomes = [{"code": code, "names": groups[code]} for code in decided]
    told = [
        Statement(
            "conclusion.variant" + (".inconclusive" if not decided else ""),
            {"outcomes": outcomes, "last": sweep.values[-1]},
            sources,
        ),
    ]
    (with_it,) = [v for v in sweep.variants if dict(v)[switched.name] is True][:1]
    without = tuple((k, False if k == switched.name else v) for k, v in with_it)
    if len(names) == 2 and sweep.baseline in names:
        (other,) = (name for name in names if name != sweep.baseline)
        told += _tell_both_leads(known, sweep, other, with_it, without)
    else:
        told += _tell_variants_choice(known, sweep, with_it)
    told += _tell_effects(known, sweep, effects, switched.name)
    told += _tell_exact_effect(sweep, switched.name)
    told += tell_cause(known, [sweep], sweep.baseline, with_it)
    told += tell_checks(known, [sweep], names)
    return _build(known, verdict, told, {"switched": switched.name})


def _tell_effects(
    known: Known, sweep: Sweep, effects: Sequence[Mapping[str, Any]], switched: str
) -> Iterator[Statement]:
    """What the variant does to each implementation's metrics, beside what operations say.

    Of many implementations, only the largest gain.
    """
    if not effects:
        return
    gains = known.every("variant_gain", None, switched=switched)
    ideal = {"ideal": gains[0].params["ideal"]} if gains else {}
    key = "conclusion.variant." + ("effects" if len(effects) <= MOST_EFFECTS else "most")
    shown = list(effects)
    if len(effects) > MOST_EFFECTS:
        gained = ((each["name"], part) for each in effects for part in each["parts"])
        name, largest = max(gained, key=lambda found: float(found[1]["high"]))
        shown = [{"name": name, "parts": [largest]}]
    yield Statement(key + (".ideal" if gains else ""), {"effects": shown, **ideal}, gains[:1])


def _tell_both_leads(
    known: Known, sweep: Sweep, other: str, with_it: Variant, without: Variant
) -> Iterator[Statement]:
    """The lead of the other implementation with the variant, and without it."""
    assert known.decisive is not None
    spans: dict[str, float] = {}
    sources = []
    for name, variant in (("on", with_it), ("off", without)):
        ratios, choice = pair_ratios(known, sweep, other, variant, known.decisive.name)
        if not ratios or choice is None:
            return
        span = describe_range(ratios)
        spans |= {f"{name}_low": span["low"], f"{name}_high": span["high"]}
        sources.append(choice)
    names = {"pair_name": other, "pair_baseline": sweep.baseline}
    yield Statement("conclusion.variant.leads", {**spans, **names}, sources)


def _tell_variants_choice(known: Known, sweep: Sweep, variant: Variant) -> Iterator[Statement]:
    """Who is the best with the variant."""
    assert known.decisive is not None
    choice = known.find("choice", sweep.name, metric=known.decisive.name, variant=dict(variant))
    if choice is not None and choice.estimates:
        yield Statement(
            "conclusion.variant.choice", {"winners": choice.params["winners"]}, [choice]
        )


def _tell_exact_effect(sweep: Sweep, switched: str) -> Iterator[Statement]:
    """Whether an exact metric is the same with the variant and without."""
    for metric in metrics_of(sweep.benchmark, exact=True):
        by_run: dict[tuple[Any, ...], set[float]] = {}
        for row in sweep.metrics:
            if row["metric"] == metric.name and row["status"] == "ok":
                rest = [v for k, v in sweep.variant_of(row) if k != switched]
                key = (row["implementation"], sweep.value_of(row), *rest)
                by_run.setdefault(key, set()).add(row["value"])
        if by_run and all(len(values) == 1 for values in by_run.values()):
            yield Statement("conclusion.variant.exact_same", {"exact_metric": dict(metric.labels)})


# Several implementations


def _conclude_choice(known: Known, group: Sequence[Sweep], names: Sequence[str]) -> Conclusion:
    metric = known.decisive
    assert metric is not None
    choices = _choices_of(known, group, metric.name)
    told = [_choice_heading(choices)] if choices else [Statement("conclusion.choice.missing")]
    verdict = told[0].key.removeprefix("conclusion.choice.").partition(".")[0]
    for part in known.parts:
        found = _choices_of(known, group, part.name)
        winners = _winners(found)
        if found and [w["names"][0] for w in winners] != [w["names"][0] for w in _winners(choices)]:
            label = dict(part.part or part.labels)
            params = {"part": label, "part_winners": winners}
            told.append(Statement("conclusion.choice.part", params, found))
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
    return [
        choice
        for sweep in group
        for choice in known.every("choice", sweep.name, metric=metric)
        if choice.estimates
    ]


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


def _choice_heading(choices: Sequence[Finding]) -> Statement:
    """Who is the best everywhere with its lead, or else who is where."""
    places = [estimate for choice in choices for estimate in choice.estimates]
    winners = _winners(choices)
    params: dict[str, Any] = {
        "winners": winners,
        "first": min(p["value"] for p in places),
        "last": max(p["value"] for p in places),
        "lead_low": in_percent(min(p["estimate"] for p in places) - 1),
        "lead_high": in_percent(max(p["estimate"] for p in places) - 1),
    }
    verdicts = {choice.verdict for choice in choices}
    names = {choice.params.get("name") for choice in choices}
    if verdicts == {"one_best"} and len(names) == 1:
        params["name"] = names.pop()
        low, high = (choose(p["estimate"] for p in places) for choose in (min, max))
        if high < MANY_TIMES:
            return Statement("conclusion.choice.one_best", params, choices)
        params |= {"low": rounded(low), "high": rounded(high)}
        return Statement("conclusion.choice.one_best.times", params, choices)
    if verdicts <= {"one_best", "one_suffices"} and len(names) == 1:
        params["name"] = names.pop()
        return Statement("conclusion.choice.one_suffices", params, choices)
    key = "inconclusive" if verdicts == {"inconclusive"} else "changes"
    return Statement(f"conclusion.choice.{key}", params, choices)


def _tell_extremes(group: Sequence[Sweep]) -> Iterator[Statement]:
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
        yield Statement(
            "conclusion.choice.exact",
            {
                "exact_metric": dict(metric.labels),
                "exact_unit": metric.unit,
                "exact_at": at,
                "least": least,
                "most": most,
                "exact_least": in_units(values[least]),
                "exact_most": in_units(values[most]),
            },
        )
