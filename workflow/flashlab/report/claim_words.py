"""Published claims in words: our figure, the range that each claim states, and what is compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.findings.model import Finding
from flashlab.report.wording import Texts, Words, join_range, join_sentences

FORMULAS = {
    (1, "times"): "{0}",
    (2, "times"): "{0} ÷ {1}",
    (4, "times"): "({0} ÷ {1}) ÷ ({2} ÷ {3})",
    (4, "amounts"): "({0} − {1}) ÷ ({2} − {3})",
}
"""What a test computes, by the number of its terms and how it compares them."""


def word_figure(words: Words, benchmark: Benchmark, finding: Finding) -> Texts:
    """Our figure for a claim by each way to read it; a dash for none."""
    readings = _readings_to_show(finding)
    if not readings:
        return words.same("–")
    protocols = {reading["protocol"] for reading in readings}
    labels = [_label(words, finding, reading, protocols) for reading in readings]
    figures = [_reading_figure(words, benchmark, reading) for reading in readings]
    if not any(labels):
        (figure,) = figures
        return figure
    return join_sentences(
        [
            {
                language: text[:1].upper() + text[1:]
                for language, text in words.each(
                    "claim.reading", how=words.listed(label), figure=figure
                ).items()
            }
            for label, figure in zip(labels, figures, strict=True)
        ]
    )


def word_figure_in_short(words: Words, benchmark: Benchmark, finding: Finding) -> Texts:
    """Our figure or the range of several, by the first way to read a claim, without intervals.

    A claim that is ambiguous has each of its readings.
    """
    readings = _readings_to_show(finding)
    if not readings:
        return words.same("–")
    if finding.verdict != "ambiguous":
        return _in_short(words, benchmark, readings[0])
    protocols = {reading["protocol"] for reading in readings}
    told = []
    for reading in readings:
        figure = _in_short(words, benchmark, reading)
        label = _label(words, finding, reading, protocols)
        key = "claim.reading.short"
        told.append(words.each(key, how=words.listed(label), figure=figure) if label else figure)
    return words.joined("clauses.separator", told)


def _in_short(words: Words, benchmark: Benchmark, reading: Mapping[str, Any]) -> Texts:
    if "by_metric" in reading:
        return words.listed(
            [
                words.each(
                    "claim.figure.of_metric",
                    metric=words.label(benchmark.metric(ours["metric"]).labels),
                    figure=_in_short(words, benchmark, ours),
                )
                for ours in reading["by_metric"]
            ]
        )
    printed = words.printed(reading)
    low, high = ("ours_lowest", "ours_highest") if reading["count"] > 1 else ("ours", "ours")
    return {key: join_range(printed[low][key], printed[high][key]) for key in words.languages}


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
    words: Words, finding: Finding, reading: Mapping[str, Any], protocols: Collection[str]
) -> list[Texts]:
    """What sets a reading apart: how rises are compared, and the protocol of the records."""
    label = []
    if len(finding.params["terms"]) == 4:
        label.append(words.each(f"claim.reading.{reading['compare']}"))
    if set(protocols) != {"sampled"}:
        label.append(words.each(f"claim.reading.{reading['protocol']}"))
    return label


def _reading_figure(words: Words, benchmark: Benchmark, reading: Mapping[str, Any]) -> Texts:
    """The figure of a reading with its interval, or the range of several; of each metric."""
    if "by_metric" not in reading:
        return _figure(words, reading)
    return words.joined(
        "claim.place.separator",
        [
            words.each(
                "claim.figure.of_metric",
                metric=words.label(benchmark.metric(ours["metric"]).labels),
                figure=_figure(words, ours),
            )
            for ours in reading["by_metric"]
        ],
    )


def _figure(words: Words, params: Mapping[str, Any]) -> Texts:
    if params["count"] > 1:
        held = params["held_count"]
        key = f"range.{'none' if not held else 'all' if held == params['count'] else 'some'}"
        if not params["interval_count"]:
            key = "range.means"
    else:
        key = "exact" if params["ours_low"] == params["ours_high"] else "interval"
    return words.each(f"claim.figure.{key}", **words.printed(params))


def word_wanted(words: Words, finding: Finding) -> Texts:
    """The range that a claim states; a dash for a claim without a test."""
    least, most = finding.params["wanted_least"], finding.params["wanted_most"]
    if least is None and most is None:
        return words.same("–")
    key = "least" if most is None else "most" if least is None else "between"
    return words.each(f"claim.wanted.{key}", **words.printed(finding.params))


def word_claim(words: Words, benchmark: Benchmark, finding: Finding) -> dict[str, Texts]:
    """What a claim's sentence quotes: `figure`, `wanted`, `metrics`, the `formula` and `where`.

    The last three only of a claim with a test.
    """
    params = finding.params
    readings = params["readings"]
    is_read_alike = finding.verdict != "ambiguous" and readings
    found = {
        "figure": _reading_figure(words, benchmark, readings[0])
        if is_read_alike
        else word_figure(words, benchmark, finding),
        "wanted": word_wanted(words, finding),
    }
    if "terms" not in params:
        return found
    terms = [
        words.with_settings(term["name"], words.settings(benchmark, term["given"]))
        for term in params["terms"]
    ]
    form = FORMULAS[len(terms), params["compare"]]
    formula = {key: form.format(*(term[key] for term in terms)) for key in words.languages}
    if params["each_of"]:
        formula = words.each(
            "claim.each_of", names=words.listed(params["each_of"]), formula=formula
        )
    places = [words.listed(words.settings(benchmark, at)) for at in params["at"]]
    metrics = [words.label(benchmark.metric(name).labels) for name in params["metrics"]]
    return {
        **found,
        "formula": formula,
        "metrics": words.listed(metrics),
        "where": words.joined("claim.place.separator", places),
    }
