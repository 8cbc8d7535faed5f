"""A comparison as text, as Markdown, as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import comparisons_csv
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import read_table
from flashlab.compare.tabular import as_text
from flashlab.compare.words import EQUAL, FAILED, INCONCLUSIVE, MENDED, STATED, say, verdict_word
from flashlab.files import json_text, open_atomically, read_json
from flashlab.labels import LANGUAGES
from flashlab.numbers import measured, times, with_ends
from flashlab.story.compare import FUSED, MACHINES, NAIVE, Compared, field, records_of
from flashlab.story.observation import Observation
from flashlab.story.words import Texts, joined, paragraphs

FIGURE = "forest.svg"
DATA, TABLE = "comparison.json", "comparison.csv"
"""The PDF's attachments: the observations, and the table of comparisons."""

SIGNS = {"faster": "", "slower": "", "equal": "≈", "undecided": "?"}
"""Before a speed, by its verdict; a decided one is bold where there is bold."""

COUNTS = {"faster": "+", "slower": "−", "equal": "=", "undecided": "?"}
MOST_COLUMNS = 6
"""Columns of speeds that fit the page; of a benchmark with more times the total is shown."""

DOUBT = " *"
"""The mark of a value that was measured with warnings."""

NO_VALUE = "–"

Document = Mapping[str, Any]
Heading = Mapping[str, str] | str
"""A heading in each language, or one in none; that of a column of numbers begins with `>`."""


@dataclass(frozen=True)
class Table:
    """A table whose cells are in no language, and what its signs mean, by language.

    In one of speeds those are bold that have no sign.
    """

    headings: Sequence[Heading]
    rows: Sequence[Sequence[str]]
    note: Mapping[str, str]
    of_speeds: bool = False

    def text(self, language: str, markdown: bool) -> str:
        """The table as text."""
        names = [h if isinstance(h, str) else h[language] for h in self.headings]
        table = as_text(self.rows, names, markdown)
        return f"{table}\n\n{self.note[language]}" if self.note.get(language) else table


def compared_of(document: Document) -> Compared:
    """The two sides of a comparison that was written (`comparison.compare`)."""
    return Compared(find_benchmark(document["benchmark"]), read_table(document), document)


def texts_of(document: Document, language: str) -> Texts:
    """What the story says."""
    return paragraphs(
        (Observation(**o) for o in document["observations"]), language, None, "compare"
    )


def saying(document: Document, key: str, language: str, **params: object) -> str:
    """A message with the sides' names and the margin filled in."""
    one, other = (side["name"] for side in document["sides"])
    margin, shared = f"{100 * document['margin']:g}%", document["shared"]
    return say(key, language, one=one, other=other, margin=margin, shared=shared, **params)


def _each(key: str, **params: object) -> dict[str, str]:
    """A message in each language."""
    return {language: say(key, language, **params) for language in LANGUAGES}


# Tables


def signed(row: pd.Series | None, with_interval: bool = False) -> str:
    """A speed with the sign of its verdict, and its interval: ``≈1.02 1.01–1.03``."""
    if row is None:
        return NO_VALUE
    triple = (float(row.x), float(row.slowest), float(row.fastest))
    value, *ends = with_ends(triple)
    if not with_interval:
        return SIGNS[row.word] + times(triple)
    return f"{SIGNS[row.word]}{value}{' ' + '–'.join(ends) if ends else ''}"


def means(c: Compared, document: Document) -> Table:
    """A row for both groups and each implementation: the mean speed by pass and class of sizes."""
    shown = c.times if len(c.times) * len(c.classes) <= MOST_COLUMNS else [c.total]
    groups = [g for g in (NAIVE, FUSED) if c.mean(c.total.name, group=g) is not None]
    of = [(say(g, "zh_TW") + " " + say(g, "en"), "", g) for g in groups]
    rows = []
    for label, name, group in (*of, *((name, name, "") for name in c.implementations)):
        mine = c.single[(c.single.group == group) if group else (c.single.implementation == name)]
        counts = mine.word.value_counts()
        rows.append(
            [
                label,
                *(
                    signed(c.mean(metric.name, name, group, sizes), with_interval=True)
                    for metric in shown
                    for sizes in c.classes
                ),
                " ".join(f"{counts[w]}{sign}" for w, sign in COUNTS.items() if w in counts),
            ]
        )
    columns: list[Heading] = [
        {language: f">{(m.part or m.labels)[language]} {sizes}".rstrip() for language in LANGUAGES}
        for m in shown
        for sizes in c.classes
    ]
    note = {language: saying(document, "means.note", language) for language in LANGUAGES}
    heads = [_each("column.implementation"), *columns, _each("column.settings")]
    return Table(heads, rows, note, of_speeds=True)


