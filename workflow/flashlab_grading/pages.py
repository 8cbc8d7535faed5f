"""The grades as a PDF: a table of the class, then what did not pass in each submission."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from flashlab.files import open_atomically
from flashlab.report.page import LANGUAGE_TAGS
from flashlab.report.render import TEMPLATES, templates, to_pdf
from flashlab_grading.model import BADGES, CHECKS
from flashlab_grading.shown import MARKS
from flashlab_grading.wording import word


def to_html(document: dict[str, object]) -> str:
    """The pages as one HTML document; others' texts in `document` must be escaped already."""
    return (
        templates(TEMPLATES)
        .get_template("grades.html.j2")
        .render(
            grades=document,
            word=word,
            tags=LANGUAGE_TAGS,
            checks=CHECKS,
            order=tuple(MARKS),
            badges=BADGES,
            marks=MARKS,
        )
    )


def write_pages(document_file: Path, output: Path) -> None:
    """Write the PDF atomically."""
    document = json.loads(document_file.read_text(encoding="utf-8"))
    pdf = to_pdf(to_html(document), TEMPLATES, (), datetime.fromtimestamp(0, UTC))
    with open_atomically(output, binary=True) as file:
        file.write(pdf)
