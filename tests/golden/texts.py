"""Writes the golden texts: what every recorded report says, one file for a report and language.

Read them as a reader reads the report, and read the diff of a change: nothing else protects a
sentence. They hold page one, the sections with their findings, the claims and the method, as the
HTML page and the PDF have them; not the runs' own tables, versions, dates and ceilings. Renew them,
from the repository's root, with: python tests/golden/texts.py
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flashlab.config import Layer, read_layer
from flashlab.files import write_json
from flashlab.findings.derive import write_findings
from flashlab.plan_files import experiment_file, records_file
from flashlab.prepare import Prepared, prepare
from flashlab.published import CLAIMS
from flashlab.report.content import compose
from flashlab.report.document import FigureEntry
from flashlab.report.page import LANGUAGE_TAGS, Page
from flashlab.report.render import to_html
from flashlab.tables import write_tables

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
COMMAND = "python tests/golden/texts.py"


@dataclass(frozen=True)
class Golden:
    """A report whose text is kept: its configuration files, and what the call gives besides.

    `drawn` names the figures across experiments; whether they can be drawn is tested elsewhere.
    `data` is the folder that holds the dataset.
    """

    name: str
    base: str
    own: Sequence[str] = ()
    keys: Mapping[str, Any] = field(default_factory=lambda: {"dataset": "h200"})
    drawn: Sequence[str] = ()
    data: Path = ROOT / "data"


GOLDEN = (
    Golden("attention", "config.yaml", drawn=("summary", "heat-map-1", "roofline-float16")),
    Golden("lab5", "config.yaml", own=("config.yaml",), drawn=("summary", "roofline-float16")),
    Golden("ladder", "ladder.yaml", drawn=("steps", "split", "roofline-float32")),
    Golden("training", "training.yaml", drawn=("summary",)),
    Golden(
        "cpu",
        "config.yaml",
        keys={"dataset": "cpu"},
        data=FOLDER / "data",
        drawn=("summary", "roofline-float32"),
    ),
)
"""With all implementations, with the lab's two, of the other benchmarks, and of a CPU."""


def _layers(golden: Golden) -> tuple[Layer, list[Layer]]:
    own = [read_layer(ROOT / "config" / file) for file in golden.own]
    return read_layer(ROOT / "config" / golden.base), [*own, Layer("--config", golden.keys)]


def _without_kernels_of_today(document: Any) -> Any:
    """A plan that says nothing of the kernels' present sources, of which a report would tell."""
    return {**document, "sources": {name: {} for name in document["sources"]}}


def _write_results(prepared: Prepared, drawn: Sequence[str]) -> None:
    """Run the stages from the records to the findings, in the working directory."""
    home = Path(prepared.home)
    for name, document in prepared.documents.items():
        is_of_records = Path(name).parent == records_file(home, "x").parent
        write_json(Path(name), _without_kernels_of_today(document) if is_of_records else document)
    for experiment in prepared.experiments:
        write_tables(records_file(home, experiment), home / "tables" / experiment)
    plans = [experiment_file(home, experiment) for experiment in prepared.experiments]
    ceilings = Path(prepared.ceilings) if prepared.ceilings else None
    write_findings(plans, home / "tables", CLAIMS, ceilings, home / "findings.json")
    write_json(home / "overview" / "drawn.json", list(drawn))


class _PageWithoutPictures(Page):
    def svg(self, figure: FigureEntry) -> Markup:
        return Markup("")


def html_of(golden: Golden) -> str:
    """The report as the HTML page, which has all that the PDF has, without its pictures."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("data").symlink_to(golden.data)
        prepared = prepare(*_layers(golden))
        _write_results(prepared, golden.drawn)
        home = Path(prepared.home)
        config = prepared.documents[f"{prepared.home}/plan/config.json"]
        ceilings = Path(prepared.ceilings) if prepared.ceilings else None
        report = compose(config, home, ceilings, ())
        return to_html(report, _PageWithoutPictures(report))


# From HTML to text

LEFT_OUT = frozenset({"facts", "data", "runs", "peaks", "explorer", "interface", "scripted"})
"""Classes whose elements have versions, dates, ceilings, whole tables, or controls."""

UNSEEN = frozenset({"head", "nav", "script", "style", "dialog", "svg"})
VOID = frozenset({"meta", "link", "img", "br", "input"})
LINES = frozenset({"p", "h1", "h2", "h3", "tr", "caption", "figcaption", "li", "dt", "dd"})
CELLS = frozenset({"td", "th"})

_SENTENCE = re.compile(r"(?<=[a-z0-9)\]%×”]\.) (?=[A-Z])|(?<=。)(?=.)")


class _Reader(HTMLParser):
    """The lines of a page that are in a language or in none."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag
        self._skipping: list[str] = []
        self._line = ""
        self.lines: list[str] = []

    def _is_left_out(self, element: str, attributes: Mapping[str, str | None]) -> bool:
        classes = set((attributes.get("class") or "").split())
        language = attributes.get("lang") if element != "html" else None
        other = language not in (None, self._tag)
        return element in UNSEEN or other or bool(classes & LEFT_OUT)

    def handle_starttag(self, element: str, attrs: list[tuple[str, str | None]]) -> None:
        if element in VOID:
            return
        if self._skipping or self._is_left_out(element, dict(attrs)):
            self._skipping.append(element)
            return
        if element in LINES or "paper" in (dict(attrs).get("class") or ""):
            self._end_line()
            self._line = {"h1": "# ", "h2": "## ", "h3": "### "}.get(element, "")
        elif element in CELLS:
            self._line += " | " if self._line else ""

    def handle_endtag(self, element: str) -> None:
        if self._skipping:
            self._skipping.pop()
        elif element in LINES:
            self._end_line()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._line += data

    def _end_line(self) -> None:
        line = " ".join(self._line.split()).replace("\xa0", " ").strip(" |")
        self._line = ""
        if line.strip("# "):
            self.lines += ["", line, ""] if line[0] == "#" else _SENTENCE.split(line)


def read_text(html: str, language: str) -> str:
    """What a page says in a language, a sentence or a table's row to the line."""
    reader = _Reader(LANGUAGE_TAGS[language])
    reader.feed(html)
    text = "\n".join(reader.lines)
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


def golden_file(golden: Golden, language: str) -> Path:
    """Where a report's text in a language is kept."""
    return FOLDER / f"{golden.name}.{language}.txt"


def golden_texts(golden: Golden) -> Iterator[tuple[Path, str]]:
    """A report's text as it is now in each language, with the file where it is kept."""
    html = html_of(golden)
    for language in LANGUAGE_TAGS:
        yield golden_file(golden, language), read_text(html, language)


if __name__ == "__main__":
    for report in GOLDEN:
        if not sys.argv[1:] or report.name in sys.argv[1:]:
            for path, content in golden_texts(report):
                path.write_text(content, encoding="utf-8")
                print(path.relative_to(ROOT))
