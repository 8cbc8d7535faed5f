"""A comparison as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flashlab.compare.listing import cells, sorted_pairs
from flashlab.compare.rule import EQUAL, VERDICTS
from flashlab.compare.sentences import Sentences
from flashlab.compare.words import name_metric
from flashlab.files import json_text, open_atomically, read_json
from flashlab.report.attachments import AttachedFile
from flashlab.report.page import LANGUAGE_TAGS, screen_style
from flashlab.report.render import TEMPLATES, templates, to_pdf

STYLES = ("report.css", "compare.css", "compare-screen.css")
DATA = "comparison.json"
"""The name under which the PDF carries the comparison's data."""


def _svg(path: Path) -> Markup:
    """A figure of ours as part of the page; the serialiser that drew it escaped all text."""
    text = path.read_text(encoding="utf-8")
    # What several figures define under one name must not be taken from another one's.
    own = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{path.stem}-", text[text.index("<svg") :])
    return Markup(own)


def _to_html(document: Mapping[str, Any], figures: Sequence[Path], in_browser: bool) -> str:
    """The comparison as HTML: for WeasyPrint, or for a browser with everything inside it."""
    languages = document["languages"]
    # The PDF is for reading, the page for looking up too.
    verdicts = [verdict for verdict in VERDICTS if in_browser or verdict != EQUAL]
    template = templates(TEMPLATES).get_template("compare.html.j2")
    return template.render(
        document=document,
        pairs=sorted_pairs(document, verdicts),
        languages=languages,
        tags=LANGUAGE_TAGS,
        words={language: Sentences(document, language) for language in languages},
        cells=cells,
        name_metric=name_metric,
        figures=[(path.stem.rpartition("-")[0], path) for path in figures],
        in_browser=in_browser,
        style=partial(screen_style, *STYLES),
        svg=_svg,
    )


def _read(comparison_file: Path, folder: Path) -> tuple[dict[str, Any], list[Path]]:
    document: dict[str, Any] = read_json(comparison_file)
    numbered = {path: path.stem.rpartition("-") for path in folder.glob("*.svg")}
    return document, sorted(numbered, key=lambda path: (numbered[path][0], int(numbered[path][2])))


def write_pdf(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the PDF atomically, with the data attached; the same data gives the same bytes."""
    document, drawn = _read(comparison_file, figures)
    created = datetime.fromisoformat(max(side["ended"] for side in document["sides"]))
    data = AttachedFile(DATA, json_text(document).encode(), "Data")
    html = _to_html(document, drawn, in_browser=False)
    pdf = to_pdf(html, figures, [data], created.astimezone(UTC))
    with open_atomically(output, binary=True) as file:
        file.write(pdf)


def write_page(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the same as one HTML file, atomically."""
    document, drawn = _read(comparison_file, figures)
    with open_atomically(output) as file:
        file.write(_to_html(document, drawn, in_browser=True))
