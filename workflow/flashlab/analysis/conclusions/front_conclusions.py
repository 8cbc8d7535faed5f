"""What a reader should take from the whole dataset: the decision, and three to five conclusions.

With two implementations the decision is an answer: by how much the other one is better than the
baseline, where it is not, and the measured cause. With `MIN_CHOICES` or more it is a map of who is
best where (`ChoiceMap`), and conclusions on each metric that one chooses by, on what the naive
implementation costs, on the distance to the device's limit, and on what to avoid. No speedup over
the naive implementation is a heading there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.choice_map import ChoiceMap
from flashlab.analysis.conclusions.quoting import (
    Known,
    Told,
    build_conclusion,
    in_units,
    median_at,
    part_name,
    ratio_of,
    tell,
    tell_account,
    tell_cause,
    told_places,
    told_winners,
)
from flashlab.analysis.conclusions.section_conclusions import PAIR_VERDICTS
from flashlab.analysis.experiment import Sweep, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.comparison import describe_range
from flashlab.analysis.ratios import Ratio, rounded, shared_verdict
from flashlab.analysis.select import MIN_CHOICES
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import (
    Heading,
    Listed,
    Measured,
    MetricName,
    Number,
    Range,
    Short,
    Tellable,
    percent,
    say,
)

ALMOST_ALL = 0.8
"""Share of the settings at which one implementation is among the best almost everywhere."""

MOST_EXCEPTIONS = 4

PAIR_HEADINGS = {
    "better": "conclusion.front.pair.better",
    "worse": "conclusion.front.pair.worse",
    "equivalent": "conclusion.front.pair.equivalent",
    "inconclusive": "conclusion.front.pair.inconclusive",
    "mixed": "conclusion.front.pair.mixed",
}
STANDINGS = {
    "above": "conclusion.each.standing.better",
    "below": "conclusion.each.standing.worse",
    "equal": "conclusion.each.standing.equivalent",
    "inconclusive": "conclusion.each.standing.inconclusive",
}
"""What counts at how many settings a verdict holds."""


def front_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one, in their order."""
    overall = known.find("choice", None)
    if overall is None:
        yield from _answer_without_choice(known)
    elif overall.facts["of"] < MIN_CHOICES:
        yield from _answer_pair(known, overall)
    else:
        chart = ChoiceMap.of(known.benchmark, overall)
        yield from _map(known, overall, chart)
        yield from _choices(known, overall, chart)
        yield from _cost_of_naive(known)
        yield from _limit(known)
        yield from _avoid(known)


def _build(known: Known, topic: str, verdict: str, told: list[Told], **subject: Any) -> Finding:
    return build_conclusion(known.sweeps, topic, verdict, told, experiment=None, subject=subject)


# One or two implementations


def _answer_without_choice(known: Known) -> Iterator[Finding]:
    good = {
        run["implementation"]
        for sweep in known.sweeps
        for run in sweep.runs
        if run["status"] == "ok"
    }
    if not good:
        yield _build(known, "answer", "no_numbers", [tell("conclusion.front.no_numbers")])
    else:
        told = tell("conclusion.front.alone", able=Listed(sorted(good)))
        yield _build(known, "answer", "alone", [told])


def _ratios(overall: Finding, name: str, metric: str) -> list[Ratio]:
    """How many times as good as the only other one an implementation is, at every setting."""
    return [
        ratio_of(position, estimate[metric], name)
        for position, estimate in enumerate(overall.estimates)
    ]


def _places(overall: Finding, ratios: list[Ratio], verdict: str) -> list[dict[str, Any]]:
    """The settings at which the ratio has a verdict, by what varies among all of them."""
    settings = [estimate["setting"] for estimate in overall.estimates]
    varying = [name for name in settings[0] if len({s[name] for s in settings}) > 1]
    return [
        {name: settings[ratio.value][name] for name in varying}
        for ratio in ratios
        if ratio.verdict == verdict
    ]


