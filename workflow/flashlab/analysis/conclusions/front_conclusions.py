"""What a reader should take from the whole dataset: the decision, and three to five conclusions.

With two implementations the decision is an answer: by how much the other one is better than the
baseline, where it is not, and the measured cause. With `MIN_CHOICES` or more it is a map of who is
best where (`ChoiceMap`), and conclusions on each metric that one chooses by, on what the naive
implementation costs, on the distance to the device's limit, and on what to avoid. No speedup over
the naive implementation is a heading there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.choosing import FRONT, ChoiceMap, told_decision
from flashlab.analysis.conclusions.explaining import tell_cause
from flashlab.analysis.conclusions.quoting import (
    Known,
    Told,
    build_conclusion,
    in_units,
    part_name,
    ratio_of,
    tell,
    tell_account,
    tell_parts,
    told_part,
)
from flashlab.analysis.experiment import IMPLAUSIBLE, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.comparison import VERDICTS, describe_range, printed_ends
from flashlab.analysis.ratios import Ratio, shared_verdict, with_verdict
from flashlab.analysis.select import MIN_CHOICES
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Metric
from flashlab.telling.codes import by_code
from flashlab.telling.values import (
    Heading,
    Listed,
    Measured,
    MetricName,
    Number,
    Range,
    Short,
    Statement,
    Tellable,
    clauses,
    percent,
    say,
    settings,
)

MOST_EXCEPTIONS = 4

PAIR_HEADINGS = by_code(
    *("conclusion.front.pair.better", "conclusion.front.pair.worse"),
    *("conclusion.front.pair.equivalent", "conclusion.front.pair.inconclusive"),
    "conclusion.front.pair.mixed",
)
STANDINGS = {
    "above": "conclusion.each.standing.better",
    "below": "conclusion.each.standing.worse",
    "equal": "conclusion.each.standing.equivalent",
    "inconclusive": "conclusion.each.standing.inconclusive",
}
"""What counts at how many settings a verdict holds."""


MAP_SIGNS = by_code(
    *("conclusion.map.alone", "conclusion.map.level", "conclusion.map.partly"),
    *("conclusion.map.undecided", "conclusion.map.changes"),
)
"""What the signs of the map's cells stand for, by their states."""


