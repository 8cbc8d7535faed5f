"""The tables in no language: symbols, numbers, headings in both languages, signs for verdicts.

A speed is bold where it is decided beyond the margin, plain within it, and has ``?`` where it is
undecided; an arrow says how a lead changes along a sweep where its intervals decide that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.choices import cells, ranking
from flashlab.analysis.experiment import IMPLAUSIBLE, use_metrics
from flashlab.analysis.frames import Dataset, Sweep, number
from flashlab.benchmarks.model import FLOPS, Metric
from flashlab.labels import LANGUAGES
from flashlab.numbers import begin, factor, leads, measured, percent, size, times
from flashlab.report.document import (
    Beside,
    Block,
    Cell,
    Prose,
    Row,
    Table,
    Text,
    Words,
    in_both,
    says,
)
from flashlab.story.attention.causes import dram_share
from flashlab.story.attention.roles import (
    MEMORY,
    PASSES,
    SHARED,
    TOTAL,
    change,
    ends,
    is_alike,
    is_packed,
    leader,
)
from flashlab.story.speeds import Speed
from flashlab.telling.glyphs import legible

MOST_VALUES, MOST_OF_PASS = 6, 4
"""Most values of a sweep that a table has, and that one on a mask has for each pass."""

WIDE = 5
"""From so many implementations on, tables are set in smaller type."""

SIGNS = {"grows": "↗", "shrinks": "↘", "constant": "=", "peaks": "∧", "dips": "∨"}
"""How a lead changes along a sweep; nothing where that is open."""

FAILED = {"oom": "OOM", "incorrect": "✗", IMPLAUSIBLE: "!", "unsupported": "–"}
"""What stands in place of a value, by the status of its run; ``ERR`` for any other."""

LEAD = Markup(" <span class='lead'>{}</span>")
"""A speed beside what it is of."""

OPERATORS = ("product", "softmax", "elementwise")
"""The classes of operators whose shares of the forward are counted on a CPU."""


def speed(row: Any) -> Markup:
    """A speed with its verdict's sign; empty for none."""
    if row is None or pd.isna(row.x):
        return Markup("")
    text = f"{times((row.x, row.low, row.high))}×"
    if row.verdict in ("faster", "slower"):
        way = "up" if row.verdict == "faster" else "down"
        return Markup("<b class='{}'>{}</b>").format(way, text)
    return Markup(text if row.verdict == "equal" else f"{text}?")


def at(speeds: pd.DataFrame | None, value: int) -> Any:
    """The row of a value of the sweep; None where there is none."""
    return None if speeds is None or value not in speeds.index else speeds.loc[[value]].iloc[0]


def value_of(s: Sweep, metric: str, name: str, value: int, variant: str = "") -> str:
    """A measured value, with the digits that its interval supports; empty for none."""
    x = number(s.medians(metric, variant), value, name)
    if math.isnan(x):
        return ""
    if s.data.benchmark.metric(metric).exact:
        return size(x)
    key = (s.name, variant or s.variants[0], metric, name, value)
    ends = s.data.intervals.loc[[key]].iloc[0]
    return measured((x, ends.low, ends.high))


def status_of(s: Sweep, name: str, value: int, variant: str = "") -> str:
    """What stands in place of a value that is missing: ``OOM``, ``✗``; empty where none was run."""
    key = (variant or next(iter({*s.failed.index.unique("variant")}), ""), name, value)
    if key not in s.failed.index:
        return ""
    return FAILED.get(str(s.failed.loc[[key]].status.iloc[0]), "ERR")


def value_cell(
    s: Sweep, metric: str, name: str, value: int, variant: str = "", row: Any = None
) -> Cell:
    """A measured value, or what stands in its place, before the speed of a row."""
    shown = value_of(s, metric, name, value, variant) or status_of(s, name, value, variant)
    own = s.run(name, value, variant) if metric == TOTAL else None
    odd = Markup("<sup>!</sup>") if own and own["odd"] else ""
    lead = "" if row is None else LEAD.format(speed(row))
    return Cell(Markup("{}{}{}").format(shown, odd, lead), s.number_of(name, value, variant))


def mark(data: Dataset, name: str) -> Markup:
    """A name, with † for this project's own."""
    own = Markup("<sup>†</sup>") if data.declared[name].get("tuned_on") else ""
    return Markup("{}{}").format(name, own)


def label_of(data: Dataset, name: str) -> Text:
    """What an implementation says that it is."""
    label = data.declared[name]["label"]
    return {e: legible(label[e], f"kernel {name}: LABEL.{e}") for e in LANGUAGES}