def _answer_pair(known: Known, overall: Finding) -> Iterator[Finding]:
    assert known.decisive is not None
    names = sorted({n for e in overall.estimates for n in _names(e[known.decisive.name])})
    baseline = known.sweeps[0].baseline
    other = next((name for name in names if name != baseline), names[0])
    baseline = next(name for name in names if name != other)
    ratios = _ratios(overall, other, known.decisive.name)
    verdict = PAIR_VERDICTS[shared_verdict(ratios)]
    span = describe_range(ratios)
    values: dict[str, Tellable] = {
        "metric": MetricName(known.decisive.name),
        "implementation": other,
        "baseline": baseline,
        "count": len(ratios),
        "ratio_range": Range(Measured(span["low"]), Measured(span["high"])),
        "standings": _standings(known, ratios),
    }
    shares = _shares(known, other, baseline)
    key = PAIR_HEADINGS[verdict]
    if shares and verdict == "better":
        key = "conclusion.front.pair.better.exact"
    told = [tell(key, *known.about, sources=[overall], **values, **shares)]
    if verdict == "better":
        told.append(tell("conclusion.front.pair.everywhere", count=len(ratios)))
    worse = _places(overall, ratios, "below")
    if worse and verdict == "mixed":
        places: Tellable = told_places(known.benchmark, worse[:MOST_EXCEPTIONS])
        if more := len(worse[MOST_EXCEPTIONS:]):
            places = say("conclusion.more", items=places, count=more)
        told.append(tell("conclusion.front.pair.where_not", *known.about, places=places))
    told += _tell_kernels(known, known.sections, other, baseline)
    yield _build(
        known, "answer", verdict, told,
        implementation=other, baseline=baseline, metric=known.decisive.name,
    )  # fmt: skip


def _standings(known: Known, ratios: Sequence[Ratio]) -> Listed:
    """``faster at 5, undecided at 2``: at how many settings, of those verdicts that there are."""
    counts = {key: sum(r.verdict == verdict for r in ratios) for verdict, key in STANDINGS.items()}
    return Listed([say(key, *known.about, count=n) for key, n in counts.items() if n])


def _names(place: Mapping[str, Any]) -> list[str]:
    return [place["best"], place["runner_up"]]


def _shares(known: Known, name: str, baseline: str) -> dict[str, Tellable]:
    """An exact metric as a share of the baseline's over all settings; empty unless it is less."""
    metrics = metrics_of(known.benchmark, exact=True)
    if not metrics:
        return {}
    metric, shares = metrics[0], []
    for sweep in known.sections:
        for run in sweep.run_rows_of(name):
            at = sweep.variant_of(run), sweep.value_of(run), metric.name
            mine, theirs = median_at(sweep, name, *at), median_at(sweep, baseline, *at)
            if mine is not None and theirs:
                shares.append(mine / theirs)
    if not shares or max(shares) >= 1:
        return {}
    return {
        "exact_metric": MetricName(metric.name),
        "exact_share": Range(percent(min(shares)), percent(max(shares))),
    }


def _tell_kernels(known: Known, sweeps: list[Sweep], other: str, baseline: str) -> Iterator[Told]:
    """The measured cause of the baseline's time, and the other's where it was counted too."""
    found = list(tell_cause(known, sweeps, baseline))
    yield from found or tell_cause(known, sweeps, other)


# More


