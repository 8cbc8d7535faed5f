"""A comparison as text, as Markdown, as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import comparisons_csv
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import read_table
from flashlab.compare.words import (
    EQUAL,
    FAILED,
    INCONCLUSIVE,
    MENDED,
    STATED,
    as_text,
    say,
    verdict_word,
)
from flashlab.files import json_text, open_atomically, read_json
from flashlab.labels import LANGUAGES
from flashlab.numbers import measured, times, with_ends
from flashlab.report.document import (
    Block,
    Cell,
    Figure,
    Figures,
    Prose,
    Report,
    Row,
    Section,
    Table,
    Text,
    Words,
    in_language,
)
from flashlab.story.compare import FUSED, MACHINES, NAIVE, Compared, field, records_of
from flashlab.story.observation import Observation
from flashlab.story.words import Texts, joined, paragraphs

FIGURE = "forest.svg"
DATA, TABLE = "comparison.json", "comparison.csv"
"""The PDF's attachments: the observations, and the table of comparisons."""

SIGNS = {"faster": "", "slower": "", "equal": "≈", "undecided": "?"}
"""Before a speed, by its verdict; a decided one is bold."""

COUNTS = {"faster": "+", "slower": "−", "equal": "=", "undecided": "?"}
MOST_COLUMNS = 6
"""Columns of speeds that fit the page; of a benchmark with more times the total is shown."""

DOUBT = " *"
"""The mark of a value that was measured with warnings."""

NO_VALUE = "–"

Document = Mapping[str, Any]


def _plain(words: Words | Cell, language: str, bold: str = "") -> str:
    """Words of a table as text, what is bold between such marks."""
    text = in_language(words, language)
    for tag in ("<b>", "</b>") if isinstance(text, Markup) else ():
        text = Markup(str(text).replace(tag, bold))
    return text.striptags() if isinstance(text, Markup) else str(text)


def _table_text(table: Table, language: str, markdown: bool) -> str:
    """A table as text, with what its signs mean."""
    groups = [title for title, span in table.groups for _ in range(span)]
    heads = [
        " ".join(filter(None, [_plain(group, language), _plain(head, language)]))
        for group, head in itertools.zip_longest(groups, table.columns, fillvalue="")
    ]
    heads = [">" * (place >= table.text) + head for place, head in enumerate(heads)]
    bold = "**" if markdown else ""
    cells = [[_plain(cell, language, bold) for cell in row.cells] for row in table.rows]
    legend = [_plain(each, language) for each in table.legend]
    return "\n\n".join([as_text(cells, heads, markdown), *legend])


def _speed(row: pd.Series | None, with_interval: bool = False) -> Markup:
    """A speed with the sign of its verdict, and its interval: ``≈1.02 1.01–1.03``."""
    if row is None:
        return Markup(NO_VALUE)
    triple = (float(row.x), float(row.slowest), float(row.fastest))
    value, *ends = with_ends(triple) if with_interval else (times(triple),)
    sign = SIGNS[row.word]
    told = Markup("{}{}").format(sign, value) if sign else Markup("<b>{}</b>").format(value)
    return told + (Markup(" <small>{}</small>").format("–".join(ends)) if ends else "")


