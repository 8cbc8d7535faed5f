"""A comparison as text for a terminal, Markdown for a merge request, and JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.comparing.verdicts import EQUAL, INCONCLUSIVE, VERDICTS
from flashlab.comparing.wording import DOUBT, Wording
from flashlab.files import json_text

FORMATS = ("text", "markdown", "json")
COLUMNS = ("implementation", "shape", "metric", "one", "other", "ratio", "interval", "verdict")


def _headings(words: Wording) -> list[str]:
    one, other = (side["name"] for side in words.document["sides"])
    return [{"one": one, "other": other}.get(c) or words.say(f"column.{c}") for c in COLUMNS]


def _rows(words: Wording, verdicts: Sequence[str]) -> list[list[str]]:
    """The runs with one of these verdicts, the most pressing first."""
    pairs = [pair for pair in words.document["pairs"] if pair["verdict"] in verdicts]
    pairs.sort(key=lambda pair: VERDICTS.index(pair["verdict"]))
    return [list(words.cells(pair).values()) for pair in pairs]


def _differing(words: Wording) -> list[str]:
    """The fields of the environments that differ, a line each."""
    return [
        f"{words.field(row)}: {words.values(row['one'])} → {words.values(row['other'])}"
        for row in words.document["environments"]
        if row["verdict"] != "agrees"
    ]


STATED = tuple(verdict for verdict in VERDICTS if verdict not in (EQUAL, INCONCLUSIVE))


def as_text(words: Wording) -> str:
    """The comparison for a terminal: environments, conclusions, and the runs that differ."""
    first, *further = words.environments
    parts = [words.say("title"), words.subtitle, "", first]
    parts += [*(f"  {line}" for line in _differing(words)), *further]
    parts += ["", *words.conclusions]
    rows = [_headings(words), *_rows(words, STATED)]
    if len(rows) > 1:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        parts += [""] + [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
    if any(DOUBT in row[-1] for row in rows):
        parts += ["", words.say("doubt")]
    return "\n".join([*parts, "", *words.only]) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (re.sub(r"([\\|*])", r"\\\1", cell) for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _markdown_table(words: Wording, rows: Sequence[Sequence[str]]) -> list[str]:
    headings = _headings(words)
    return [
        _markdown_row(headings),
        _markdown_row(["---"] * len(headings)),
        *map(_markdown_row, rows),
    ]


def as_markdown(words: Wording) -> str:
    """The comparison as a comment: conclusions, the runs that differ, the others folded away."""
    parts = [f"### {words.say('title')}", "", words.subtitle, ""]
    first, *further = words.environments
    parts += [f"- {first}", *(f"    - {line}" for line in _differing(words))]
    parts += [f"- {line}" for line in further]
    parts += ["", *(f"- {line}" for line in words.conclusions)]
    if stated := _rows(words, STATED):
        parts += ["", *_markdown_table(words, stated)]
    if others := _rows(words, (INCONCLUSIVE, EQUAL)):
        counted = words.say("more", count=len(others))
        table = _markdown_table(words, others)
        parts += ["", f"<details><summary>{counted}</summary>", "", *table, "", "</details>"]
    if any(pair["warnings"] for pair in words.document["pairs"]):
        parts += ["", words.say("doubt").replace("*", "\\*")]
    return "\n".join([*parts, "", *(f"- {line}" for line in words.only)]) + "\n"


def formatted(document: Mapping[str, Any], form: str, language: str) -> str:
    """A comparison in one of `FORMATS`; JSON holds the data, and no language."""
    if form == "json":
        return json_text(document)
    words = Wording(document, language)
    return as_markdown(words) if form == "markdown" else as_text(words)
