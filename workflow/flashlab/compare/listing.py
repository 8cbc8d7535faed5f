"""The runs of a comparison as the rows of a table, and the whole comparison as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from flashlab.compare.printing import Block, Cell, Folded, Title, table_of, verdict_cell
from flashlab.compare.rule import EQUAL, INCONCLUSIVE, STATED, VERDICTS
from flashlab.compare.sentences import Sentences
from flashlab.compare.words import CHANGED, DOUBT, NO_VALUE, between, name_metric, number, printed

COLUMNS = (
    *("column.implementation", "column.shape", "column.metric", "column.one", "column.other"),
    *("column.ratio", "column.interval", "column.verdict"),
)
NUMERIC = range(3, 7)


def cells(pair: Mapping[str, Any], words: Sentences) -> list[str]:
    """A pair as the cells of its row, in the order of `COLUMNS`."""
    ratio, low, high = pair["ratio"], pair["low"], pair["high"]
    if pair["metric"] is None:
        metric = NO_VALUE
        values = [words.say(status) for status in pair["statuses"]]
    else:
        metric = name_metric(words.benchmark.metric(pair["metric"]), words.language)
        values = [number(pair[side], pair["unit"]) for side in ("one", "other")]
    return [
        *(pair["run"]["implementation"], pair["shape"], metric, *values),
        NO_VALUE if ratio is None else printed(ratio),
        NO_VALUE if low is None else between(low, high),
        words.say(pair["verdict"]) + (DOUBT if pair["warnings"] else ""),
    ]


def sorted_pairs(document: Mapping[str, Any], verdicts: Sequence[str]) -> list[dict[str, Any]]:
    """The runs with one of these verdicts, the most pressing first."""
    pairs = [pair for pair in document["pairs"] if pair["verdict"] in verdicts]
    return sorted(pairs, key=lambda pair: VERDICTS.index(pair["verdict"]))


def _table(words: Sentences, pairs: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for pair in pairs:
        *others, verdict = cells(pair, words)
        rows.append([*others, verdict_cell(verdict, pair["verdict"])])
    return table_of([words.say(column) for column in COLUMNS], rows, NUMERIC)


def _counts(words: Sentences) -> Table:
    """What differs, a row for each implementation and metric, in the columns of the report."""
    rows: list[list[Cell]] = []
    for row in words.counted_rows:
        name, found = row["implementation"], words.differences(row)
        rows.append(
            [
                name + (CHANGED if name in words.changed else ""),
                name_metric(words.benchmark.metric(row["metric"]), words.language),
                *(str(row["verdicts"].get(verdict, "")) for verdict in words.shown),
                *("; ".join(each[part] for each in found) for part in (1, 2, 3)),
            ]
        )
    about = ("column.implementation", "column.metric", *words.shown)
    headings = [*about, "column.medians", "column.intervals", "column.where"]
    return table_of([*map(words.say, headings)], rows, range(2, len(headings) - 1))


def blocks(document: Mapping[str, Any], language: str, markdown: bool) -> list[Block]:
    """A comparison as text: conclusions, circumstances, and the runs that differ.

    Only Markdown has the other runs too, folded away.
    """
    words = Sentences(document, language)
    first, *further = words.environments
    differing = [
        f"{words.field(row)}: {words.values(row['one'])} → {words.values(row['other'])}"
        for row in words.differing
    ]
    parts: list[Block] = [
        Title(words.say("title")),
        words.subtitle,
        [*words.lead, *words.failures],
    ]
    if words.counted_rows:
        notes = ["counts.note", *(["counts.changed"] if words.changed else [])]
        parts += [_counts(words), [*map(words.say, notes)]]
    parts.append([first, differing, *further])
    shown = sorted_pairs(document, STATED)
    if shown:
        parts.append(_table(words, shown))
    others = sorted_pairs(document, (INCONCLUSIVE, EQUAL)) if markdown else []
    if others:
        parts.append(Folded(words.say("more", count=len(others)), _table(words, others)))
    if any(pair["warnings"] for pair in (*shown, *others)):
        parts.append(words.say("doubt"))
    return [*parts, [*words.only]]
