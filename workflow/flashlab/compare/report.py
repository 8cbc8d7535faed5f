"""A comparison as text, as Markdown, as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.ceilings import COPY
from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import comparisons_csv
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import compare, to_json
from flashlab.compare.looks import verdict_word
from flashlab.compare.sides import find_side
from flashlab.files import json_text, open_atomically, read_json
from flashlab.labels import LANGUAGES, message
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
from flashlab.story.compare import FUSED, MACHINES, NAIVE, Compared, field
from flashlab.story.observation import Observation
from flashlab.story.words import joined, paragraphs

FIGURE = "forest.svg"
SIGNS = {"faster": "", "slower": "", "equal": "≈", "undecided": "?"}
"""Before a speed, by its verdict; a decided one is bold."""

COUNTS = {"faster": "+", "slower": "−", "equal": "=", "undecided": "?"}
MOST_COLUMNS = 6
"""Columns of speeds that fit the page; of a benchmark with more times the total is shown."""

NO_VALUE = "–"
"""What stands in place of no value."""


def _says(c: Compared, key: str, **params: object) -> Text:
    """A message in each language, with the sides' names and the margin filled in."""
    margin, (one, other) = f"{100 * c.about['margin']:g}%", c.names
    about = {"one": one, "other": other, "margin": margin, "shared": c.about["shared"], **params}
    return {
        each: message(each, "compare", key).format_map(
            {name: in_language(of, each) for name, of in about.items()}
        )
        for each in LANGUAGES
    }


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
    first, last = _says(c, "column.implementation"), _says(c, "column.settings")
    heads: list[Words] = [first, *[*c.classes] * len(shown), last]
    above = [("", 1), *passes, ("", 1)]
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
    doubted = int((c.single.doubts != "").sum())
    legend += [_says(c, "doubt", count=doubted, of=len(c.single))] if doubted else []
    heads: list[Words] = [_says(c, "column.shape"), *c.implementations]
    return Table(heads, rows, legend=legend, kind="wide")


def machines(c: Compared) -> Table:
    """The circumstances of both sides, and the rates that both devices reached at first."""
    rows: list[tuple[Words, ...]] = [
        (field(row["field"]), ", ".join(row["one"]), ", ".join(row["other"]), sign)
        for row in c.about["environments"]
        if not row["implementation"]
        for sign in ("=" if row["verdict"] == "agrees" else "≠",)
    ]
    for rate in c.about["ceilings"]:
        key = "field.copy" if rate["what"] == COPY else "field.product"
        one, other = (
            measured(rate[side]) + (f" → {measured(falls)}" if falls else "")
            for side, falls in zip(("one", "other"), rate["sustained"], strict=True)
        )
        quotient = f"×{times(rate['other'] / rate['one'])}"
        rows.append((_says(c, key, dtype=rate["what"]), one, other, quotient))
    legend = [_says(c, "ceilings.note")] if c.about["ceilings"] else []
    cells = [Row([cell or NO_VALUE for cell in row]) for row in rows]
    heads: list[Words] = [_says(c, "column.field"), *c.names, ""]
    return Table(heads, cells, text=3, legend=legend, kind="facts")


def verdicts(c: Compared) -> set[str]:
    """The words for what single runs show; ``failed`` where one had a result before alone."""
    single = c.table[(c.table.compared == DATASET) & c.table["shape"].notna()]
    words = {
        verdict_word(verdict, c.benchmark.metric(metric))
        for metric, verdict in zip(single.metric, single.verdict, strict=True)
        if metric in {metric.name for metric in c.benchmark.compared}
    }
    lost = {run["one"] for run in c.about["ended"]}
    return words | ({"failed"} if "ok" in lost else set())


# Set as a report


def report_of(c: Compared, languages: tuple[str, ...], figure: Path) -> Report:
    """A comparison as a report with its figure."""
    said = [Observation(**each) for each in c.about["observations"]]
    texts = {each: paragraphs(said, each, None, "compare") for each in LANGUAGES}
    answer = {each: text.answer for each, text in texts.items()}
    choice = {each: text.conclusion for each, text in texts.items()}
    notices = {each: joined(text.notices, each) for each, text in texts.items()}
    about = {each: text.sections.get(MACHINES, "") for each, text in texts.items()}
    blocks: dict[str, list[Block]] = {
        "answer": [Prose(answer, "answer"), Prose(choice), Prose(notices, "quiet")],
        "machines": [Prose(about), machines(c)],
    }
    if len(c.single):
        caption, none = _says(c, "figure.note"), dict.fromkeys(LANGUAGES, "")
        forest = Figure(figure, none, caption, _says(c, "figure.alt"))
        blocks["answer"].insert(2, means(c))
        blocks["settings"] = [settings(c), Figures([forest])]
    sections = [
        Section(
            name,
            [each for each in of if not isinstance(each, Prose) or any(each.text.values())],
            _says(c, f"section.{name}"),
            kind="long",
        )
        for name, of in blocks.items()
    ]
    created = max(side["ended"] for side in c.about["sides"])
    facts = [_says(c, "subtitle")[language] for language in languages]
    return Report(languages, _says(c, "title"), facts, [], sections, created)


def as_text(report: Report, language: str, markdown: bool) -> str:
    """A report's paragraphs and tables as text or Markdown, in a language."""
    bold, heading, form = ("**", "### ", "pipe") if markdown else ("", "", "plain")

    def plain(words: Words | Cell) -> str:
        text = in_language(words, language)
        if not isinstance(text, Markup):
            return str(text)
        return Markup(text.replace("<b>", bold).replace("</b>", bold)).striptags()

    told = [heading + plain(report.title), *map(plain, report.facts)]
    for block in itertools.chain(*(section.blocks for section in report.sections)):
        if isinstance(block, Prose):
            told.append(plain(block.text))
        elif isinstance(block, Table):
            groups = [title for title, span in block.groups for _ in range(span)]
            heads = itertools.zip_longest(groups, block.columns, fillvalue="")
            lines = [[" ".join(filter(None, map(plain, head))) for head in heads]]
            lines += [[*map(plain, row.cells)] for row in block.rows]
            if markdown:
                lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
            frame = pd.DataFrame(lines[1:], columns=pd.Index(lines[0]))
            sides = ["left" if at < block.text else "right" for at in range(len(lines[0]))]
            how: dict[str, Any] = {"disable_numparse": True, "colalign": sides}
            told.append(str(frame.to_markdown(index=False, tablefmt=form, **how)))
            told += map(plain, block.legend)
    return "\n\n".join(filter(None, told)) + "\n"


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
    report = report_of(c, (language,), Path(FIGURE))
    is_json, is_markdown = form == "json", form == "markdown"
    print(json_text(to_json(c)) if is_json else as_text(report, language, is_markdown), end="")
    return 1 if verdicts(c) & {*fail_on} else 0
