"""A comparison as text, as Markdown, as a PDF, and as one HTML file that loads nothing."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.ceilings import COPY
from flashlab.analysis.comparisons import comparisons_csv
from flashlab.analysis.experiment import DATASET
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import compare, to_json
from flashlab.compare.sides import find_side
from flashlab.files import json_text, open_atomically, read_json
from flashlab.labels import LANGUAGES
from flashlab.numbers import measured, tick, times, with_ends
from flashlab.report import document
from flashlab.report.document import Prose, Report, Row, Table, Text, Words, in_language
from flashlab.story.compare import FUSED, MACHINES, NAIVE, TIMES, Compared, field
from flashlab.story.observation import Observation
from flashlab.story.words import joined, paragraphs

SIGNS = {"equal": "≈", "undecided": "?"}
"""Before a speed, by its verdict; a decided one is bold."""

COUNTS = {"faster": "+", "slower": "−", "equal": "=", "undecided": "?"}


def _says(c: Compared, key: str, **params: object) -> Text:
    """A message in each language, with the sides' names and the margin filled in."""
    about = {"margin": f"{100 * c.about['margin']:g}%", "shared": c.about["shared"], **params}
    about |= {"one": c.names[0], "other": c.names[1]}
    return document.says(key, domain="compare", **about)


# Tables


def _speed(row: Any, with_interval: bool = False) -> Markup:
    """A speed with the sign of its verdict, and its interval: ``≈1.02 1.01–1.03``."""
    if row is None:
        return Markup("–")
    triple = (float(row.x), float(row.slowest), float(row.fastest))
    value, *ends = with_ends(triple) if with_interval else (times(triple),)
    told = SIGNS[row.word] + Markup(value) if row.word in SIGNS else Markup(f"<b>{value}</b>")
    return told + (Markup(f" <small>{'–'.join(ends)}</small>") if ends else "")


def means(c: Compared) -> Table:
    """A row for both groups and each implementation: the mean speed by pass and class of sizes."""
    shown = c.times if len(c.times) * len(c.classes) <= 6 else [c.total]  # as many as fit the page
    groups = [("", g) for g in (NAIVE, FUSED) if c.mean(c.total.name, group=g) is not None]
    rows = []
    for name, group in (*groups, *((name, "") for name in c.implementations)):
        of = (c.single.group == group) if group else (c.single.implementation == name)
        counts = c.single[of].word.value_counts()
        speeds = [
            _speed(c.mean(metric.name, name, group, sizes), with_interval=True)
            for metric, sizes in itertools.product(shown, c.classes)
        ]
        counted = " ".join(f"{counts[w]}{sign}" for w, sign in COUNTS.items() if w in counts)
        label = _says(c, group) if group else name
        rows.append(Row([label, *speeds, counted], "marked" if group else ""))
    heads: list[Words] = [_says(c, "column.implementation"), *[*c.classes] * len(shown)]
    spans: list[tuple[Words, int]] = [(m.part or m.labels, len(c.classes)) for m in shown]
    spans, heads = [("", 1), *spans, ("", 1)], [*heads, _says(c, "column.settings")]
    return Table(heads, rows, spans, legend=[_says(c, "means.note")], kind="wide")


def settings(c: Compared) -> Table:
    """The speed of each implementation at every setting, pass by pass."""
    ended = {(run["implementation"], run["shape"]) for run in c.about["ended"]}
    between = "/" if len(c.implementations) < 10 else "/<br>"  # as many as fit the page
    known = {(r.implementation, r["shape"], r.metric): r for _, r in c.single.iterrows()}

    def cell(name: str, shape: str) -> Markup:
        found = [known.get((name, shape, metric.name)) for metric in c.times]
        if all(row is None for row in found):
            return Markup("×" if (name, shape) in ended else "")
        return Markup(between).join(map(_speed, found))

    by = "seq_len" if "seq_len" in c.single else "shape"
    shapes = c.single.sort_values(by, kind="stable")["shape"].unique()
    rows = [Row([shape, *(cell(name, shape) for name in c.implementations)]) for shape in shapes]
    of = [metric.part or metric.labels for metric in c.times]
    passes = {language: " / ".join(part[language] for part in of) for language in LANGUAGES}
    doubted, legend = int((c.single.doubts != "").sum()), [_says(c, "settings.note", passes=passes)]
    legend += [_says(c, "doubt", count=doubted, of=len(c.single))] if doubted else []
    heads: list[Words] = [_says(c, "column.shape"), *c.implementations]
    return Table(heads, rows, legend=legend, kind="wide")


