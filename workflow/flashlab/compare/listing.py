"""A comparison in words: its sentences, the table of page one, the runs, and all of it as text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich.table import Table

from flashlab.analysis.comparison_rows import DATASET
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.comparison import read_table
from flashlab.compare.printing import Block, Cell, Folded, Title, table_of, verdict_cell
from flashlab.compare.words import (
    DOUBT,
    EQUAL,
    FAILED,
    INCONCLUSIVE,
    MENDED,
    NO_VALUE,
    STATED,
    between,
    name_metric,
    number,
    printed,
    say,
    set_out,
    verdict_word,
)
from flashlab.story.compare.means import mean_cell, shown_times
from flashlab.story.compare.table import Compared, records_of
from flashlab.story.observation import Observation
from flashlab.story.telling import macros, tell

COLUMNS = (
    *("column.implementation", "column.shape", "column.metric", "column.one", "column.other"),
    *("column.ratio", "column.interval", "column.verdict"),
)
NUMERIC = range(3, 7)
FOOTNOTE = "footnote_"

Document = Mapping[str, Any]


def compared_of(document: Document) -> Compared:
    """The two sides of a comparison that was written (`comparison.compare`)."""
    return Compared(find_benchmark(document["benchmark"]), read_table(document), document)


def saying(document: Document, key: str, language: str, **params: object) -> str:
    """A message with the sides' names and the margin filled in."""
    one, other = (side["name"] for side in document["sides"])
    margin = f"{100 * document['margin']:g}%"
    shared = document["shared"]
    return say(key, language, one=one, other=other, margin=margin, shared=shared, **params)


def sentences(document: Document, language: str) -> tuple[list[str], list[str]]:
    """The story's sentences, and its footnotes."""
    observations = [Observation(**keys) for keys in document["observations"]]
    texts = [(o.name, set_out(tell(o, "compare", language), language)) for o in observations]
    return (
        [text for name, text in texts if not name.startswith(FOOTNOTE)],
        [text for name, text in texts if name.startswith(FOOTNOTE)],
    )


# The circumstances


def field(row: Mapping[str, Any], language: str) -> str:
    """The name of a field of the circumstances."""
    named = macros("compare", language).field(row["field"], row["implementation"])
    return set_out(str(named), language)


def values(stated: Sequence[str], language: str) -> str:
    """One side's values of a field, in words."""
    return say("separator", language).join(stated) or say("unstated", language)


def differing(document: Document) -> list[Mapping[str, Any]]:
    """The circumstances on which both sides do not agree; packed twins have their kernel's."""
    rows = (row for row in document["environments"] if row["verdict"] != "agrees")
    return [row for row in rows if not str(row["implementation"]).endswith(PACKED_TWIN)]


# The runs


def runs(document: Document, table: pd.DataFrame, words: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of single runs with one of these words, the most pressing first."""
    benchmark = find_benchmark(document["benchmark"])
    named = {metric.name: metric for metric in benchmark.measured}
    single = table[(table.compared == DATASET) & table["shape"].notna()]
    single = single[single.metric.isin(list(named))]
    table_rows = [
        {**row, "word": verdict_word(row["verdict"], named[row["metric"]])}
        for row in records_of(single)
    ]
    for run in document["ended"]:
        if "ok" in (run["one"], run["other"]):
            word = FAILED if run["one"] == "ok" else MENDED
            table_rows.append({**run, "metric": None, "word": word, "doubts": None})
    ranks = {word: rank for rank, word in enumerate(words)}
    return sorted((r for r in table_rows if r["word"] in ranks), key=lambda r: ranks[r["word"]])


def cells(row: Mapping[str, Any], benchmark: Benchmark, language: str) -> list[str]:
    """A run's row as the cells of the table, in the order of `COLUMNS`."""
    verdict = say(row["word"], language) + (DOUBT if row["doubts"] else "")
    if row["metric"] is None:
        statuses = [str(macros("compare", language).status(row[side])) for side in ("one", "other")]
        middle = [NO_VALUE, *statuses, NO_VALUE, NO_VALUE]
    else:
        medians = [number(row[f"{side}_median"], row["unit"]) for side in ("reference", "subject")]
        interval = NO_VALUE if row["low"] is None else between(row["low"], row["high"])
        metric = name_metric(benchmark.metric(row["metric"]), language)
        middle = [metric, *medians, printed(row["ratio"]), interval]
    return [row["implementation"], row["shape"], *middle, verdict]


def _table(document: Document, rows: Sequence[Mapping[str, Any]], language: str) -> Table:
    benchmark = find_benchmark(document["benchmark"])
    lines: list[list[Cell]] = []
    for row in rows:
        *others, verdict = cells(row, benchmark, language)
        lines.append([*others, verdict_cell(verdict, row["word"])])
    headings = [saying(document, column, language) for column in COLUMNS]
    return table_of(headings, lines, NUMERIC)


def _means(compared: Compared, language: str) -> Table:
    """The table of page one with a row for each implementation and class of sizes."""
    times, classes = shown_times(compared), compared.classes(compared.speeds)
    rows: list[list[Cell]] = []
    for name, sizes in itertools.product(compared.implementations, classes):
        means = [mean_cell(compared, name, sizes, metric.name) for metric in times]
        if any(means):
            rows.append([name, sizes, *("; ".join(m or [NO_VALUE]) for m in means)])
    headings = [say(f"column.{key}", language) for key in ("implementation", "sizes")]
    return table_of([*headings, *(name_metric(m, language) for m in times)], rows)


def blocks(document: Document, language: str, markdown: bool) -> list[Block]:
    """A comparison as text: its sentences, means, circumstances that differ, and runs that differ.

    Only Markdown has the other runs too, folded away.
    """
    compared = compared_of(document)
    texts, footnotes = sentences(document, language)
    parts: list[Block] = [Title(saying(document, "title", language))]
    parts += [saying(document, "subtitle", language), [*texts]]
    if len(compared.speeds):
        parts += [_means(compared, language), saying(document, "means.note", language)]
    parts.append(
        [
            f"{field(row, language)}: "
            + " → ".join(values(row[side], language) for side in ("one", "other"))
            for row in differing(document)
        ]
    )
    shown = runs(document, compared.table, STATED)
    if shown:
        parts.append(_table(document, shown, language))
    others = runs(document, compared.table, (INCONCLUSIVE, EQUAL)) if markdown else []
    if others:
        summary = say("more", language, count=len(others))
        parts.append(Folded(summary, _table(document, others, language)))
    if any(row["doubts"] for row in (*shown, *others)):
        parts.append(say("doubt", language))
    parts.append([*footnotes])
    return [part for part in parts if part]