def head(key: str, unit: str = "", **values: Any) -> Markup:
    """A heading in both languages, with its unit."""
    unit_of = Markup(" <span class='unit'>({})</span>").format(unit) if unit else ""
    return Markup("{}{}").format(in_both(says(f"table.{key}", **values)), unit_of)


def own_legend(data: Dataset, names: Iterable[str]) -> list[Words]:
    """What † means, where any of these has it."""
    return [head("legend.own")] if any(data.declared[n].get("tuned_on") for n in names) else []


def kind_of(s: Sweep) -> str:
    """The class of an experiment's table."""
    return "wide" if len(s.names) >= WIDE or s.symbol == SHARED else ""


def growth(first: float, last: float) -> str:
    """The factor from one number to another; empty where either is missing."""
    if math.isnan(first) or math.isnan(last):
        return ""
    return "×1" if last == first else f"×{factor(last / first)}"


# An experiment


def table_of(s: Sweep) -> Table | None:
    """The table of an experiment; None where it has no numbers."""
    if not s.names:
        return None
    if TOTAL not in {metric.name for metric in s.data.benchmark.totals}:
        return values_table(s)
    return mask_table(s) if s.is_switch else sweep_table(s)


Tables = Mapping[str | None, Sequence[Table]]
"""Tables by experiment; those of page one by None."""


def tables_of(data: Dataset, titles: Mapping[str, Text]) -> Tables:
    """Page one's tables, at the headline's setting and of all experiments, and one of each."""
    made: dict[str | None, list[Table | None]] = {s.name: [table_of(s)] for s in data.sweeps}
    made[None] = [headline_table(data), front_table(data, titles)]
    return {name: [table for table in of if table] for name, of in made.items()}


@dataclass
class _Columns:
    """Columns of a table of implementations, a group after the other."""

    groups: list[tuple[Words, int]]
    columns: list[Words]
    cells: dict[str, list[Words | Cell]]

    def add(
        self, title: Words, columns: Sequence[Words], cells: Mapping[str, Sequence[Words | Cell]]
    ) -> None:
        """A group with its cells by implementation; without any it is left out."""
        if any(any(of) for of in cells.values()):
            self.groups.append((title, len(columns)))
            self.columns += columns
            for name, of in self.cells.items():
                of += cells.get(name, [""] * len(columns))


def _names_of(s: Sweep) -> _Columns:
    return _Columns([("", 1)], [f"{s.symbol} ="], {name: [mark(s.data, name)] for name in ran(s)})


def ran(s: Sweep) -> list[str]:
    """The implementations that have numbers, and those that were run and have none."""
    failed = {*s.failed.index.unique("implementation")} - {*s.names}
    return [*s.names, *(e["name"] for e in s.plan["implementations"] if e["name"] in failed)]


def spread(values: Sequence[int], most: int) -> list[int]:
    """At most so many values of a sweep: the first, the last, and some between."""
    steps = max(1, most - 1)
    if len(values) <= most:
        return [*values]
    return [values[round(step * (len(values) - 1) / steps)] for step in range(most)]


def _rows_of(s: Sweep, columns: _Columns) -> list[Row]:
    base = s.data.baseline
    return [Row(cells, "base" if name == base else "") for name, cells in columns.cells.items()]


def sweep_table(s: Sweep) -> Table:
    """A row an implementation: total times and speeds, growth, memory, rate, what was counted."""
    base, work, total = s.data.baseline, s.work(), s.medians(TOTAL)
    values = spread([int(v) for v in total.dropna(how="all").index], MOST_VALUES)
    first, last = values[0], values[-1]
    found, memory = _names_of(s), s.medians(MEMORY)
    leads = {n: s.speed(TOTAL, n) for n in s.names if n != base and base in s.names}
    cells: dict[str, list[Words | Cell]] = {
        name: [
            *(value_cell(s, TOTAL, name, v, row=at(leads.get(name), v)) for v in values),
            f"{_grown(total, name, first, last)} {_sign(leads.get(name))}".strip(),
        ]
        for name in ran(s)
    }
    title = head("total", "ms") + (Markup(" · × {}").format(base) if leads else "")
    found.add(title, [*map(str, values), "×"], cells)
    grown = {n: _grown(memory, n, first, last) for n in s.names}
    memories = {
        name: [value_of(s, MEMORY, name, last), grown[name]]
        + [_share(memory, name, base, last)] * bool(leads)
        for name in s.names
    }
    found.add(head("memory", "MiB"), [str(last), "×", *[f"% {base}"] * bool(leads)], memories)
    if s.symbol == SHARED:
        _add_shared(s, found, values)
    legend = _add_rate(s, found, last)
    legend += [*_add_counted(s, found), *own_legend(s.data, s.names)]
    rises = [growth(work[first], work[value]) for value in values]
    empty = [""] * (len(found.columns) - len(values) - 1)
    rows = [Row([head("work"), *rises, *empty], "work"), *_rows_of(s, found)]
    return Table(found.columns, rows, found.groups, legend=legend, kind=kind_of(s))


