"""How many times as good as the baseline each implementation is, by each sampled metric.

The ratio of two medians at each value of the sweep, judged by the margin. Other kinds of finding
about such ratios are built and told alike (`ratio_finding`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, chosen_metrics, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import COMPARED, Given, Kind
from flashlab.analysis.pooled import PooledRatio
from flashlab.analysis.ratios import (
    Ratio,
    advantages,
    exceeds_margin,
    interval_json,
    printed_ratio,
    shared_verdict,
    with_verdict,
)
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.benchmarks.model import Metric
from flashlab.telling.codes import by_code
from flashlab.telling.values import Listed, Measured, Statement, Tellable, say, span

VERDICTS = {"above": "better", "below": "worse", "equal": "equivalent"}

Messages = Mapping[str, tuple[str, ...]]
"""The messages of a verdict: for several values of the sweep, for one, and for none."""

MESSAGES: Messages = {
    "better": ("comparison.better", "comparison.better.one"),
    "worse": ("comparison.worse", "comparison.worse.one"),
    "equivalent": ("comparison.equivalent", "comparison.equivalent.one"),
    "inconclusive": (
        "comparison.inconclusive",
        "comparison.inconclusive.one",
        "comparison.inconclusive.missing",
    ),
    "mixed": ("comparison.mixed",),
}
TRENDS = by_code(
    *("comparison.trend.widens", "comparison.trend.narrows", "comparison.trend.peaks"),
    "comparison.trend.dips",
)
POOLED = {
    "above": "comparison.pooled.better",
    "below": "comparison.pooled.worse",
    "equal": "comparison.pooled.equivalent",
    "inconclusive": "comparison.pooled.inconclusive",
}
"""What all values of the sweep are together, where they are not alike or single ones undecided."""
QUOTED_OF_TRENDS = ("symbol", "first", "last", "low", "low_at", "high", "high_at")
CLAUSES = {
    "above": "clause.better",
    "below": "clause.worse",
    "equal": "clause.equal",
    "inconclusive": "clause.undecided",
}
"""What a mixed finding is at some values of the sweep, by the verdict there."""


def message_for(messages: Messages, verdict: str, count: int) -> str:
    """The message of a verdict over so many values of the sweep."""
    several, *fewer = messages[verdict]
    return fewer[1 - count] if count < 2 and fewer else several


def describe_range(
    ratios: Sequence[Ratio], printed: Callable[[Ratio], Measured] = printed_ratio
) -> dict[str, Any]:
    """The printed range of the ratios, and where each end lies; the count alone where none is."""
    if not ratios:
        return {"count": 0}
    lowest, highest = (choose(ratios, key=lambda ratio: ratio.ratio) for choose in (min, max))
    low, high = printed(lowest), printed(highest)
    return {
        "first": ratios[0].value,
        "last": ratios[-1].value,
        "count": len(ratios),
        "low": low.value,
        "low_places": low.places,
        "low_at": lowest.value,
        "high": high.value,
        "high_places": high.places,
        "high_at": highest.value,
    }


def printed_ends(facts: Mapping[str, Any]) -> tuple[Measured, Measured]:
    """The lowest and the highest ratio of a range, as they are printed."""
    return (
        Measured(facts["low"], facts.get("low_places")),
        Measured(facts["high"], facts.get("high_places")),
    )


def quoted_range(facts: Mapping[str, Any], symbol: str) -> dict[str, Tellable]:
    """What statements quote of a range: its ends, `factors`, and `ratios` with where they lie."""
    if not facts["count"]:
        return {}
    low, high = printed_ends(facts)
    ends: dict[str, Tellable] = {
        **{"low": low, "high": high},
        **{name: facts[name] for name in ("low_at", "high_at")},
    }
    factors: Tellable = span(low, high)
    alike = low == high
    ratios = factors if alike else say("span.at", symbol=symbol, **ends)
    ends |= {name: facts[name] for name in ("first", "last")}
    return {**ends, "factors": factors, "ratios": ratios}


def clauses_of(found: Sequence[Ratio], about: Sequence[str], symbol: str) -> Listed:
    """Where a mixed finding is better, worse, equal and undecided, without the empty ones."""
    told = [
        say(key, *about, symbol=symbol, values=Listed(values))
        for verdict, key in CLAUSES.items()
        if (values := with_verdict(found, verdict))
    ]
    return Listed(told, "clause.separator")


def _is_higher(one: Ratio, other: Ratio) -> bool:
    """Whether a ratio is higher than another: both intervals apart by the margin of four medians.

    Each ratio is one of two medians and has the margin once.
    """
    if one.low is None or other.high is None:
        return False
    return exceeds_margin(one.low / other.high, margins=2)


def trend_of(found: Sequence[Ratio]) -> str:
    """How the ratio goes along the sweep: it ``widens``, ``narrows``, ``peaks`` or ``dips``.

    It widens or narrows from the first value to the last where no two ratios go against that. Else
    it peaks or dips where the highest or the lowest lies in between, beyond those at both ends.
    Otherwise ``none``.
    """
    if len(found) < 2:
        return "none"
    pairs = list(itertools.combinations(found, 2))
    rises = any(_is_higher(later, earlier) for earlier, later in pairs)
    falls = any(_is_higher(earlier, later) for earlier, later in pairs)
    first, last = found[0], found[-1]
    if _is_higher(last, first) and not falls:
        return "widens"
    if _is_higher(first, last) and not rises:
        return "narrows"
    highest, lowest = (choose(found, key=lambda ratio: ratio.ratio) for choose in (max, min))
    if all(_is_higher(highest, end) for end in (first, last)):
        return "peaks"
    if all(_is_higher(end, lowest) for end in (first, last)):
        return "dips"
    return "none"


def printed_interval(pooled: PooledRatio) -> dict[str, Measured]:
    """The ratio over several settings and the ends of its interval, as they are printed."""
    ratio = printed_ratio(pooled)
    places = 2 if ratio.places is None else ratio.places
    ends = {"pooled_low": pooled.low, "pooled_high": pooled.high}
    printed = {name: Measured(round(end, places), places) for name, end in ends.items() if end}
    return {"pooled": ratio, **printed}


def told_pooled(pooled: PooledRatio, quantity: str, values: Mapping[str, Tellable]) -> Statement:
    """What the ratio over all values of the sweep is, with its interval."""
    return say(
        POOLED[pooled.verdict],
        quantity,
        **{name: values[name] for name in ("implementation", "baseline", "metric")},
        count=pooled.value,
        **printed_interval(pooled),
    )


def ratio_finding(
    kind: str,
    messages: Messages,
    pair: Sequence[Series],
    ratios: Sequence[Ratio],
    subject: Mapping[str, str],
    named: Mapping[str, Tellable],
    pooled: PooledRatio | None = None,
) -> Finding:
    """A finding on the ratios of two series; `named` is what its statement names besides.

    `pooled` is the ratio over all values, told where single ones leave the verdict open.
    """
    quantity, symbol = pair[0].metric.quantity.name, pair[0].experiment.parameter.symbol
    verdict, facts = shared_verdict(ratios, VERDICTS), describe_range(ratios)
    values = {**quoted(pair, **named), **quoted_range(facts, symbol)}
    if verdict == "mixed":
        values["clauses"] = clauses_of(ratios, [quantity], symbol)
    statements = [say(message_for(messages, verdict, len(ratios)), quantity, **values)]
    if kind == "comparison" and (trend := trend_of(ratios)) != "none":
        statements.append(say(TRENDS[trend], **{name: values[name] for name in QUOTED_OF_TRENDS}))
    if pooled:
        facts["pooled"] = {
            **{"settings": pooled.value, **interval_json(pooled), "verdict": pooled.verdict},
            **printed_interval(pooled),
        }
        if any(ratio.verdict == "inconclusive" for ratio in ratios):
            statements.append(told_pooled(pooled, quantity, values))
    return build_finding(
        kind, pair, verdict, statements=statements, facts=facts, ratios=ratios, subject=subject
    )


def compared_ratios(given: Given, pair: Sequence[Series]) -> list[Ratio]:
    """How many times as good as the second of two series the first is, value by value."""
    medians = [given.estimates.along(series) for series in pair]
    return advantages(medians[0], medians[1], pair[0].metric.higher_is_better)


def compare_pairs(
    kind: str,
    experiment: Experiment,
    given: Given,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[Metric],
) -> Iterator[Finding]:
    """A finding for each implementation and the one that it is compared with, by each metric."""
    for (name, other), variant, metric in itertools.product(pairs, experiment.variants, metrics):
        pair = [Series(experiment, who, variant, metric) for who in (name, other)]
        ratios, against = compared_ratios(given, pair), {"baseline": other}
        ordered = pair if metric.higher_is_better else pair[::-1]
        pooled = given.estimates.pooled(*ordered) if kind == "comparison" else None
        yield ratio_finding(kind, MESSAGES, pair, ratios, against, against, pooled)


def comparisons(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """How many times as good as the baseline each implementation is, by each sampled metric.

    In the headline also by the totals of several.
    """
    names, baseline = experiment.implementations, experiment.baseline
    pairs = [(name, baseline) for name in sorted(names) if baseline in names and name != baseline]
    metrics = metrics_of(experiment.benchmark, exact=False)
    if experiment.is_summary:
        metrics = chosen_metrics(experiment.benchmark)
    yield from compare_pairs("comparison", experiment, given, pairs, metrics)


COMPARISON = Kind(
    label="kind.comparison",
    verdicts=("better", "worse", "equivalent", "inconclusive", "mixed"),
    of_experiment=[(COMPARED, comparisons)],
    told="in full",
)