def settings(c: Compared) -> Table:
    """The speed of each implementation at every setting, pass by pass."""
    ended = {(run["implementation"], run["shape"]) for run in c.about["ended"]}
    rows_of = {(r.implementation, r["shape"], r.metric): r for _, r in c.single.iterrows()}
    ordered = c.single.sort_values("seq_len", kind="stable") if "seq_len" in c.single else c.single

    def cell(name: str, shape: str) -> str:
        found = [rows_of.get((name, shape, metric.name)) for metric in c.times]
        if all(row is None for row in found):
            return "×" if (name, shape) in ended else ""
        return " / ".join(map(signed, found))

    rows = [
        [shape, *(cell(n, shape) for n in c.implementations)] for shape in ordered["shape"].unique()
    ]
    passes = {lang: " / ".join((m.part or m.labels)[lang] for m in c.times) for lang in LANGUAGES}
    note = {lang: say("settings.note", lang, passes=passes[lang]) for lang in LANGUAGES}
    names = [f">{name}" for name in c.implementations]
    return Table([_each("column.shape"), *names], rows, note, of_speeds=True)


def machines(document: Document) -> Table:
    """The circumstances of both sides, and the rates that both devices reached at first."""
    one, other = document["sides"]
    rows = [
        (field(row["field"]), [", ".join(row[side]) for side in ("one", "other")], sign)
        for row in document["environments"]
        if not row["implementation"]
        for sign in ("=" if row["verdict"] == "agrees" else "≠",)
    ]
    for rate in document["ceilings"]:
        is_copy = rate["what"] == "copy"
        label = _each("field.copy") if is_copy else _each("field.product", dtype=rate["what"])
        ends = [
            measured(rate[side]) + (f" → {measured(falls)}" if falls else "")
            for side, falls in zip(("one", "other"), rate["sustained"], strict=True)
        ]
        rows.append((label, ends, f"×{times(rate['other'] / rate['one'])}"))
    cells = [
        [" ".join(dict.fromkeys(label.values())), *(side or NO_VALUE for side in sides), sign]
        for label, sides, sign in rows
    ]
    note = _each("ceilings.note") if document["ceilings"] else {}
    return Table([_each("column.field"), one["name"], other["name"], ""], cells, note)