def machines(c: Compared) -> Table:
    """The circumstances of both sides, and the rates that both devices reached at first."""
    rows: list[list[Words]] = []
    for row in c.about["environments"]:
        if not row["implementation"]:
            values = (", ".join(row[side]) or "–" for side in ("one", "other"))
            rows.append([field(row["field"]), *values, "=" if row["verdict"] == "agrees" else "≠"])
    for rate in c.about["ceilings"]:
        key = "field.copy" if rate["what"] == COPY else "field.product"
        values = (
            measured(rate[side]) + (f" → {measured(falls)}" if falls else "")
            for side, falls in zip(("one", "other"), rate["sustained"], strict=True)
        )
        quotient = f"×{times(rate['other'] / rate['one'])}"
        rows.append([_says(c, key, dtype=rate["what"]), *values, quotient])
    legend = [_says(c, "ceilings.note")] * any(any(r["sustained"]) for r in c.about["ceilings"])
    heads: list[Words] = [_says(c, "column.field"), *c.names, ""]
    return Table(heads, [*map(Row, rows)], text=3, legend=legend, kind="facts")


# The figure

TICKS = (0.1, 0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 5, 10)
"""Of its axis, which ends with them at most."""


def draw_forest(c: Compared, languages: Sequence[str], path: Path) -> None:
    """How many times as fast the second side is, by implementation and sizes: the forest plot.

    A row for each, a panel a time: the geometric mean with its interval, hollow where no difference
    is decided, and a tick for each setting that it is of.
    """
    from flashlab.figures import style
    from flashlab.figures.labels import title_metric

    margin, speeds = c.about["margin"], c.single.x.astype(float)
    table = c.speeds.dropna(subset=["implementation", "sizes"])
    table = table.assign(row=table.implementation + "  " + table.sizes)
    styles = {f"{n}  {s}": at for at, n in enumerate(c.implementations) for s in c.classes}
    looks = style.looks_of({row: at for row, at in styles.items() if row in {*table.row}})
    table = table.assign(y=table.row.map([*looks].index) + 0.5)
    low = max(min(0.9, 0.97 * speeds.min()), TICKS[0])
    high = min(max(1.1, 1.03 * speeds.max()), TICKS[-1])
    figure, (panels,) = style.new_panels(style.WIDE, 1, len(c.times), sharey=True)
    for axes, metric in zip(panels, c.times, strict=True):
        mine = table[table.metric == metric.name]
        single, means = mine[mine["shape"].notna()], mine[mine["shape"].isna()]
        style.name_rows(axes, [*looks], looks)
        style.title_panel(axes, title_metric(metric, languages))
        axes.set(xscale="log", xlim=(low, high), xticks=[t for t in TICKS if low <= t <= high])
        axes.xaxis.set_major_formatter(lambda value, _: f"{tick(value)}×")
        axes.minorticks_off()
        axes.axvspan(1 / (1 + margin), 1 + margin, color="#EEEEEE", zorder=0)
        axes.axvline(1, color=style.GREY, linewidth=0.6, zorder=1)
        axes.plot(single.x.astype(float).clip(low, high), single.y, "|", c=style.PALE, ms=4.5)
        shades = [looks[row].shade for row in means.row]
        axes.hlines(means.y, means.slowest, means.fastest, colors=shades, linewidth=1.2)
        for cut, at, sign in (means.slowest < low, low, "<"), (means.fastest > high, high, ">"):
            axes.plot([at] * sum(cut), means.y[cut], sign, c=style.GREY, ms=3, clip_on=False)
        faces = ["white" if r.word in SIGNS else looks[r.row].shade for r in style.rows_of(means)]
        axes.scatter(means.x, means.y, 15, faces, edgecolors=shades, linewidths=0.8, zorder=3)
    margins = (3.0, 4.0, style.TITLE_HEIGHT, style.LINE_POINTS + 4)
    style.lay_out(figure, 9.4 * len(looks), margins, before=style.widest(looks, "bold"))
    style.save(figure, path)


# Set as a report


