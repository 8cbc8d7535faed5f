"""A comparison as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flashlab.analysis.comparisons import comparisons_csv
from flashlab.compare import listing
from flashlab.compare.forest_plot import FIGURE
from flashlab.compare.heat_map import render_heat_map
from flashlab.compare.words import EQUAL, INCONCLUSIVE, STATED, name_metric
from flashlab.files import json_text, open_atomically, read_json
from flashlab.report.attachments import AttachedFile
from flashlab.report.page import LANGUAGE_TAGS, screen_style
from flashlab.report.page_font import embedded_font
from flashlab.report.render import TEMPLATES, templates, to_pdf
from flashlab.story.compare.means import mean_cell, shown_times

STYLES = ("report.css", "compare.css", "compare-screen.css")
FONT_GOES_HERE = "/* font */"
DATA, TABLE = "comparison.json", "comparison.csv"
"""The PDF's attachments: the observations, and the table of comparisons."""


def _svg(path: Path) -> Markup:
    """A figure of ours as part of the page; the serialiser that drew it escaped all text."""
    text = path.read_text(encoding="utf-8")
    return Markup(text[text.index("<svg") :])


def _to_html(document: Mapping[str, Any], figures: Path, in_browser: bool) -> str:
    """The comparison as HTML: for WeasyPrint, or for a browser with everything inside it."""
    languages = document["languages"]
    compared = listing.compared_of(document)
    forest, (titles, blocks) = figures / FIGURE, render_heat_map(compared)
    # The PDF is for reading, the page for looking up too.
    rows = listing.runs(document, compared.table, (*STATED, INCONCLUSIVE, EQUAL))
    return (
        templates(TEMPLATES)
        .get_template("compare.html.j2")
        .render(
            document=document,
            runs=rows,
            languages=languages,
            tags=LANGUAGE_TAGS,
            told={language: listing.sentences(document, language) for language in languages},
            say=partial(listing.saying, document),
            field=listing.field,
            values=listing.values,
            cells=partial(listing.cells, benchmark=compared.benchmark),
            differing=listing.differing(document),
            names=compared.implementations,
            times=shown_times(compared),
            classes=compared.classes(compared.speeds),
            mean=partial(mean_cell, compared),
            name_metric=name_metric,
            forest=forest if forest.is_file() else None,
            heat_titles=titles,
            heat_blocks=blocks,
            in_browser=in_browser,
            style=partial(screen_style, *STYLES),
            svg=_svg,
        )
    )


def write_pdf(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the PDF atomically, with the data attached; the same data gives the same bytes."""
    document = read_json(comparison_file)
    created = datetime.fromisoformat(max(side["ended"] for side in document["sides"]))
    table = comparisons_csv(listing.compared_of(document).table)
    attached = [
        AttachedFile(DATA, json_text(document).encode(), "Data"),
        AttachedFile(TABLE, table.encode(), "Data"),
    ]
    html = _to_html(document, figures, in_browser=False)
    styles = ("report.css", "compare.css")
    pdf = to_pdf(html, figures, attached, created.astimezone(UTC), styles)
    with open_atomically(output, binary=True) as file:
        file.write(pdf)


def write_page(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the same as one HTML file, atomically."""
    html = _to_html(read_json(comparison_file), figures, in_browser=True)
    with open_atomically(output) as file:
        file.write(html.replace(FONT_GOES_HERE, embedded_font(html), 1))