def front_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one, in their order."""
    overall = known.find("choice")
    if overall is None:
        runs = [run for experiment in known.experiments for run in experiment.runs]
        if good := {run["implementation"] for run in runs if run["status"] == "ok"}:
            told = tell("conclusion.front.alone", able=Listed(sorted(good)))
            yield build_conclusion("answer", "alone", [told])
        else:
            yield build_conclusion("answer", "no_numbers", [tell("conclusion.front.no_numbers")])
    elif overall.facts["of"] < MIN_CHOICES:
        yield from _answer_pair(known, overall)
    else:
        chart = ChoiceMap(known.benchmark, overall)
        yield from _map(known, overall, chart)
        yield from _choices(known, overall, chart)
        yield from _cost_of_naive(known)
        yield from _avoid(known)
        yield from _limit(known)


# One or two implementations


def _answer_pair(known: Known, overall: Finding) -> Iterator[Finding]:
    places = [estimate[known.decisive.name] for estimate in overall.estimates]
    names = sorted({place[rank] for place in places for rank in ("best", "runner_up")})
    other = next(name for name in names if name != known.experiments[0].baseline)
    baseline = next(name for name in names if name != other)
    ratios = [ratio_of(at, place, other) for at, place in enumerate(places)]
    verdict = shared_verdict(ratios, VERDICTS)
    span = describe_range(ratios)
    standings = {key: len(with_verdict(ratios, code)) for code, key in STANDINGS.items()}
    values: dict[str, Tellable] = {
        "metric": MetricName(known.decisive.name),
        "implementation": other,
        "baseline": baseline,
        "count": len(ratios),
        "ratio_range": Range(*printed_ends(span)),
        "standings": Listed(
            [say(key, *known.about, count=count) for key, count in standings.items() if count]
        ),
    }
    shares = _shares(known, other, baseline)
    key = PAIR_HEADINGS[verdict]
    if shares and verdict == "better":
        key = "conclusion.front.pair.better.exact"
    apart = overall.facts.get("apart", 0)
    if apart:
        key = "conclusion.front.pair.cards"
    told = [tell(key, *known.about, sources=[overall], **values, **shares, apart=apart)]
    if apart:
        told.append(tell("conclusion.front.pair.cards.unknown"))
    elif verdict == "better":
        told.append(tell("conclusion.front.pair.everywhere", count=len(ratios)))
    if verdict in ("mixed", "inconclusive"):
        told += _parts(known, overall, other, verdict)
    every = [estimate["setting"] for estimate in overall.estimates]
    varying = [name for name in every[0] if len({setting[name] for setting in every}) > 1]
    worse = [every[ratio.value] for ratio in ratios if ratio.verdict == "below"]
    if worse and verdict == "mixed":
        where: Tellable = clauses(
            Listed(settings(known.benchmark, {name: at[name] for name in varying}))
            for at in worse[:MOST_EXCEPTIONS]
        )
        if more := len(worse[MOST_EXCEPTIONS:]):
            where = say("conclusion.more", items=where, count=more)
        told.append(tell("conclusion.front.pair.where_not", *known.about, places=where))
    told += tell_cause(known, known.sections, baseline, other)
    yield build_conclusion(
        "answer",
        verdict,
        told,
        implementation=other,
        baseline=baseline,
        metric=known.decisive.name,
    )


def _parts(known: Known, overall: Finding, name: str, whole: str) -> Iterator[Told]:
    """At how many settings an implementation is better and worse in each part of the total.

    `whole` is the verdict of that.
    """
    parts: list[Statement] = []
    for metric in known.parts:
        places = [estimate[metric.name] for estimate in overall.estimates]
        ratios = [ratio_of(at, place, name) for at, place in enumerate(places)]

        def count(verdict: str, mine: Sequence[Ratio], metric: Metric = metric) -> Statement:
            return say(STANDINGS[verdict], metric.quantity.name, count=len(mine))

        parts.append(told_part(metric, ratios, whole, count))
    if parts:
        yield tell_parts(parts, [overall])


def _shares(known: Known, name: str, baseline: str) -> dict[str, Tellable]:
    """An exact metric as a share of the baseline's over all settings; empty unless it is less."""
    metrics = metrics_of(known.benchmark, exact=True)
    if not metrics:
        return {}
    metric, shares = metrics[0], list[float]()
    for experiment in known.sections:
        for variant in experiment.variants:
            mine, theirs = (
                Series(experiment, who, variant, metric).medians for who in (name, baseline)
            )
            shares += [mine[value] / theirs[value] for value in mine if theirs.get(value)]
    if not shares or max(shares) >= 1:
        return {}
    return {
        "exact_metric": MetricName(metric.name),
        "exact_share": Range(percent(min(shares)), percent(max(shares))),
    }


# More


