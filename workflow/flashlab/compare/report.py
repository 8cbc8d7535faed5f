"""A comparison as text, as Markdown, as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import comparisons_csv
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import compare, to_json
from flashlab.compare.sides import find_side
from flashlab.compare.words import FAILED, MENDED, STATED, UNSTATED, as_text, say, verdict_word
from flashlab.files import json_text, open_atomically, read_json
from flashlab.labels import LANGUAGES
from flashlab.numbers import measured, times, with_ends
from flashlab.report import document as parts
from flashlab.report.document import Cell, Prose, Report, Row, Table, Text, Words, in_language
from flashlab.story.compare import FUSED, MACHINES, NAIVE, Compared, field, records_of
from flashlab.story.observation import Observation
from flashlab.story.words import Texts, joined, paragraphs

FIGURE = "forest.svg"
SIGNS = {"faster": "", "slower": "", "equal": "≈", "undecided": "?"}
"""Before a speed, by its verdict; a decided one is bold."""

COUNTS = {"faster": "+", "slower": "−", "equal": "=", "undecided": "?"}
MOST_COLUMNS = 6
"""Columns of speeds that fit the page; of a benchmark with more times the total is shown."""

DOUBT, NO_VALUE = " *", "–"
"""The mark of a value that was measured with warnings, and what stands in place of none."""


def texts_of(c: Compared, language: str) -> Texts:
    """What the story says."""
    told = [Observation(**each) for each in c.about["observations"]]
    return paragraphs(told, language, None, "compare")


def _says(c: Compared, key: str, **params: object) -> Text:
    """A message in each language, with the sides' names and the margin filled in."""
    margin, (one, other) = f"{100 * c.about['margin']:g}%", c.names
    about = {"one": one, "other": other, "margin": margin, "shared": c.about["shared"], **params}
    return {
        each: say(key, each, **{name: in_language(of, each) for name, of in about.items()})
        for each in LANGUAGES
    }


def _columns(c: Compared, *keys: str) -> list[Words]:
    return [_says(c, f"column.{key}") for key in keys]


# Tables


def _speed(row: pd.Series | None, with_interval: bool = False) -> Markup:
    """A speed with the sign of its verdict, and its interval: ``≈1.02 1.01–1.03``."""
    if row is None:
        return Markup(NO_VALUE)
    triple = (float(row.x), float(row.slowest), float(row.fastest))
    value, *ends = with_ends(triple) if with_interval else (times(triple),)
    told = Markup("{}{}" if SIGNS[row.word] else "{}<b>{}</b>").format(SIGNS[row.word], value)
    return told + (Markup(" <small>{}</small>").format("–".join(ends)) if ends else "")


def means(c: Compared) -> Table:
    """A row for both groups and each implementation: the mean speed by pass and class of sizes."""
    shown = c.times if len(c.times) * len(c.classes) <= MOST_COLUMNS else [c.total]
    groups = [g for g in (NAIVE, FUSED) if c.mean(c.total.name, group=g) is not None]
    named: list[tuple[Words, str, str]] = [(_says(c, group), "", group) for group in groups]
    rows = []
    for label, name, group in (*named, *((name, name, "") for name in c.implementations)):
        of = (c.single.group == group) if group else (c.single.implementation == name)
        counts = c.single[of].word.value_counts()
        speeds = [
            _speed(c.mean(metric.name, name, group, sizes), with_interval=True)
            for metric, sizes in itertools.product(shown, c.classes)
        ]
        counted = " ".join(f"{counts[w]}{sign}" for w, sign in COUNTS.items() if w in counts)
        rows.append(Row([label, *speeds, counted], "marked" if group else ""))
    passes: list[tuple[Words, int]] = [(m.part or m.labels, len(c.classes)) for m in shown]
    first, last = _columns(c, "implementation", "settings")
    heads, above = [first, *[*c.classes] * len(shown), last], [("", 1), *passes, ("", 1)]
    return Table(heads, rows, above, legend=[_says(c, "means.note")], kind="wide")