def runs(document: Document, table: pd.DataFrame, words: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of single runs with one of these words, the most pressing first."""
    benchmark = find_benchmark(document["benchmark"])
    named = {metric.name: metric for metric in benchmark.measured}
    single = table[(table.compared == DATASET) & table["shape"].notna()]
    single = single[single.metric.isin(list(named))]
    found = [
        {**row, "word": verdict_word(row["verdict"], named[row["metric"]])}
        for row in records_of(single)
    ]
    for run in document["ended"]:
        if "ok" in (run["one"], run["other"]):
            found.append({**run, "word": FAILED if run["one"] == "ok" else MENDED})
    ranks = {word: rank for rank, word in enumerate(words)}
    return sorted((r for r in found if r["word"] in ranks), key=lambda r: ranks[r["word"]])


def every_run(document: Document, rows: Sequence[Mapping[str, Any]], language: str) -> Table:
    """Single runs: both medians, the ratio of the second side to the first, and the verdict."""
    benchmark, cells = find_benchmark(document["benchmark"]), list[list[str]]()
    for row in rows:
        verdict = say(row["word"], language) + (DOUBT if row.get("doubts") else "")
        if "metric" in row:
            values = [
                f"{measured(row[f'{side}_median'])} {row['unit']}"
                for side in ("reference", "subject")
            ]
            ratio, *ends = with_ends(row["ratio"], row.get("low"), row.get("high"))
            ratio += f" [{', '.join(ends)}]" if ends else ""
            metric = benchmark.metric(row["metric"]).labels[language]
        else:
            metric, values, ratio = NO_VALUE, [row["one"], row["other"]], NO_VALUE
        cells.append([row["implementation"], row["shape"], metric, *values, ratio, verdict])
    heads = [say(f"column.{key}", language) for key in ("implementation", "shape", "metric")]
    sides = [f">{side['name']}" for side in document["sides"]]
    last = [f">{say('column.ratio', language)}", say("column.verdict", language)]
    return Table([*heads, *sides, *last], cells, {})


# Text


def as_lines(document: Document, language: str, markdown: bool) -> str:
    """A comparison as text: its sentences, means, circumstances that differ, runs that differ.

    Only Markdown has the other runs too, folded away.
    """
    c, texts = compared_of(document), texts_of(document, language)
    hashes = "### " if markdown else ""
    parts = [f"{hashes}{saying(document, 'title', language)}"]
    parts += [saying(document, "subtitle", language), texts.answer, texts.conclusion]
    if len(c.single):
        parts.append(means(c, document).text(language, markdown))
    parts += [*texts.notices, texts.sections.get(MACHINES, "")]
    shown = runs(document, c.table, STATED)
    if shown:
        parts.append(every_run(document, shown, language).text(language, markdown))
    others = runs(document, c.table, (INCONCLUSIVE, EQUAL)) if markdown else []
    if others:
        told = every_run(document, others, language).text(language, markdown)
        summary = say("more", language, count=len(others))
        parts += [f"<details><summary>{summary}</summary>", told, "</details>"]
    if any(row.get("doubts") for row in (*shown, *others)):
        parts.append(say("doubt", language))
    return "\n\n".join(filter(None, parts)) + "\n"


# PDF and page


_DECIDED = re.compile(r"^\d[\d.]*(?= \S+–|$)|(?<= / )\d[\d.]*|^\d[\d.]*(?= / )")
"""A speed that has no sign."""


def decided(cell: str) -> Markup:
    """A cell whose decided speeds are bold."""
    return Markup(_DECIDED.sub(lambda found: f"<b>{found[0]}</b>", str(escape(cell))))


def _to_html(document: Document, figures: Path, in_browser: bool) -> str:
    """The comparison as HTML: for WeasyPrint, or for a browser with everything inside it."""
    from flashlab.report.page import LANGUAGE_TAGS, screen_style
    from flashlab.report.render import TEMPLATES, templates

    c, forest = compared_of(document), figures / FIGURE
    # The PDF is for reading, the page for looking up too.
    rows = runs(document, c.table, (*STATED, INCONCLUSIVE, EQUAL))
    main = document["languages"][0]
    texts = {language: texts_of(document, language) for language in document["languages"]}
    environment = templates(TEMPLATES)
    environment.filters["decided"] = decided
    return environment.get_template("compare.html.j2").render(
        languages=document["languages"],
        tags=LANGUAGE_TAGS,
        answers={language: text.answer for language, text in texts.items()},
        conclusions={language: text.conclusion for language, text in texts.items()},
        notices={language: joined(text.notices, language) for language, text in texts.items()},
        sections={lang: text.sections.get(MACHINES, "") for lang, text in texts.items()},
        say=lambda key, language, **params: saying(document, key, language, **params),
        means=means(c, document) if len(c.single) else None,
        machines=machines(document),
        settings=settings(c) if len(c.single) else None,
        runs=every_run(document, rows, main) if in_browser else None,
        count=len(rows),
        forest=forest if forest.is_file() else None,
        svg=Markup(forest.read_text(encoding="utf-8")) if forest.is_file() else "",
        in_browser=in_browser,
        style=screen_style("report.css", "compare.css", "compare-screen.css"),
    )


def write_pdf(comparison_file: Path, figures: Path, output: Path) -> None:
    """Write the PDF atomically, with the data attached; the same data gives the same bytes."""
    from flashlab.report.attachments import AttachedFile
    from flashlab.report.render import to_pdf

    document = read_json(comparison_file)
    created = datetime.fromisoformat(max(side["ended"] for side in document["sides"]))
    table = comparisons_csv(compared_of(document).table)
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
    from flashlab.report.page import FONT_GOES_HERE
    from flashlab.report.page_font import embedded_font

    html = _to_html(read_json(comparison_file), figures, in_browser=True)
    with open_atomically(output) as file:
        file.write(html.replace(FONT_GOES_HERE, embedded_font(html), 1))