def _map(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """The map itself: by the first part of the total, if there is one, and by the total."""
    facts = chart.facts([metric.name for metric in (*known.parts[:1], known.decisive)])
    cells = [c for each in facts["charts"] for row in each["cells"] for c in row if c]
    cells += [c for each in facts["charts"] for c in each["rare"]]
    states = {c["state"] for c in cells}
    signs: list[Tellable] = [say(key) for state, key in MAP_SIGNS.items() if state in states]
    if any(c["lead_low"] != c["lead_high"] for c in cells if c["state"] in ("alone", "partly")):
        signs.append(say("conclusion.map.range", symbols=Listed(chart.varying())))
    if known.parts:
        parts = Listed([MetricName(part.name) for part in known.parts])
        total = MetricName(known.decisive.name)
        signs.append(say("conclusion.map.total", total=total, parts=parts))
    told = [tell("conclusion.map", *known.about, sources=[overall], signs=clauses(signs))]
    yield build_conclusion("map", "map", told, facts=facts, metric=known.decisive.name)


def _choices(known: Known, overall: Finding, chart: ChoiceMap) -> Iterator[Finding]:
    """Which one to use by each metric of the map, and what it costs to choose by a part."""
    facts = overall.facts
    for metric in [*known.parts[:1], known.decisive]:
        label = Heading(MetricName(metric.name, part=True))
        verdict, told = told_decision(
            chart.decided(metric.name),
            FRONT,
            [metric.quantity.name],
            [overall],
            brief=True,
            use=say("use", metric.name, metric=label),
        )
        if metric == known.decisive and "wrong" in facts:
            wrong: dict[str, Tellable] = {name: facts[name] for name in ("wrong", "wrong_count")}
            wrong["wrong_part"] = facts["part"]
            wrong["wrong_range"] = Range(*printed_ends(facts))
            told.append(Told(say("conclusion.front.wrong", *known.about, **wrong), [overall]))
        yield build_conclusion("choice", verdict, told, metric=metric.name)


def _at_least(ratio: float) -> Number:
    """A ratio rounded down: to two digits from 20 on, else to one place."""
    unit = 10.0 ** (math.floor(math.log10(ratio)) - 1)
    return Number(math.floor(ratio / unit) * unit)


def _cost_of_naive(known: Known) -> Iterator[Finding]:
    """What the naive implementation needs of an exact metric, at the setting where it is most."""
    naive = known.benchmark.naive
    found = known.every("exact_comparison", *known.sections, verdicts=["less"], baseline=naive)
    if not found or naive is None:
        return
    finding = min(found, key=lambda finding: float(finding.facts["low"]))
    experiment, metric = known.experiment_of(finding), known.benchmark.metric(str(finding.metric))
    variant, at, name = (
        finding.variant or (),
        finding.facts["low_at"],
        finding.subject["implementation"],
    )
    mine, theirs = (Series(experiment, who, variant, metric).medians[at] for who in (name, naive))
    symbol = experiment.parameter.symbol
    told = [
        tell(
            "conclusion.front.naive",
            sources=[finding],
            naive=naive,
            exact_symbol=symbol,
            exact_at=at,
            exact_metric=MetricName(metric.name),
            exact_times=_at_least(theirs / mine),
            exact_name=name,
        ),
        tell(
            "conclusion.front.naive.figures",
            exact_theirs=in_units(theirs),
            exact_mine=in_units(mine),
            exact_unit=metric.unit,
        ),
        *tell_account(known, experiment, naive, variant, at),
    ]
    alike = [section for section in known.sections if section.parameter == experiment.parameter]
    limits = known.every("out_of_memory", *alike, verdicts=["limit_found"], implementation=naive)
    if limits:
        smallest = limits[0].facts["smallest"]
        key = "conclusion.front.naive.limit"
        told.append(tell(key, sources=limits[:1], exact_symbol=symbol, naive_oom_at=smallest))
    yield build_conclusion(
        "naive",
        "naive",
        told,
        section=experiment.name,
        metric=metric.name,
        implementation=name,
        baseline=naive,
    )


LIMITS = ("conclusion.front.limit.vendor", "conclusion.front.limit.sustained")
"""What the share is of, by whether the rate fell under load."""


def _limit(known: Known) -> Iterator[Finding]:
    """How near the best one comes to the device's matrix-product rate, and what holds it there."""
    packed = {name for experiment in known.sections for name in experiment.packed}
    found = [
        finding
        for finding in known.every("roofline", *known.sections)
        if finding.verdict != "model_error" and finding.subject["implementation"] not in packed
    ]
    if not found:
        return
    best = max(found, key=lambda finding: float(finding.facts["matrix_high"]))
    experiment = known.experiment_of(best)
    metric = known.benchmark.metric(str(best.metric))
    nearest = max(best.estimates, key=_matrix_share)
    least = nearest["matrix_percent"].get("low") or _matrix_share(nearest)
    level = {
        finding.subject["implementation"]: max(map(_matrix_share, finding.estimates))
        for finding in sorted(found, key=lambda f: float(f.facts["matrix_high"]))
        if finding.metric == best.metric
        and any((e["matrix_percent"].get("high") or 0) >= least for e in finding.estimates)
    }
    names = sorted(level, key=lambda name: -level[name])
    ceiling, vendor = best.facts["ceiling"], best.facts["vendor"]
    sustained = best.facts["sustained"]
    share = float(best.facts["matrix_high"]) / 100
    named = {"limit_names": Listed(names), "limit_percent": percent(share)}
    implausible = known.every("correctness", verdicts=[IMPLAUSIBLE])
    key = "conclusion.front.limit.plausible" if implausible else "conclusion.front.limit"
    told = [tell(key, sources=[best], **named)]
    if vendor:
        told.append(
            tell(
                LIMITS[sustained is not None],
                limit_percent=percent(share),
                limit_symbol=experiment.parameter.symbol,
                limit_at=nearest["value"],
                limit_part=part_name(metric),
                limit_ceiling=Measured(ceiling),
                limit_sustained=Measured(sustained or ceiling),
                limit_sustained_percent=percent(share * ceiling / (sustained or ceiling)),
                limit_vendor_percent=percent(share * ceiling / vendor),
                limit_vendor=Measured(vendor),
            )
        )
    told += _tell_matrix(known)
    yield build_conclusion(
        "limit",
        "limit",
        told,
        section=str(best.experiment),
        implementation=best.subject["implementation"],
    )


def _matrix_share(estimate: Mapping[str, Any]) -> float:
    """The share of the matrix-product rate, in percent, of a roofline finding's estimate."""
    return float(estimate["matrix_percent"]["estimate"])


def _tell_matrix(known: Known) -> Iterator[Told]:
    """How busy the matrix units are at most, in any pass that was counted on a GPU."""
    found = [
        (each["matrix_percent"], each["value"], finding)
        for finding in known.every("cause", *known.sections)
        for each in finding.estimates
        if "matrix_percent" in each
    ]
    if not found:
        return
    share, value, most = max(found, key=lambda each: float(each[0]))
    place = {known.experiment_of(most).parameter.name: value, **dict(most.variant or ())}
    yield tell(
        "conclusion.front.limit.matrix",
        sources=[most],
        matrix_percent=percent(share / 100),
        matrix_part=part_name(known.benchmark.metric(str(most.metric))),
        matrix_name=most.subject["implementation"],
        matrix_where=Listed(settings(known.benchmark, place)),
    )


def _avoid(known: Known) -> Iterator[Finding]:
    """What is slower than the naive implementation by the decisive metric."""
    metric = known.decisive.name
    found = known.every("worse_than_naive", verdicts=["worse"], metric=metric)
    if not found:
        return
    found.sort(key=lambda f: (-f.facts["count"] / f.facts["of"], f.subject["implementation"]))
    worst = found[0]
    facts, everywhere = worst.facts, worst.facts["count"] == worst.facts["of"]
    told = [
        tell(
            "conclusion.front.avoid.everywhere" if everywhere else "conclusion.front.avoid",
            *known.about,
            sources=[worst],
            avoid=worst.subject["implementation"],
            naive=worst.subject["baseline"],
            avoid_metric=MetricName(metric),
            avoid_count=facts["count"],
            avoid_of=facts["of"],
        ),
        tell(
            "conclusion.front.avoid.figures",
            *known.about,
            naive=worst.subject["baseline"],
            avoid_range=Range(Short(facts["low"]), Short(facts["high"])),
        ),
    ]
    told += tell_cause(known, known.sections, worst.subject["implementation"])
    yield build_conclusion("avoid", "avoid", told, metric=metric)