@dataclass(frozen=True)
class Comparison:
    """A comparison that was written (`comparison.compare`), in words and tables."""

    document: Document

    @cached_property
    def compared(self) -> Compared:
        """Its frames."""
        document = self.document
        return Compared(find_benchmark(document["benchmark"]), read_table(document), document)

    @cached_property
    def texts(self) -> Mapping[str, Texts]:
        """What the story says, by language."""
        told = [Observation(**each) for each in self.document["observations"]]
        return {each: paragraphs(told, each, None, "compare") for each in LANGUAGES}

    def says(self, key: str, **params: object) -> Text:
        """A message in each language, with the sides' names and the margin filled in."""
        names, document = self.compared.names, self.document
        about = {"one": names[0], "other": names[1], "shared": document["shared"], **params}
        about["margin"] = f"{100 * document['margin']:g}%"
        return {
            each: say(key, each, **{name: in_language(of, each) for name, of in about.items()})
            for each in LANGUAGES
        }

    def columns(self, *keys: str) -> list[Words]:
        """The headings of columns."""
        return [self.says(f"column.{key}") for key in keys]

    def means(self) -> Table:
        """A row for both groups and each implementation: mean speeds by pass and class of sizes."""
        c = self.compared
        shown = c.times if len(c.times) * len(c.classes) <= MOST_COLUMNS else [c.total]
        groups = [g for g in (NAIVE, FUSED) if c.mean(c.total.name, group=g) is not None]
        named: list[tuple[Words, str, str]] = [(self.says(group), "", group) for group in groups]
        named += [(name, name, "") for name in c.implementations]
        rows = []
        for label, name, group in named:
            of = (c.single.group == group) if group else (c.single.implementation == name)
            counts = c.single[of].word.value_counts()
            speeds = [
                _speed(c.mean(metric.name, name, group, sizes), with_interval=True)
                for metric, sizes in itertools.product(shown, c.classes)
            ]
            counted = " ".join(f"{counts[w]}{sign}" for w, sign in COUNTS.items() if w in counts)
            rows.append(Row([label, *speeds, counted], "marked" if group else ""))
        passes: list[tuple[Words, int]] = [(m.part or m.labels, len(c.classes)) for m in shown]
        first, last = self.columns("implementation", "settings")
        heads, groups_of = [first, *[*c.classes] * len(shown), last], [("", 1), *passes, ("", 1)]
        return Table(heads, rows, groups_of, legend=[self.says("means.note")], kind="wide")

    def settings(self) -> Table:
        """The speed of each implementation at every setting, pass by pass."""
        c = self.compared
        ended = {(run["implementation"], run["shape"]) for run in self.document["ended"]}
        known = {(r.implementation, r["shape"], r.metric): r for _, r in c.single.iterrows()}

        def cell(name: str, shape: str) -> Markup:
            found = [known.get((name, shape, metric.name)) for metric in c.times]
            if all(row is None for row in found):
                return Markup("×" if (name, shape) in ended else "")
            return Markup(" / ").join(map(_speed, found))

        by = "seq_len" if "seq_len" in c.single else "shape"
        shapes = c.single.sort_values(by, kind="stable")["shape"].unique()
        rows = [
            Row([shape, *(cell(name, shape) for name in c.implementations)]) for shape in shapes
        ]
        parts = [metric.part or metric.labels for metric in c.times]
        passes = {each: " / ".join(part[each] for part in parts) for each in LANGUAGES}
        heads, note = [*self.columns("shape"), *c.implementations], "settings.note"
        return Table(heads, rows, legend=[self.says(note, passes=passes)], kind="wide")

    def machines(self) -> Table:
        """The circumstances of both sides, and the rates that both devices reached at first."""
        rows: list[tuple[Words, str, str, str]] = [
            (field(row["field"]), ", ".join(row["one"]), ", ".join(row["other"]), sign)
            for row in self.document["environments"]
            if not row["implementation"]
            for sign in ("=" if row["verdict"] == "agrees" else "≠",)
        ]
        for rate in self.document["ceilings"]:
            what = rate["what"]
            label = self.says("field.copy" if what == "copy" else "field.product", dtype=what)
            one, other = (
                measured(rate[side]) + (f" → {measured(falls)}" if falls else "")
                for side, falls in zip(("one", "other"), rate["sustained"], strict=True)
            )
            rows.append((label, one, other, f"×{times(rate['other'] / rate['one'])}"))
        legend = [self.says("ceilings.note")] if self.document["ceilings"] else []
        heads = [*self.columns("field"), *self.compared.names, ""]
        cells = [Row([cell or NO_VALUE for cell in row]) for row in rows]
        return Table(heads, cells, text=3, legend=legend, kind="facts")

    def runs(self, words: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of single runs with one of these words, the most pressing first."""
        table, named = self.compared.table, {m.name: m for m in self.compared.benchmark.measured}
        single = table[(table.compared == DATASET) & table["shape"].notna()]
        found = [
            {**row, "word": verdict_word(row["verdict"], named[row["metric"]])}
            for row in records_of(single[single.metric.isin(list(named))])
        ]
        for run in self.document["ended"]:
            if "ok" in (run["one"], run["other"]):
                found.append({**run, "word": FAILED if run["one"] == "ok" else MENDED})
        known = [row for row in found if row["word"] in words]
        return sorted(known, key=lambda row: words.index(row["word"]))

    def every_run(self, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Single runs: both medians, the ratio of the second side to the first, and the verdict."""
        cells = []
        for row in rows:
            about: list[Words] = [row["implementation"], row["shape"]]
            if "metric" in row:
                medians = (row["reference_median"], row["subject_median"])
                ratio, *ends = with_ends(row["ratio"], row.get("low"), row.get("high"))
                about.append(self.compared.benchmark.metric(row["metric"]).labels)
                about += [f"{measured(median)} {row['unit']}" for median in medians]
                about.append(ratio + (f" [{', '.join(ends)}]" if ends else ""))
            else:
                about += [NO_VALUE, row["one"], row["other"], NO_VALUE]
            mark = DOUBT if row.get("doubts") else ""
            cells.append(Row([*about, {k: v + mark for k, v in self.says(row["word"]).items()}]))
        first = self.columns("implementation", "shape", "metric")
        heads = [*first, *self.compared.names, *self.columns("ratio", "verdict")]
        return Table(heads, cells, text=3)

    def as_lines(self, language: str, markdown: bool) -> str:
        """As text: its sentences, means, circumstances that differ, runs that differ.

        Only Markdown has the other runs too, folded away.
        """
        texts = self.texts[language]
        parts = [("### " if markdown else "") + self.says("title")[language]]
        parts += [self.says("subtitle")[language], texts.answer, texts.conclusion]
        if len(self.compared.single):
            parts.append(_table_text(self.means(), language, markdown))
        parts += [*texts.notices, texts.sections.get(MACHINES, "")]
        if shown := self.runs(STATED):
            parts.append(_table_text(self.every_run(shown), language, markdown))
        if others := self.runs((INCONCLUSIVE, EQUAL)) if markdown else []:
            summary = self.says("more", count=len(others))[language]
            told = _table_text(self.every_run(others), language, markdown)
            parts += [f"<details><summary>{summary}</summary>", told, "</details>"]
        if any(row.get("doubts") for row in (*shown, *others)):
            parts.append(self.says("doubt")[language])
        return "\n\n".join(filter(None, parts)) + "\n"

    def report(self, figures: Path) -> Report:
        """As a document; `figures` has its figure. Single runs are on the page alone."""
        every, sides = self.runs((*STATED, INCONCLUSIVE, EQUAL)), self.document["sides"]
        languages = tuple(self.document["languages"])
        told = [
            ("answer", {each: text.answer for each, text in self.texts.items()}),
            ("", {each: text.conclusion for each, text in self.texts.items()}),
            ("quiet", {each: joined(text.notices, each) for each, text in self.texts.items()}),
            ("", {each: text.sections.get(MACHINES, "") for each, text in self.texts.items()}),
        ]
        answer, choice, notices, about = (
            [Prose(t, kind)] if any(t.values()) else [] for kind, t in told
        )
        means, settings = list[Block](), list[Block]()
        if len(self.compared.single):
            means, shows = [self.means()], self.says("figure.alt")
            caption, none = self.says("figure.note"), dict.fromkeys(LANGUAGES, "")
            settings = [self.settings(), Figures([Figure(figures / FIGURE, none, caption, shows)])]
            settings += [Prose(self.says("omitted", count=len(every)), "quiet")]
        blocks: dict[str, tuple[str, list[Block]]] = {
            "answer": ("long", [*answer, *choice, *means, *notices]),
            "machines": ("long", [*about, self.machines()]),
            "settings": ("long", settings),
            "runs": ("screen", [self.every_run(every)]),
        }
        return Report(
            languages=languages,
            title=self.says("title"),
            facts=[self.says("subtitle")[language] for language in languages],
            notices=[],
            sections=[
                Section(name, parts, self.says(f"section.{name}"), kind=kind)
                for name, (kind, parts) in blocks.items()
                if parts
            ],
            created=max(side["ended"] for side in sides),
        )


def write_pdf(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the PDF atomically, with the data attached; the same data gives the same bytes."""
    from flashlab.report.attachments import AttachedFile
    from flashlab.report.render import to_html, to_pdf

    comparison = Comparison(read_json(comparison_file))
    report = comparison.report(figures)
    created = datetime.fromisoformat(report.created).astimezone(UTC)
    table = comparisons_csv(comparison.compared.table)
    attached = [
        AttachedFile(DATA, json_text(comparison.document).encode(), "Data"),
        AttachedFile(TABLE, table.encode(), "Data"),
    ]
    pdf = to_pdf(to_html(report), figures, attached, created)
    with open_atomically(output, binary=True) as file:
        file.write(pdf)


def write_page(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the same as one HTML file, atomically."""
    from flashlab.report.page import Page
    from flashlab.report.render import to_html

    page = Page()
    html = to_html(Comparison(read_json(comparison_file)).report(figures), page)
    with open_atomically(output) as file:
        file.write(page.complete(html))