def _grown(table: pd.DataFrame, name: str, first: int, last: int) -> str:
    return growth(number(table, first, name), number(table, last, name))


def _sign(leads: pd.DataFrame | None) -> str:
    return "" if leads is None else SIGNS.get(change(leads[~leads.odd.astype(bool)]), "")


def _share(memory: pd.DataFrame, name: str, base: str, value: int) -> str:
    if name == base or base not in memory:
        return ""
    share = number(memory, value, name) / number(memory, value, base)
    return "" if math.isnan(share) else percent(share).removesuffix("%")


def _add_shared(s: Sweep, found: _Columns, values: Sequence[int]) -> None:
    """The speed with the fewest heads of keys and values over that with one for each query."""
    cells = {
        name: [speed(_inverse(at(s.grown(m, name), values[-1]))) for m in PASSES.values()]
        for name in s.names
    }
    title = head("shared", "×", first=f"{s.symbol} = {values[0]}", last=str(values[-1]))
    found.add(title, [head("forward"), head("backward")], cells)


def _inverse(row: Any) -> Any:
    return None if row is None else Speed(*row[[*Speed._fields]]).inverse


def _add_rate(s: Sweep, found: _Columns, last: int) -> list[Words]:
    """The forward rate: as a share of the measured matrix product, or by itself; the legend."""
    metric = s.data.benchmark.metric("forward_rate")
    ceilings = s.data.ceilings
    product = ceilings.matrix.get(str(s.runs["dtype"].iloc[0])) if ceilings else None
    rates = s.medians(metric.name)
    if product is None:
        cells = {name: [value_of(s, metric.name, name, last)] for name in s.names}
        found.add(head("rate", metric.unit), [str(last)], cells)
        return []
    most = product.rate / FLOPS[metric.unit]
    cells = {name: [_whole(100 * number(rates, last, name) / most)] for name in s.names}
    found.add(head("rate", "%"), [str(last)], cells)
    return [head("legend.rate", rate=f"{measured(most)} {metric.unit}")]


def _add_counted(s: Sweep, found: _Columns) -> list[Words]:
    """What was counted at the largest value: Tensor Cores and DRAM, or operators; the legend."""
    legend: list[Words] = []
    passes = [head("fwd"), head("bwd")]
    moved = s.medians("forward_dram_bytes").dropna(how="all")
    if len(moved):
        value = int(moved.index[-1])
        active = [s.medians(f"{p}_matrix_activity") for p in PASSES]
        cores = {n: [_whole(number(each, value, n)) for each in active] for n in s.names}
        shares = {n: [_whole(100 * dram_share(s, n, p, value)) for p in PASSES] for n in s.names}
        found.add(head("cores", "%"), passes, cores)
        found.add(head("dram", "%"), passes, shares)
        legend.append(head("legend.counters", at=f"{s.symbol} = {value}"))
    kinds = s.medians("forward_product_share").dropna(how="all")
    if len(kinds):
        value = int(kinds.index[-1])
        cells = {}
        for name in s.names:
            parts = [number(s.medians(f"forward_{k}_share"), value, name) for k in OPERATORS]
            is_fused = parts[0] == 0
            cells[name] = ["–"] * len(parts) if is_fused else [*map(_whole, parts)]
        found.add(head("operators", "%"), [head("products"), "softmax", head("other")], cells)
        legend.append(head("legend.counted", at=f"{s.symbol} = {value}"))
    return legend


def _whole(share: float) -> str:
    """A share in percent: whole, with a decimal below 1."""
    return "" if math.isnan(share) else f"{share:.0f}" if share >= 1 else f"{share:.1f}"