def _map(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """The map itself: by the first part of the total, if there is one, and by the total."""
    assert known.decisive is not None
    metrics = [*known.parts[:1], known.decisive]
    facts = {
        "row": chart.row.name,
        "rows": chart.rows,
        "columns": [list(column) for column in chart.columns],
        "charts": [
            {
                "metric": metric.name,
                "cells": chart.cells(metric.name),
                "rare": chart.rare(metric.name),
            }
            for metric in metrics
        ],
    }
    yield build_conclusion(
        known.sweeps,
        "map",
        "map",
        [tell("conclusion.map", *known.about, sources=[overall])],
        experiment=None,
        subject={"metric": known.decisive.name},
        facts=facts,
    )


def _choices(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """Which one to use by each metric of the map."""
    assert known.decisive is not None
    for metric in [*known.parts[:1], known.decisive]:
        verdict, headed = _headed(overall, chart, metric)
        told = [headed]
        told += _leads(overall, metric)
        if metric == known.decisive and "wrong" in overall.facts:
            told.append(_wrong_choice(known, overall))
        yield _build(known, "choice", verdict, told, metric=metric.name)


def _headed(overall: Finding, chart: ChoiceMap, metric: Metric) -> tuple[str, Told]:
    """One for almost all settings, or who suffices at which sizes; with the verdict."""
    (tally,) = [t for t in overall.facts["tallies"] if t["metric"] == metric.name]
    first, of = tally["counts"][0], overall.facts["count"]
    label = MetricName(metric.name, part=True)
    use = say("use", metric.name, metric=Heading(label))
    if first["level"] >= ALMOST_ALL * of:
        name = first["implementation"]
        if first["level"] == of:
            told = tell("conclusion.front.choice.always", sources=[overall], use=use, name=name)
            return "always", told
        counts = {"name_count": first["level"], "of": of}
        key = "conclusion.front.choice.most"
        return "most", tell(key, sources=[overall], use=use, name=name, **counts)
    winners = chart.winners(metric.name)
    if len(winners) <= MOST_EXCEPTIONS:
        stretches = told_winners(winners, chart.row.symbol)
        key = "conclusion.front.choice.by_size"
        return "by_size", tell(key, sources=[overall], use=use, stretches=stretches)
    listed = Listed(
        [
            say("choice.count", name=each["implementation"], count=each["level"])
            for each in tally["counts"]
        ]
    )
    key = "conclusion.front.choice.varies"
    return "varies", tell(key, sources=[overall], use=use, of=of, counts=listed)


def _leads(overall: Finding, metric: Metric) -> Iterator[Told]:
    """By how much each leads where it is alone, and where almost everywhere does not hold."""
    leads: dict[str, list[float]] = {}
    for estimate in overall.estimates:
        place = estimate[metric.name]
        if len(place["level"]) == 1 and not place["undecided"]:
            leads.setdefault(place["best"], []).append(place["estimate"] - 1)
    listed = [
        say(
            "conclusion.each.lead",
            name=name,
            range=Range(percent(min(found)), percent(max(found))),
        )
        for name, found in sorted(leads.items(), key=lambda item: -len(item[1]))
    ]
    if listed:
        yield tell("conclusion.front.choice.leads", leads=Listed(listed[:3]))


def _wrong_choice(known: Known, overall: Finding) -> Told:
    """What it costs to choose by a part, and what the operations say of that part."""
    facts, name = overall.facts, overall.facts["wrong"]
    found = [
        finding
        for sweep in known.sections
        for finding in known.every("balance", sweep.name, implementation=name)
        if finding.estimates and "ideal" in finding.facts
    ]
    values: dict[str, Tellable] = {
        "wrong": name,
        "wrong_count": facts["wrong_count"],
        "wrong_part": facts["part"],
        "wrong_range": Range(Measured(facts["low"]), Measured(facts["high"])),
    }
    if not found:
        return tell("conclusion.front.wrong", *known.about, sources=[overall], **values)
    worst = max(found, key=lambda finding: float(finding.facts["high"]))
    return tell(
        "conclusion.front.wrong.balance",
        *known.about,
        sources=[overall, worst],
        **values,
        balance_high=Measured(worst.facts["high"]),
        balance_ideal=Number(worst.facts["ideal"]),
        balance_part=part_name(known.benchmark.metric(str(worst.metric))),
        balance_other=part_name(known.benchmark.metric(worst.subject["other_metric"])),
    )


def _cost_of_naive(known: Known) -> Iterator[Finding]:
    """What the naive implementation needs of an exact metric, at the setting where it is most."""
    naive = known.benchmark.naive
    worst: tuple[float, Finding, Sweep] | None = None
    for sweep in known.sections:
        for finding in known.every("exact_comparison", sweep.name, baseline=naive):
            if finding.verdict != "less":
                continue
            low = float(finding.facts["low"])
            if worst is None or low < worst[0]:
                worst = low, finding, sweep
    if worst is None or naive is None:
        return
    low, finding, sweep = worst
    metric = known.benchmark.metric(str(finding.metric))
    variant, at, other = finding.variant or (), finding.facts["low_at"], finding.subject
    mine = median_at(sweep, other["implementation"], variant, at, metric.name)
    theirs = median_at(sweep, naive, variant, at, metric.name)
    assert mine is not None and theirs is not None  # the ratio was taken of both
    symbol = sweep.parameter.symbol
    told = [
        tell("conclusion.front.naive", sources=[finding], naive=naive),
        tell(
            "conclusion.front.naive.figures",
            exact_symbol=symbol,
            exact_at=at,
            exact_theirs=in_units(theirs),
            exact_unit=metric.unit,
            exact_times=round(theirs / mine),
            exact_mine=in_units(mine),
            exact_name=other["implementation"],
        ),
        *tell_account(known, sweep, naive, variant),
    ]
    limits = [
        each
        for section in known.sections
        for each in known.every("out_of_memory", section.name, implementation=naive)
        if each.verdict == "limit_found" and section.parameter == sweep.parameter
    ]
    if limits:
        smallest = limits[0].facts["smallest"]
        key = "conclusion.front.naive.limit"
        told.append(tell(key, sources=limits[:1], exact_symbol=symbol, naive_oom_at=smallest))
    yield _build(
        known, "naive", "naive", told,
        section=sweep.name, metric=metric.name, implementation=other["implementation"],
        baseline=naive,
    )  # fmt: skip


def _limit(known: Known) -> Iterator[Finding]:
    """How near the best one comes to the device's matrix-product rate, and what holds it there."""
    found = [
        finding
        for sweep in known.sections
        for finding in known.every("roofline", sweep.name)
        if finding.verdict != "model_error"
    ]
    if not found:
        return
    best = max(found, key=lambda finding: float(finding.facts["matrix_high"]))
    sweep = next(s for s in known.sweeps if s.name == best.experiment)
    name, metric = best.subject["implementation"], known.benchmark.metric(str(best.metric))
    at = max(best.estimates, key=lambda each: float(each["matrix_percent"]["estimate"]))["value"]
    ceiling, vendor = best.facts["ceiling"], best.facts["vendor"]
    share = float(best.facts["matrix_high"]) / 100
    told = [
        tell(
            "conclusion.front.limit",
            sources=[best],
            limit_name=name,
            limit_percent=percent(share),
        )
    ]
    if vendor:
        told.append(
            tell(
                "conclusion.front.limit.vendor",
                limit_symbol=sweep.parameter.symbol,
                limit_at=at,
                limit_part=part_name(metric),
                limit_ceiling=Measured(ceiling),
                limit_vendor_percent=percent(share * ceiling / vendor),
                limit_vendor=Measured(vendor),
            )
        )
    for other in sorted({n for sweep in known.sweeps for n in sweep.implementations}):
        told += _tell_matrix(known, other)
        if len(told) > 2:
            break
    yield _build(known, "limit", "limit", told, section=str(best.experiment), implementation=name)


def _tell_matrix(known: Known, name: str) -> Iterator[Told]:
    """How busy the matrix units of an implementation are at most, where they bind it."""
    found = [
        finding
        for sweep in known.sections
        for finding in known.every("cause", sweep.name, implementation=name)
        if finding.verdict == "matrix_bound"
    ]
    if not found:
        return
    best = max(found, key=_matrix_activity)
    yield tell(
        "conclusion.front.limit.matrix",
        sources=[best],
        matrix_percent=percent(_matrix_activity(best) / 100),
        matrix_part=part_name(known.benchmark.metric(str(best.metric))),
        matrix_name=name,
    )


def _matrix_activity(cause: Finding) -> float:
    """Percent of the time in which the matrix units are active, at most."""
    return max(rounded(each["matrix_percent"]) for each in cause.estimates)


def _avoid(known: Known) -> Iterator[Finding]:
    """What is slower than the naive implementation by the decisive metric."""
    assert known.decisive is not None
    found = [
        finding
        for finding in known.every("worse_than_naive", None, metric=known.decisive.name)
        if finding.verdict == "worse"
    ]
    if not found:
        return
    found.sort(key=lambda f: (-f.facts["count"] / f.facts["of"], f.subject["implementation"]))
    worst, *others = found
    facts, everywhere = worst.facts, worst.facts["count"] == worst.facts["of"]
    told = [
        tell(
            "conclusion.front.avoid.everywhere" if everywhere else "conclusion.front.avoid",
            *known.about,
            sources=[worst],
            avoid=worst.subject["implementation"],
            naive=worst.subject["baseline"],
            avoid_count=facts["count"],
            avoid_of=facts["of"],
        ),
        tell(
            "conclusion.front.avoid.figures",
            *known.about,
            avoid_range=Range(Short(facts["low"]), Short(facts["high"])),
        ),
    ]
    if others:
        also = [
            say("choice.count", name=f.subject["implementation"], count=f.facts["count"])
            for f in others
        ]
        told.append(tell("conclusion.front.avoid.others", sources=others, also=Listed(also)))
    yield _build(known, "avoid", "avoid", told, metric=known.decisive.name)
