"""Published claims in words: our figure, the range that each claim states, and what is compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.findings.model import Finding
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    Measured,
    Number,
    Range,
    Run,
    Tellable,
    clauses,
    in_turn,
    say,
    settings,
)

FORMULAS = {
    (1, "times"): "{}",
    (2, "times"): "{} ÷ {}",
    (4, "times"): "({} ÷ {}) ÷ ({} ÷ {})",
    (4, "amounts"): "({} − {}) ÷ ({} − {})",
}
"""What a test computes, by the number of its terms and how it compares them."""

READINGS = {
    "times": "claim.reading.times",
    "amounts": "claim.reading.amounts",
    "sampled": "claim.reading.sampled",
    "lab5": "claim.reading.lab5",
    "training": "claim.reading.training",
}
"""What sets a reading apart: how it compares, and the protocol of the records."""


def word_figure(benchmark: Benchmark, finding: Finding) -> Tellable:
    """Our figure for a claim by each way to read it; a dash for none."""
    readings = _readings_to_show(finding)
    if not readings:
        return "–"
    protocols = {reading["protocol"] for reading in readings}
    labels = [_label(finding, reading, protocols) for reading in readings]
    figures = [_reading_figure(benchmark, reading) for reading in readings]
    if not any(labels):
        (figure,) = figures
        return figure
    return in_turn(
        Heading(say("claim.reading", how=Listed(label), figure=figure))
        for label, figure in zip(labels, figures, strict=True)
    )


def word_figure_in_short(benchmark: Benchmark, finding: Finding) -> Tellable:
    """Our figure or the range of several, by the first way to read a claim, without intervals.

    A claim that is ambiguous has each of its readings. What compares runs is a factor.
    """
    readings = _readings_to_show(finding)
    if not readings:
        return "–"
    unit = "×" if len(finding.params["terms"]) > 1 else f" {finding.params['unit']}"
    if finding.verdict != "ambiguous":
        return _in_short(benchmark, readings[0], unit)
    protocols = {reading["protocol"] for reading in readings}
    told = []
    for reading in readings:
        figure = _in_short(benchmark, reading, unit)
        label = _label(finding, reading, protocols)
        key = "claim.reading.short"
        told.append(say(key, how=Listed(label), figure=figure) if label else figure)
    return clauses(told)


def _in_short(benchmark: Benchmark, reading: Mapping[str, Any], unit: str) -> Tellable:
    if "by_metric" in reading:
        return Listed(
            [
                say(
                    "claim.figure.of_metric",
                    metric=Label(benchmark.metric(ours["metric"]).labels),
                    figure=_in_short(benchmark, ours, unit),
                )
                for ours in reading["by_metric"]
            ]
        )
    low, high = ("ours_lowest", "ours_highest") if reading["count"] > 1 else ("ours", "ours")
    return Listed([Range(_printed(reading[low]), _printed(reading[high])), unit], "")


def _readings_to_show(finding: Finding) -> Sequence[Mapping[str, Any]]:
    """All readings by the first protocol, and by the other one where that tells anything more.

    It does beside a published figure, and where a claim is ambiguous because the protocols differ.
    """
    readings: Sequence[Mapping[str, Any]] = finding.params["readings"]
    first = [each for each in readings if each["protocol"] == readings[0]["protocol"]]
    disagree = {"confirmed", "contradicted"} <= {each["leans"] for each in first}
    if finding.params["published"] is None and (finding.verdict != "ambiguous" or disagree):
        return first
    return readings


def _label(
    finding: Finding, reading: Mapping[str, Any], protocols: Collection[str]
) -> list[Tellable]:
    """What sets a reading apart: how rises are compared, and the protocol of the records."""
    label: list[Tellable] = []
    if len(finding.params["terms"]) == 4:
        label.append(say(READINGS[reading["compare"]]))
    if set(protocols) != {"sampled"}:
        label.append(say(READINGS[reading["protocol"]]))
    return label


def _reading_figure(benchmark: Benchmark, reading: Mapping[str, Any]) -> Tellable:
    """The figure of a reading with its interval, or the range of several; of each metric."""
    if "by_metric" not in reading:
        return _figure(reading)
    return Listed(
        [
            say(
                "claim.figure.of_metric",
                metric=Label(benchmark.metric(ours["metric"]).labels),
                figure=_figure(ours),
            )
            for ours in reading["by_metric"]
        ],
        "claim.place.separator",
    )


def _printed(figure: float | None) -> Tellable:
    return Number(None) if figure is None else Measured(figure)


def _figure(params: Mapping[str, Any]) -> Tellable:
    count, held = params["count"], params["held_count"]
    if count > 1:
        key = "claim.figure.range.some"
        if not params["interval_count"]:
            key = "claim.figure.range.means"
        elif held in (0, count):
            key = "claim.figure.range.all" if held else "claim.figure.range.none"
        ends = {name: _printed(params[name]) for name in ("ours_lowest", "ours_highest")}
        counts = {name: params[f"{name}_count"] for name in ("held", "failed", "undecided")}
        return say(key, count=count, **ends, **{f"{k}_count": n for k, n in counts.items()})
    is_exact = params["ours_low"] == params["ours_high"]
    return say(
        "claim.figure.exact" if is_exact else "claim.figure.interval",
        **{name: _printed(params[name]) for name in ("ours", "ours_low", "ours_high")},
    )


def word_wanted(finding: Finding) -> Tellable:
    """The range that a claim states; a dash for a claim without a test."""
    least, most = finding.params["wanted_least"], finding.params["wanted_most"]
    if least is None and most is None:
        return "–"
    key = "claim.wanted.between"
    if most is None or least is None:
        key = "claim.wanted.least" if most is None else "claim.wanted.most"
    return say(key, wanted_least=Number(least), wanted_most=Number(most))


def word_claim(benchmark: Benchmark, finding: Finding) -> dict[str, Tellable]:
    """What a claim's sentence quotes: `figure`, `wanted`, `metrics`, the `formula` and `where`.

    The last three only of a claim with a test.
    """
    params = finding.params
    readings = params["readings"]
    is_read_alike = finding.verdict != "ambiguous" and readings
    found = {
        "figure": _reading_figure(benchmark, readings[0])
        if is_read_alike
        else word_figure(benchmark, finding),
        "wanted": word_wanted(finding),
    }
    if "terms" not in params:
        return found
    terms = [Run(term["name"], settings(benchmark, term["given"])) for term in params["terms"]]
    *before, after = FORMULAS[len(terms), params["compare"]].split("{}")
    pieces = [piece for pair in zip(before, terms, strict=True) for piece in pair]
    formula: Tellable = Listed([*pieces, after], "")
    if params["each_of"]:
        formula = say("claim.each_of", names=Listed(params["each_of"]), formula=formula)
    places = [Listed(settings(benchmark, at)) for at in params["at"]]
    metrics = [Label(benchmark.metric(name).labels) for name in params["metrics"]]
    return {
        **found,
        "formula": formula,
        "metrics": Listed(metrics),
        "where": Listed(places, "claim.place.separator"),
    }
