"""A history as text, as Markdown, as JSON, and as an HTML page with one line for each benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.registry import find_benchmark
from flashlab.comparing.pages import browser_style
from flashlab.comparing.verdicts import VERDICTS
from flashlab.comparing.wording import VALUE_DIGITS, percentage
from flashlab.comparing.wording import say as say_of_comparison
from flashlab.files import json_text
from flashlab.report.page import LANGUAGE_TAGS
from flashlab.report.render import TEMPLATES, templates
from flashlab.report.typography import spaced
from flashlab.telling.catalogs import message

FORMATS = ("text", "markdown", "json", "html")
DOMAIN = "history"
LANGUAGES = ("zh_TW", "en")
SHORT = 10
"""Digits of a commit as they are printed."""

WIDTH, HEIGHT, EDGE = 220, 30, 3
"""Of a line's drawing, in pixels."""

LEAST_RANGE = 0.2
"""The drawing's least height in the logarithm of the value: noise must not look like a change."""


def say(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in."""
    text = message(language, DOMAIN, key).format_map(params)
    return spaced(text) if language == "zh_TW" else text


def _metric(line: Mapping[str, Any], language: str) -> str:
    text = find_benchmark(line["benchmark"]).metric(line["metric"]).labels[language]
    return text[:1].upper() + text[1:]


def _name(line: Mapping[str, Any]) -> str:
    return f"{line['run']['implementation']} {line['shape']}"


def _change(change: Mapping[str, Any], language: str) -> str:
    """A change in words: its verdict, by how much, and the commits between which it happened."""
    key = "change.up" if change["ratio"] > 1 else "change.down"
    return say(
        key,
        language,
        verdict=say_of_comparison(f"verdict.{change['verdict']}", language),
        amount=percentage(abs(change["ratio"] - 1)),
        range=f"{change['after'][:SHORT]}..{change['by'][:SHORT]}",
    )


def _pressing(line: Mapping[str, Any]) -> tuple[int, str]:
    """The order of the lines: those with the most pressing change first."""
    found = [VERDICTS.index(change["verdict"]) for change in line["changes"]]
    return min(found, default=len(VERDICTS)), _name(line)


def _summary(document: Mapping[str, Any], language: str) -> str:
    lines = document["lines"]
    return say(
        "summary",
        language,
        lines=len(lines),
        commits=len({commit for line in lines for commit in line["commits"]}),
        changed=sum(bool(line["changes"]) for line in lines),
    )


def as_text(document: Mapping[str, Any], language: str) -> str:
    """The summary, and each change in a line of its own."""
    parts = [_summary(document, language)]
    for line in sorted(document["lines"], key=_pressing):
        for change in line["changes"]:
            told = _change(change, language)
            parts.append(f"{_name(line)}, {_metric(line, language)}: {told}")
    return "\n".join(parts) + "\n"


def as_markdown(document: Mapping[str, Any], language: str) -> str:
    """The summary, and a table of the changes."""
    columns = [say(f"column.{key}", language) for key in ("benchmark", "metric", "change")]
    rows = [
        [_name(line), _metric(line, language), _change(change, language)]
        for line in sorted(document["lines"], key=_pressing)
        for change in line["changes"]
    ]
    parts = [f"### {say('title', language)}", "", _summary(document, language)]
    if rows:
        table = [columns, ["---"] * len(columns), *rows]
        parts += ["", *(f"| {' | '.join(row)} |" for row in table)]
    return "\n".join(parts) + "\n"


def _drawing(line: Mapping[str, Any]) -> Markup:
    """The line's values from commit to commit as SVG, logarithmic, with a bar at each change."""
    logs = np.log(np.maximum(line["values"], 1e-300))
    centre = (logs.max() + logs.min()) / 2
    reach = max(logs.max() - logs.min(), LEAST_RANGE)
    across = np.linspace(EDGE, WIDTH - EDGE, len(logs)) if len(logs) > 1 else [WIDTH / 2]
    down = HEIGHT / 2 - (logs - centre) / reach * (HEIGHT - 2 * EDGE)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    bars = Markup("").join(
        Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="0" y2="{}"/>').format(
            change["verdict"],
            *[(across[change["position"] - 1] + across[change["position"]]) / 2] * 2,
            HEIGHT,
        )
        for change in line["changes"]
    )
    return Markup('<svg viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true">{}').format(
        WIDTH, HEIGHT, WIDTH, HEIGHT, bars
    ) + Markup('<polyline points="{}"/><circle cx="{:.1f}" cy="{:.1f}" r="2"/></svg>').format(
        points, float(across[-1]), float(down[-1])
    )


def _surroundings(line: Mapping[str, Any]) -> str:
    """The device of a line, and the packages that its numbers depend on."""
    stated = json.loads(line["surroundings"])
    versions = [f"{name} {version}" for name, version in stated["versions"].items() if version]
    return ", ".join([stated["device"] or "–", *versions])


def as_html(document: Mapping[str, Any], languages: Sequence[str] = LANGUAGES) -> str:
    """One HTML file that loads nothing: a line for each metric of each run."""
    lines = [
        {
            "name": _name(line),
            "metric": [_metric(line, language) for language in languages],
            "drawing": _drawing(line),
            "value": f"{rounded(line['values'][-1], VALUE_DIGITS):g} {line['unit']}",
            "commits": f"{line['commits'][0][:SHORT]}..{line['commits'][-1][:SHORT]}",
            "count": len(line["commits"]),
            "surroundings": _surroundings(line),
            "changes": [
                (change["verdict"], [_change(change, language) for language in languages])
                for change in line["changes"]
            ],
        }
        for line in sorted(document["lines"], key=_pressing)
    ]
    return (
        templates(TEMPLATES)
        .get_template("history.html.j2")
        .render(
            lines=lines,
            languages=languages,
            tags=LANGUAGE_TAGS,
            say=say,
            summary=[_summary(document, language) for language in languages],
            style=browser_style("history.css"),
        )
    )


def formatted(document: Mapping[str, Any], form: str, language: str) -> str:
    """A history in one of `FORMATS`; JSON holds the data, and the page both languages."""
    if form == "json":
        return json_text(document)
    if form == "html":
        return as_html(document)
    return as_markdown(document, language) if form == "markdown" else as_text(document, language)