def settings(c: Compared) -> Table:
    """The speed of each implementation at every setting, pass by pass."""
    ended = {(run["implementation"], run["shape"]) for run in c.about["ended"]}
    known = {(r.implementation, r["shape"], r.metric): r for _, r in c.single.iterrows()}

    def cell(name: str, shape: str) -> Markup:
        found = [known.get((name, shape, metric.name)) for metric in c.times]
        if all(row is None for row in found):
            return Markup("×" if (name, shape) in ended else "")
        return Markup(" / ").join(map(_speed, found))

    by = "seq_len" if "seq_len" in c.single else "shape"
    shapes = c.single.sort_values(by, kind="stable")["shape"].unique()
    rows = [Row([shape, *(cell(name, shape) for name in c.implementations)]) for shape in shapes]
    of = [metric.part or metric.labels for metric in c.times]
    passes = {language: " / ".join(part[language] for part in of) for language in LANGUAGES}
    legend = [_says(c, "settings.note", passes=passes)]
    return Table([*_columns(c, "shape"), *c.implementations], rows, legend=legend, kind="wide")


def machines(c: Compared) -> Table:
    """The circumstances of both sides, and the rates that both devices reached at first."""
    rows: list[tuple[Words, ...]] = [
        (field(row["field"]), ", ".join(row["one"]), ", ".join(row["other"]), sign)
        for row in c.about["environments"]
        if not row["implementation"]
        for sign in ("=" if row["verdict"] == "agrees" else "≠",)
    ]
    for rate in c.about["ceilings"]:
        what = rate["what"]
        label = _says(c, "field.copy" if what == "copy" else "field.product", dtype=what)
        one, other = (
            measured(rate[side]) + (f" → {measured(falls)}" if falls else "")
            for side, falls in zip(("one", "other"), rate["sustained"], strict=True)
        )
        rows.append((label, one, other, f"×{times(rate['other'] / rate['one'])}"))
    legend = [_says(c, "ceilings.note")] if c.about["ceilings"] else []
    cells = [Row([cell or NO_VALUE for cell in row]) for row in rows]
    heads = [*_columns(c, "field"), *c.names, ""]
    return Table(heads, cells, text=3, legend=legend, kind="facts")


