"""A history in words, and as an HTML page with one line for each benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from flashlab import statistics
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.history import Line
from flashlab.compare.printing import Block, Cell, Title, table_of, verdict_cell
from flashlab.compare.rule import VERDICTS
from flashlab.compare.words import NO_VALUE, name_metric, number, percentage, say

LANGUAGES = ("zh_TW", "en")
SHORT = 10
"""Digits of a commit as they are printed."""

WIDTH, HEIGHT, EDGE = 220, 30, 3
"""Of a line's drawing, in pixels."""

LEAST_RANGE = 0.2
"""The drawing's least height in the logarithm of the value: noise must not look like a change."""

COLUMNS = ("history.column.benchmark", "column.metric", "history.column.change")


def _name(line: Line) -> str:
    return f"{line['run']['implementation']} {line['shape']}"


def _metric(line: Line, language: str) -> str:
    return name_metric(find_benchmark(line["benchmark"]).metric(line["metric"]), language)


def _commits(first: str, last: str) -> str:
    return f"{first[:SHORT]}..{last[:SHORT]}"


def _change(change: Mapping[str, Any], language: str) -> str:
    """A change in words: its verdict, by how much, and the commits between which it happened."""
    return say(
        "history.up" if change["ratio"] > 1 else "history.down",
        language,
        verdict=say(change["verdict"], language),
        amount=percentage(abs(change["ratio"] - 1)),
        range=_commits(change["after"], change["by"]),
    )


def _sorted_lines(document: Mapping[str, Any]) -> list[Line]:
    """The lines, those with the most pressing change first."""

    def place(line: Line) -> tuple[int, str]:
        verdicts = [VERDICTS.index(change["verdict"]) for change in line["changes"]]
        return min(verdicts, default=len(VERDICTS)), _name(line)

    return sorted(document["lines"], key=place)


def _summary(document: Mapping[str, Any], language: str) -> str:
    lines = document["lines"]
    return say(
        "history.summary",
        language,
        lines=len(lines),
        commits=len({commit for line in lines for commit in line["commits"]}),
        changed=sum(bool(line["changes"]) for line in lines),
    )


def blocks(document: Mapping[str, Any], language: str) -> list[Block]:
    """A history as text: the summary, and a table of the changes."""
    rows: list[list[Cell]] = []
    for line in _sorted_lines(document):
        for change in line["changes"]:
            words = verdict_cell(_change(change, language), change["verdict"])
            rows.append([_name(line), _metric(line, language), words])
    table = table_of([say(key, language) for key in COLUMNS], rows)
    title = Title(say("history.title", language))
    return [title, _summary(document, language), *([table] if rows else [])]


def _drawing(line: Line) -> Markup:
    """The line's values from commit to commit as SVG, logarithmic, with a bar at each change."""
    logs = np.log(np.maximum(line["values"], 1e-300))
    reach = max(np.ptp(logs), LEAST_RANGE)
    down = HEIGHT / 2 - (logs - (logs.max() + logs.min()) / 2) / reach * (HEIGHT - 2 * EDGE)
    across = np.linspace(EDGE, WIDTH - EDGE, len(logs)) if len(logs) > 1 else [WIDTH / 2]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    bars = Markup("").join(
        Markup('<line class="{0}" x1="{1:.1f}" x2="{1:.1f}" y1="0" y2="{2}"/>').format(
            change["verdict"],
            (across[change["position"] - 1] + across[change["position"]]) / 2,
            HEIGHT,
        )
        for change in line["changes"]
    )
    return Markup(
        '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" aria-hidden="true">{2}'
        '<polyline points="{3}"/><circle cx="{4:.1f}" cy="{5:.1f}" r="2"/></svg>'
    ).format(WIDTH, HEIGHT, bars, points, float(across[-1]), float(down[-1]))


def _surroundings(line: Line) -> str:
    """The device of a line, and the packages that its numbers depend on."""
    stated = json.loads(line["surroundings"])
    versions = [f"{name} {version}" for name, version in stated["versions"].items() if version]
    return ", ".join([stated["device"] or NO_VALUE, *versions])


def to_html(document: Mapping[str, Any]) -> str:
    """One HTML file that loads nothing: a line for each metric of each run."""
    # WeasyPrint, which text does not need, takes half a second.
    from flashlab.compare.rendered import STYLES
    from flashlab.report.page import LANGUAGE_TAGS, screen_style
    from flashlab.report.render import TEMPLATES, templates

    template = templates(TEMPLATES).get_template("history.html.j2")
    return template.render(
        document=document,
        lines=_sorted_lines(document),
        languages=LANGUAGES,
        tags=LANGUAGE_TAGS,
        say=partial(say, margin=f"{percentage(statistics.MARGIN)}%"),
        summary=_summary,
        name=_name,
        metric=_metric,
        told=_change,
        drawing=_drawing,
        number=number,
        commits=_commits,
        surroundings=_surroundings,
        style=screen_style(*STYLES, "history.css"),
    )