def mask_table(s: Sweep) -> Table:
    """A row an implementation: the speed with the mask over that without, and the leads."""
    off, on = s.variants[:2]
    values = [int(v) for v in s.medians(TOTAL, on).dropna(how="all").index]
    values = spread(values, MOST_OF_PASS)
    found, last, base = _names_of(s), values[-1], s.data.baseline
    for key, metric in {**PASSES, "sum": TOTAL}.items():
        effects = {name: s.switched(metric, name) for name in ran(s)}
        cells: dict[str, list[Words | Cell]] = {
            name: [
                Cell(speed(at(effect, v)) or status_of(s, name, v, on), s.number_of(name, v, on))
                for v in values
            ]
            for name, effect in effects.items()
        }
        found.add(head(key), [*map(str, values)], cells)
    others = [name for name in s.names if name != base]
    leads = {n: [speed(at(s.speed(TOTAL, n, "", v), last)) for v in (off, on)] for n in others}
    title = Markup("{} {} = {}").format(head("leads", f"× {base}"), s.symbol, last)
    found.add(title, [head("off"), head("on")], leads)
    legend = [head("legend.mask"), *own_legend(s.data, s.names)]
    return Table(found.columns, _rows_of(s, found), found.groups, legend=legend, kind=kind_of(s))


def values_table(s: Sweep) -> Table:
    """A row an implementation and variant: each compared metric at each value of the sweep."""
    found = _Columns([("", 1)], [f"{s.symbol} ="], {})
    keys = {f"{name} {v}".strip(): (name, v) for name in s.names for v in s.variants}
    found.cells = {key: [key] for key in keys}
    for metric in s.data.benchmark.compared:
        known = pd.concat([s.medians(metric.name, variant) for variant in s.variants])
        values = sorted({int(v) for v in known.dropna(how="all").index})
        cells: dict[str, list[Words | Cell]] = {
            key: [value_cell(s, metric.name, name, v, variant) for v in values]
            for key, (name, variant) in keys.items()
        }
        found.add(titled(metric), [*map(str, values)], cells)
    rows = [Row(cells) for cells in found.cells.values()]
    return Table(found.columns, rows, found.groups, kind=kind_of(s))


def titled(metric: Metric) -> Markup:
    """A metric's name in both languages with its unit."""
    labels = {language: begin(of) for language, of in metric.labels.items()}
    return Markup("{} <span class='unit'>({})</span>").format(in_both(labels), metric.unit)


# Page one


def compared_name(data: Dataset) -> str | None:
    """The implementation of page one's table beside the baseline: the one that leads most often."""
    led = [found for s in data.sweeps if s.names and (found := leader(s))]
    return max(dict.fromkeys(led), key=led.count) if led else None


def front_table(data: Dataset, titles: Mapping[str, Text]) -> Table | None:
    """A row an experiment: growth of operations and times, the lead and the memory, end to end."""
    name, base = compared_name(data), data.baseline
    if name is None:
        return None
    rows = [
        Row([Cell(in_both(titles[s.name])), *row])
        for s in data.sweeps
        if {name, base} <= {*s.names}
        and s.symbol != SHARED
        and not any(is_packed(data, n) for n in s.names)
        for row in [_mask_row(s, name) if s.is_switch else _sweep_row(s, name)]
        if row and s.name in titles
    ]
    columns = ["", "", "×", base, mark(data, name), f"× {base}", f"% {base}"]
    groups = [("", 1), ("", 1), (head("operations"), 1), (head("total", "×"), 2)]
    groups += [(head("lead"), 1), (head("memory"), 1)]
    signs = ["grows", "shrinks", "constant", "peaks", "dips", "odd"]
    signs += [each for each in ("incorrect", "oom", "error") if each in {*data.failed.status}]
    sign = Markup("<span class='signs'>{}</span>")
    legend: list[Words] = [head(f"legend.{key}") for key in ("decided", "equal", "undecided")]
    legend += [*(sign.format(head(f"legend.{key}")) for key in signs), *own_legend(data, [name])]
    return Table(columns, rows, groups, 2, legend=legend, kind="summary") if rows else None


def _sweep_row(s: Sweep, name: str) -> list[Words] | None:
    base, at_ends = s.data.baseline, ends(s, [s.data.baseline, name])
    if not at_ends:
        return None
    (first, last), total, work = at_ends, s.medians(TOTAL), s.work()
    leads, memory = s.speed(TOTAL, name), s.medians(MEMORY)
    both = [speed(at(leads, value)) for value in (first, last)]
    lead = Markup("{} → {} {}").format(*both, "!" if is_alike(s) else _sign(leads))
    shares = [_share(memory, name, base, v) for v in (first, last)]
    return [
        f"{s.symbol} = {first} → {last}",
        growth(work[first], work[last]),
        *(_grown(total, n, first, last) for n in (base, name)),
        lead,
        " → ".join(shares) if all(shares) else "",
    ]