def runs(c: Compared, words: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of single runs with one of these words, the most pressing first."""
    named = {metric.name: metric for metric in c.benchmark.compared}
    single = c.table[(c.table.compared == DATASET) & c.table["shape"].notna()]
    found = [
        {**row, "word": verdict_word(row["verdict"], named[row["metric"]])}
        for row in records_of(single[single.metric.isin(list(named))])
    ]
    for run in c.about["ended"]:
        if "ok" in (run["one"], run["other"]):
            found.append({**run, "word": FAILED if run["one"] == "ok" else MENDED})
    known = [row for row in found if row["word"] in words]
    return sorted(known, key=lambda row: words.index(row["word"]))


def every_run(c: Compared, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Single runs: both medians, the ratio of the second side to the first, and the verdict."""
    cells = []
    for row in rows:
        about: list[Words] = [row["implementation"], row["shape"]]
        if "metric" in row:
            medians = (row["reference_median"], row["subject_median"])
            ratio, *ends = with_ends(row["ratio"], row.get("low"), row.get("high"))
            about.append(c.benchmark.metric(row["metric"]).labels)
            about += [f"{measured(median)} {row['unit']}" for median in medians]
            about.append(ratio + (f" [{', '.join(ends)}]" if ends else ""))
        else:
            about += [NO_VALUE, row["one"], row["other"], NO_VALUE]
        mark = DOUBT if row.get("doubts") else ""
        cells.append(Row([*about, {k: v + mark for k, v in _says(c, row["word"]).items()}]))
    first = _columns(c, "implementation", "shape", "metric")
    return Table([*first, *c.names, *_columns(c, "ratio", "verdict")], cells, text=3)


# Text


def _plain(words: Words | Cell, language: str, bold: str = "") -> str:
    """Words of a table as text, what is bold between such marks."""
    text = in_language(words, language)
    if not isinstance(text, Markup):
        return str(text)
    return Markup(str(text).replace("<b>", bold).replace("</b>", bold)).striptags()


def _table_text(table: Table, language: str, markdown: bool) -> str:
    """A table as text, with what its signs mean."""
    groups = [title for title, span in table.groups for _ in range(span)]
    both = itertools.zip_longest(groups, table.columns, fillvalue="")
    heads = [" ".join(_plain(each, language) for each in head if each) for head in both]
    heads = [">" * (place >= table.text) + head for place, head in enumerate(heads)]
    bold = "**" if markdown else ""
    cells = [[_plain(cell, language, bold) for cell in row.cells] for row in table.rows]
    legend = [_plain(each, language) for each in table.legend]
    return "\n\n".join([as_text(cells, heads, markdown), *legend])


def as_lines(c: Compared, language: str, markdown: bool) -> str:
    """A comparison as text: its sentences, means, circumstances that differ, runs that differ."""
    texts, shown = texts_of(c, language), runs(c, STATED)
    told = [("### " if markdown else "") + _says(c, "title")[language]]
    told += [_says(c, "subtitle")[language], texts.answer, texts.conclusion]
    told += [_table_text(means(c), language, markdown)] if len(c.single) else []
    told += [*texts.notices, texts.sections.get(MACHINES, "")]
    told += [_table_text(every_run(c, shown), language, markdown)] if shown else []
    told += [_says(c, "doubt")[language]] if any(row.get("doubts") for row in shown) else []
    return "\n\n".join(filter(None, told)) + "\n"


# PDF and page


def report_of(c: Compared, languages: tuple[str, ...], figure: Path) -> Report:
    """A comparison as a report with its figure. Single runs are on the page alone."""
    texts, every = {each: texts_of(c, each) for each in LANGUAGES}, runs(c, (*STATED, *UNSTATED))
    answer, choice, notices, about = (
        [Prose(told, kind)] if any(told.values()) else []
        for kind, told in (
            ("answer", {each: text.answer for each, text in texts.items()}),
            ("", {each: text.conclusion for each, text in texts.items()}),
            ("quiet", {each: joined(text.notices, each) for each, text in texts.items()}),
            ("", {each: text.sections.get(MACHINES, "") for each, text in texts.items()}),
        )
    )
    shown, chapter = list[parts.Block](), list[parts.Block]()
    if len(c.single):
        caption, none = _says(c, "figure.note"), dict.fromkeys(LANGUAGES, "")
        forest = parts.Figure(figure, none, caption, _says(c, "figure.alt"))
        omitted = Prose(_says(c, "omitted", count=len(every)), "quiet")
        shown, chapter = [means(c)], [settings(c), parts.Figures([forest]), omitted]
    blocks: dict[str, Sequence[parts.Block]] = {
        "answer": [*answer, *choice, *shown, *notices],
        "machines": [*about, machines(c)],
        "settings": chapter,
        "runs": [every_run(c, every)],
    }
    sections = [
        parts.Section(
            name, of, _says(c, f"section.{name}"), kind="screen" if name == "runs" else "long"
        )
        for name, of in blocks.items()
        if of
    ]
    created = max(side["ended"] for side in c.about["sides"])
    facts = [_says(c, "subtitle")[language] for language in languages]
    return Report(languages, _says(c, "title"), facts, [], sections, created)


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned into a folder: its data, a PDF and a page.

    The data are attached to the PDF; the same data give the same bytes. Errors as of `compare`.
    """
    from flashlab.compare.forest import draw_forest
    from flashlab.figures import style
    from flashlab.report.attachments import AttachedFile
    from flashlab.report.render import Page, to_html, to_pdf

    plan = read_json(plan_file)
    c, languages = compare(*plan["sides"]), tuple(plan["languages"])
    data = {"comparison.json": json_text(to_json(c)), "comparison.csv": comparisons_csv(c.table)}
    attached = [AttachedFile(name, text.encode(), "Data") for name, text in data.items()]
    with tempfile.TemporaryDirectory() as folder, style.drawing():
        figure, page = Path(folder, FIGURE), Page()
        if len(c.single):
            style.save(draw_forest(c, languages), figure)
        report = report_of(c, languages, figure)
        created = datetime.fromisoformat(report.created).astimezone(UTC)
        pdf = to_pdf(to_html(report), figure.parent, attached, created)
        html = page.complete(to_html(report, page))
    with open_atomically(output / "compare.pdf", binary=True) as file:
        file.write(pdf)
    for name, text in {"comparison.json": data["comparison.json"], "compare.html": html}.items():
        with open_atomically(output / name) as file:
            file.write(text)


def print_comparison(
    one: str, other: str, name: str, form: str, fail_on: Sequence[str], language: str
) -> int:
    """Print the comparison of two sides; 1 where a verdict stands that the call is to fail on."""
    benchmark = find_benchmark(name)
    c = compare(find_side(one, benchmark), find_side(other, benchmark))
    told = json_text(to_json(c)) if form == "json" else as_lines(c, language, form == "markdown")
    print(told, end="")
    return 1 if runs(c, fail_on) else 0