def report_of(c: Compared, languages: tuple[str, ...], figure: Path = Path()) -> Report:
    """A comparison as a report with its figure."""
    said = [Observation(**each) for each in c.about["observations"]]
    texts = {each: paragraphs(said, each, None, "compare") for each in LANGUAGES}
    notices = {each: joined(text.notices, each) for each, text in texts.items()}
    about = {each: text.sections.get(MACHINES, "") for each, text in texts.items()}
    answer: list[document.Block] = [
        Prose({each: text.answer for each, text in texts.items()}, "answer"),
        Prose({each: text.conclusion for each, text in texts.items()}),
        Prose(notices, "quiet"),
    ]
    blocks: dict[str, list[document.Block]] = {"answer": answer}
    blocks["machines"] = [Prose(about), machines(c)]
    if len(c.single):
        caption, none = _says(c, "figure.note"), dict.fromkeys(LANGUAGES, "")
        answer.insert(2, means(c))
        forest = document.Figure(figure, none, caption, _says(c, "figure.alt"))
        blocks["settings"] = [settings(c), document.Figures([forest])]
    sections = []
    for name, of in blocks.items():
        told = [b for b in of if not isinstance(b, Prose) or any(b.text.values())]
        sections.append(document.Section(name, told, _says(c, f"section.{name}"), kind="long"))
    created = max(side["ended"] for side in c.about["sides"])
    return Report(languages, _says(c, "title"), [_says(c, "subtitle")], [], sections, created)


def as_text(report: Report, language: str, markdown: bool) -> str:
    """A report's paragraphs and tables as text or Markdown, in a language."""
    bold, bar, heading, form = ("**", r"\|", "### ", "pipe") if markdown else ("", "|", "", "plain")

    def plain(words: Any) -> str:
        text = in_language(words, language)
        if isinstance(text, Markup):
            text = Markup(text.replace("<b>", bold).replace("</b>", bold)).striptags()
        return str(text).replace("|", bar)

    told = [heading + plain(report.title), *map(plain, report.facts)]
    for block in itertools.chain(*(section.blocks for section in report.sections)):
        if isinstance(block, Prose):
            told.append(plain(block.text))
        elif isinstance(block, Table):
            groups = [plain(title) for title, span in block.groups for _ in range(span)]
            heads = itertools.zip_longest(groups, map(plain, block.columns), fillvalue="")
            frame = pd.DataFrame([[*map(plain, row.cells)] for row in block.rows])
            frame.columns = pd.Index([" ".join(head).strip() for head in heads])
            sides = ["left" if at < block.text else "right" for at in range(frame.shape[1])]
            how: dict[str, Any] = {"tablefmt": form, "disable_numparse": True, "colalign": sides}
            told += [str(frame.to_markdown(index=False, **how)), *map(plain, block.legend)]
    return "\n\n".join(filter(None, told)) + "\n"


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned into a folder: its data, a PDF and a page.

    The data are attached to the PDF; the same data give the same bytes. Errors as of `compare`.
    """
    from flashlab.figures import style
    from flashlab.report.attachments import AttachedFile
    from flashlab.report.render import Page, to_html, to_pdf

    plan = read_json(plan_file)
    c, languages = compare(*plan["sides"]), tuple(plan["languages"])
    data = {"comparison.json": json_text(to_json(c)), "comparison.csv": comparisons_csv(c.table)}
    attached = [AttachedFile(name, text.encode(), "Data") for name, text in data.items()]
    with tempfile.TemporaryDirectory() as folder, style.drawing():
        figure, page = Path(folder, "forest.svg"), Page()
        if len(c.single):
            draw_forest(c, languages, figure)
        report = report_of(c, languages, figure)
        pdf = to_pdf(to_html(report), figure.parent, attached, report.created)
        html = page.complete(to_html(report, page))
    made = {"compare.pdf": pdf, "compare.html": html.encode()}
    for name, content in (made | {"comparison.json": data["comparison.json"].encode()}).items():
        with open_atomically(output / name, binary=True) as file:
            file.write(content)


def print_comparison(
    one: str, other: str, name: str, form: str, fail_on: Sequence[str], language: str
) -> int:
    """Print the comparison of two sides; 1 where a verdict stands that the call is to fail on."""
    benchmark = find_benchmark(name)
    c = compare(find_side(one, benchmark), find_side(other, benchmark))
    text = as_text(report_of(c, (language,)), language, form == "markdown")
    print(json_text(to_json(c)) if form == "json" else text, end="")
    single = c.table[(c.table.compared == DATASET) & c.table["shape"].notna()]
    words = {"failed" for run in c.about["ended"] if run["one"] == "ok"}
    for metric in benchmark.compared:
        words |= (found := {*single[single.metric == metric.name].verdict})
        if ("below" if metric.higher_is_better else "above") in found:
            words.add("slower" if metric.unit in TIMES else "worse")
    return 1 if words & {*fail_on} else 0