def _mask_row(s: Sweep, name: str) -> list[Words] | None:
    base, on = s.data.baseline, s.variants[-1]
    at_ends = ends(s, [base, name], TOTAL, on)
    if not at_ends:
        return None
    last = at_ends[1]
    leads = [at(s.speed(TOTAL, name, "", variant), last) for variant in s.variants[:2]]
    masked = {n: at(s.switched(TOTAL, n), last) for n in (base, name)}
    sign = "" if any(row is None for row in leads) else _sign(pd.DataFrame(leads))
    return [
        f"{s.symbol} = {last}",
        "×0.5",
        *("" if row is None else f"×{times(1 / row.x)}" for row in masked.values()),
        Markup("{} → {} {}").format(*map(speed, leads), sign),
        _share(s.medians(MEMORY, on), name, base, last),
    ]


def headline_table(data: Dataset) -> Table | None:
    """A row an implementation at the headline's setting: times, rates and memory, with speeds."""
    summary = next((Sweep(data, n) for n, plan in data.plans.items() if not plan["sweep"]), None)
    if summary is None or not summary.names:
        return None
    benchmark = data.benchmark
    compared = {metric.name for metric in benchmark.compared if not metric.optional}
    behind = {m.name: {*m.derived.of} if m.derived else {m.name} for m in benchmark.metrics}
    shown = [metric for metric in benchmark.metrics if behind[metric.name] <= compared]
    value = int(summary.runs.index.unique("at")[0])
    rows = []
    for name in ran(summary):
        cells: list[Words | Cell] = [mark(data, name)]
        for metric in shown:
            has_lead = (name != data.baseline and not metric.derived) or metric in benchmark.totals
            row = at(summary.speed(metric.name, name), value) if has_lead else None
            cells.append(value_cell(summary, metric.name, name, value, row=row))
        rows.append(Row(cells, "base" if name == data.baseline else ""))
    given = benchmark.all_parameters(summary.plan["runs"][0])
    stated = benchmark.stated([given])
    legend = [", ".join(f"{p.symbol} = {given[p.name]}" for p in stated if not p.is_variant)]
    kind = f"headline {kind_of(summary)}"
    return Table(["", *map(titled, shown)], rows, legend=legend, kind=kind)


# Which one to use

LEAST = 3
"""Fewest implementations among which one chooses, rather than compares one with the baseline."""

MOST_NAMED = 2
"""Most implementations that a cell names each."""

STYLES = 9
"""The number of colours of implementations."""

BY = ("head_dim", "seq_len", "causal")


def maps(data: Dataset) -> list[Block]:
    """Tables of which implementation to use, by head size, length and mask, below their headings.

    Where this project's own kernel leads anywhere, those without it stand before those with it.
    None of fewer than three implementations, in any cell.
    """
    if not {*BY} <= {parameter.name for parameter in data.benchmark.parameters}:
        return []
    measured = dict.fromkeys(name for s in data.sweeps for name in s.names)
    names = [n for n in measured if not data.declared[n].get("packed_of")]
    others = [name for name in names if not data.declared[name].get("tuned_on")]
    found, without = _chosen(data, names), _chosen(data, others)
    if not any(found.values()):
        return []
    leads = any(c["names"][0] not in others for of in found.values() for c in of.values())
    made = {"map": found}
    if others != names and any(without.values()) and leads:
        made = {"map.others": without, "map.own": found}
    blocks: list[Block] = []
    for key, chosen in made.items():
        blocks += [Prose(says(key), "subhead"), Beside([_map(data, *of) for of in chosen.items()])]
    return [*blocks, Prose(says("map.note"), "quiet")]


def _chosen(data: Dataset, names: Sequence[str]) -> dict[str, Mapping[Any, Any]]:
    """By metric, the cell of each head size, length and mask; keys and values are not shared."""
    table = data.comparisons
    if "num_kv_heads" in table:
        table = table[table.num_kv_heads == table.num_heads]
    every = {m.name: ranking(table, m.name, names) for m in use_metrics(data.benchmark)}
    enough = {m: of.groupby([*BY]).name.transform("nunique") >= LEAST for m, of in every.items()}
    ranked = {m: of[enough[m]] for m, of in every.items()}
    return {m: cells(of, BY).to_dict("index") if len(of) else {} for m, of in ranked.items()}


def _map(data: Dataset, metric: str, chosen: Mapping[Any, Any]) -> Table:
    """Rows of d and N, a column for each mask."""
    masks = sorted({bool(mask) for _, _, mask in chosen})
    rows = [
        Row([f"{d:g} · {n:g}", *(_cell(data, chosen.get((d, n, mask))) for mask in masks)])
        for d, n in sorted({(d, n) for d, n, _ in chosen})
    ]
    columns = ["d · N", *(head("on" if mask else "off") for mask in masks)]
    return Table(columns, rows, [(says(f"map.{metric}"), len(columns))], 3, kind="map")


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
