"""The map of which implementation to use, by head size, length and mask: a table a metric.

Where this project's own kernel leads anywhere, a map without it stands before the one with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flashlab.analysis.choices import cells, ranking
from flashlab.analysis.experiment import use_metrics
from flashlab.analysis.frames import Dataset
from flashlab.numbers import leads
from flashlab.report.document import Beside, Block, Prose, Row, Table, Text, says
from flashlab.report.tables import head, mark

LEAST = 3
"""Fewest implementations among which one chooses, rather than compares one with the baseline."""

MOST_NAMED = 2
"""Most implementations that a cell names each."""

STYLES = 9
"""The number of colours of implementations."""

BY = ("head_dim", "seq_len", "causal")


def maps(data: Dataset) -> list[Block]:
    """The maps, each below its heading; none of fewer than three implementations."""
    if not {*BY} <= {parameter.name for parameter in data.benchmark.parameters}:
        return []
    measured = dict.fromkeys(name for s in data.sweeps for name in s.names)
    names = [n for n in measured if not data.declared[n].get("packed_of")]
    others = [name for name in names if not data.declared[name].get("tuned_on")]
    if len(names) < LEAST:
        return []
    maps = {"map": names}
    if others != names and len(others) >= LEAST and _leads(data, names, others):
        maps = {"map.others": others, "map.own": names}
    blocks: list[Block] = []
    for key, of in maps.items():
        blocks += [Prose(says(key), "subhead"), _tables(data, of)]
    return [*blocks, Prose(says("map.note"), "quiet")]


def _chosen(data: Dataset, metric: str, names: Sequence[str]) -> Mapping[Any, Any]:
    """The cell of each head size, length and mask, of keys and values that are not shared."""
    table = data.comparisons
    if "num_kv_heads" in table:
        table = table[table.num_kv_heads == table.num_heads]
    ranked = ranking(table, metric, names)
    return cells(ranked, BY).to_dict("index") if len(ranked) else {}


def _leads(data: Dataset, names: Sequence[str], others: Sequence[str]) -> bool:
    """True if one of `names` beside the `others` is the first anywhere."""
    chosen = (_chosen(data, metric.name, names) for metric in use_metrics(data.benchmark))
    return any(cell["names"][0] not in others for each in chosen for cell in each.values())


def _tables(data: Dataset, names: Sequence[str]) -> Beside:
    """A table for each use: rows of d and N, a column for each mask."""
    tables = []
    for metric in use_metrics(data.benchmark):
        chosen = _chosen(data, metric.name, names)
        masks = sorted({bool(mask) for _, _, mask in chosen})
        rows = [
            Row([f"{d:g} · {n:g}", *(_cell(data, chosen.get((d, n, mask))) for mask in masks)])
            for d, n in sorted({(d, n) for d, n, _ in chosen})
        ]
        columns = ["d · N", *(head("on" if mask else "off") for mask in masks)]
        title: Text = says(f"map.{metric.name}")
        tables.append(Table(columns, rows, [(title, len(columns))], 3, kind="map"))
    return Beside(tables)


def _cell(data: Dataset, cell: Mapping[str, Any] | None) -> Markup:
    """The fastest with its least lead, or all that are not shown to be slower; a dot for none."""
    if cell is None:
        return Markup("·")
    first, *others = cell["names"]
    if cell["state"] == "clear":
        style = data.declared[first]["style"] % STYLES
        lead = leads([min(cell["lead"])] * 2)
        return Markup('<span class="choice style-{}">{} <small>+{}</small></span>').format(
            style, mark(data, first), lead
        )
    shown = others if len(others) < MOST_NAMED else [*others[: MOST_NAMED - 1], "…"]
    below = Markup("/ {}").format(" / ".join(shown)) if shown else ""
    return Markup('<span class="choice level">{} <small>{}</small></span>').format(first, below)
