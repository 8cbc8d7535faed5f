"""Figures from a dataset's frames, as SVG files that are always the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.analysis.comparisons import compared_metrics
from flashlab.analysis.experiment import chosen_metrics, metrics_of, run_keys, use_metrics
from flashlab.analysis.frames import VALUE, Dataset, Sweep, read_dataset, read_table
from flashlab.benchmarks.model import Curve, Metric, Parameter
from flashlab.figures import MOST_LINES, style
from flashlab.figures.labels import in_languages, in_words, said, title_metric, titles_of, with_unit
from flashlab.figures.lines import Along, Panel, draw_curves, draw_lines
from flashlab.figures.overview import draw_speeds, draw_strips
from flashlab.figures.rows import draw_bars, draw_dots
from flashlab.figures.steps import Steps, draw_steps
from flashlab.files import read_json, write_json
from flashlab.numbers import measured, percent
from flashlab.plan.plan_files import LANGUAGES
from flashlab.story.attention.roles import SHARED
from flashlab.story.ladder import KERNEL, LIMIT, UNITS, Ladder, ladder_of

FEW, MOST_DOTS = 2, 6
"""Most lines of a figure whose values are printed at the points, and values of a sweep as dots."""

NAMED, MOST_NAMED = 4, 5
"""Of more implementations than the second, the lines of so many are in colour, the rest grey."""

MOST_LINEAR, ROOM = 1000, 1.15
"""A rate of a greater span than the first is on a logarithmic axis; page one's axis of speeds goes
beyond them by the second."""

LEAST_STEPS, PERCENT_SHOWN = 3, 5.0
"""The fewest counted steps of which there is a profile, and the least share of its limit, at any
step, of a unit that is drawn."""


def draw_figures(results: Path, ceilings_file: Path | None, output: Path, overview: Path) -> None:
    """Draw the figures of all experiments, ``<experiment>/<id>.svg``, and those across them.

    Args:
        results: the dataset's folder, with its plan and tables.
        ceilings_file: the machine's ceilings, if they were measured.
        output: the folder of the figures of experiments.
        overview: that of those across experiments, with ``drawn.json``, the list of their ids.
    """
    data, languages = read_dataset(results, ceilings_file), read_json(results / LANGUAGES)
    output.mkdir(parents=True, exist_ok=True)
    with style.drawing():
        for sweep in data.sweeps:
            for figure in data.figures[sweep.name]:
                drawn = draw(sweep, languages, figure["quantity"], figure["implementations"])
                style.save(drawn, output / sweep.name / f"{figure['id']}.svg")
        drawn_across = dict(across(data, languages))
        for name, drawn in drawn_across.items():
            style.save(drawn, overview / f"{name}.svg")
    write_json(overview / "drawn.json", list(drawn_across))


def across(data: Dataset, languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The figures across experiments, by their ids.

    Of two implementations there are the speeds of each sweep (``speedups-<experiment>``). Of many
    there is how far each is from the best (``strips``). Where implementations are steps, there are
    their times by every clock (``clocks``) and their counters (``profile``).
    """
    if any("previous" in entry for entry in data.declared.values()):
        if (ladder := ladder_of(data)) and data.device not in data.benchmark.simulated:
            yield "clocks", _clocks(ladder, languages)
            if len(ladder.counters) >= LEAST_STEPS:
                yield "profile", _profile(ladder, languages)
        return
    swept = [sweep for sweep in data.sweeps if sweep.names and not _parameter(sweep).nominal]
    packed = {name for name, entry in data.declared.items() if "packed_of" in entry}
    alone = [sweep for sweep in swept if packed.isdisjoint(sweep.names)]
    if any(len(sweep.names) > FEW for sweep in alone):
        yield "strips", _strips(data, alone, languages)
    yield from _speeds(swept, languages)


# What a sweep is


def _parameter(sweep: Sweep) -> Parameter:
    return sweep.data.benchmark.parameter(sweep.data.swept[sweep.name])


@cache
def _every(sweep: Sweep) -> pd.DataFrame:
    """All runs of an experiment, those without a result too, in the plan's order."""
    runs = pd.concat([sweep.runs, sweep.failed]).reset_index()
    planned = [entry["name"] for entry in sweep.plan["implementations"]]
    runs = runs.assign(order=runs.implementation.map(planned.index))
    return runs.sort_values(["order", "variant", "at"], kind="stable", ignore_index=True)


def _variants(sweep: Sweep) -> list[str]:
    """Those that were asked for, in order."""
    return sorted(_every(sweep).variant.unique())


def _looks(
    sweep: Sweep, names: Sequence[str], named: Sequence[str] | None = None
) -> dict[str, style.Look]:
    """The looks of these implementations, in the plan's order."""
    entries = [entry for entry in sweep.plan["implementations"] if entry["name"] in names]
    return style.looks_of({entry["name"]: entry["style"] for entry in entries}, named)


def _along(sweep: Sweep) -> Along:
    """The axis of a sweep; of whole problems, whose sizes are many, the values alone."""
    parameter, every = _parameter(sweep), _every(sweep)
    at = every.drop_duplicates("at").set_index("at").sort_index()
    rows: list[Any] = every.to_dict("records")
    stated = sweep.data.benchmark.stated(rows)
    is_nominal = parameter.stands_for is not None
    along = {
        p.symbol: [*map(int, at[p.name])]
        for p in stated
        if not (is_nominal or p.is_variant or p == parameter or (p.derive and p.nominal))
        and at[p.name].nunique() > 1
    }
    return Along({parameter.symbol: [*map(int, at.index)], **along}, is_nominal)


def _words(sweep: Sweep, languages: Sequence[str]) -> list[str]:
    """The words for each variant, of what differs among them: ``因果 Causal``."""
    runs = _every(sweep).drop_duplicates("variant").sort_values("variant")
    told = [p for p in sweep.data.benchmark.variants if runs[p.name].nunique() > 1]

    def word(p: Parameter, value: Any) -> str:
        return in_languages(p.words[value], languages) if p.words else f"{p.symbol} = {value}"

    return [", ".join(word(p, row[p.name]) for p in told) for row in runs.to_dict("records")]


def tidy(
    sweep: Sweep, names: Sequence[str], metrics: Sequence[Metric], languages: Sequence[str]
) -> pd.DataFrame:
    """A row for each run of these implementations and metric.

    The run's columns, ``variant`` (its position), ``line`` (what it is called), ``metric``,
    ``unit``, ``value``, ``low``, ``high`` and ``title``.
    """
    every, words = _every(sweep), _words(sweep, languages)
    position = every.variant.map(_variants(sweep).index)
    suffix = position.map(dict(enumerate(words)))
    is_alone = len(names) == 1 and len(words) > 1
    line = suffix if is_alone else (every.implementation + " " + suffix).str.strip()
    runs = every.assign(experiment=sweep.name, line=line)[every.implementation.isin(names)]
    rows = pd.concat([runs.assign(metric=m.name, unit=m.unit) for m in metrics])
    keys = pd.MultiIndex.from_frame(rows[VALUE])
    ends = sweep.data.intervals.reindex(keys)
    values = sweep.data.values.reindex(keys).to_numpy(dtype=float)
    rows = rows.assign(value=values, low=ends.low.to_numpy(), high=ends.high.to_numpy())
    return rows.assign(variant=position, title=titles_of(rows, sweep.symbol)).reset_index(drop=True)


# The figures of an experiment


def draw(sweep: Sweep, languages: Sequence[str], quantity: str, names: Sequence[str]) -> Figure:
    """One figure of an experiment: of a curve, or a panel for each metric of a quantity.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    benchmark = sweep.data.benchmark
    if curve := next((each for each in benchmark.curves if each.name == quantity), None):
        return _curve(sweep, languages, names, curve)
    metrics, count = list(benchmark.panels(quantity)), len(_along(sweep).values)
    if _parameter(sweep).nominal and _parameter(sweep).stands_for is None and count == 1:
        return _bars(sweep, languages, names, metrics)
    is_plain = len(_variants(sweep)) == 1 and _is_of_time(metrics[0])
    if len(names) > MOST_LINES and is_plain and count <= MOST_DOTS:
        return _dots(sweep, languages, names, metrics)
    return _lines(sweep, languages, names, metrics)


def _is_of_time(metric: Metric) -> bool:
    return not metric.exact and not metric.higher_is_better


def _lines(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """Lines; of one implementation with and without a mask its times before the rates."""
    rows, along = 1, _along(sweep)
    timed = [m.derived.of[0] for m in metrics if m.derived and m.higher_is_better]
    if len(names) == 1 < len(_variants(sweep)) and timed:
        metrics, rows = [*map(sweep.data.benchmark.metric, timed), *metrics], 2
    data = tidy(sweep, names, metrics, languages)
    is_valued = data.line.nunique() <= FEW
    named = _leaders(sweep, data, metrics[0]) if len(names) > MOST_NAMED else None
    looks, is_joined = _looks(sweep, names, named), is_valued and not along.is_nominal
    is_guided = is_joined and len(_variants(sweep)) == 1
    before, panels = f"{names[0]} " if len(names) == 1 else "", []
    for metric in metrics:
        mine = data[data.metric == metric.name]
        is_far = bool(mine["value"].max() > MOST_LINEAR * mine["value"].min())
        ratios = _ratios(sweep, mine, metric) if is_joined else {}
        guides = _guides(sweep, mine) if is_guided and metric.work else []
        title, is_log = before + with_unit(metric, languages), metric.quantity.logarithmic
        panels.append(Panel(metric.name, title, is_log or is_far, ratios, guides))
    notes = _notes(data, languages)
    return draw_lines(data, panels, along, looks, rows=rows, is_valued=is_valued, notes=notes)


def _leaders(sweep: Sweep, data: pd.DataFrame, metric: Metric) -> list[str]:
    """The baseline and those nearest to the best by their median: the lines to be named."""
    by_setting = data.groupby(["metric", "variant", "at"])["value"]
    best = by_setting.transform("max" if metric.higher_is_better else "min")
    apart = (data["value"] / best).map(math.log, na_action="ignore").abs()
    medians = apart.groupby(data.implementation).median().dropna()
    order = map(str, medians.sort_values(kind="stable").index)
    return list(dict.fromkeys([sweep.data.baseline, *order]))[:NAMED]


def _ratios(sweep: Sweep, data: pd.DataFrame, metric: Metric) -> dict[int, str]:
    """How the second of two lines compares, at each value.

    With the baseline: its speed, with ``?`` where that is undecided, or its share of the memory;
    with the first variant: its share of the rate, as a table has what a mask does to times.
    """
    lines, names = data.line.unique(), data.implementation.unique()
    if len(lines) != FEW:
        return {}
    if metric.exact or (len(names) == 1 and metric.higher_is_better):
        values = data.pivot(index="at", columns="line", values="value")
        shares = (values[lines[1]] / values[lines[0]]).dropna()
        return {int(at): f"{100 * share:.0f}%" for at, share in shares.items()}
    if len(names) == 1 or metric.higher_is_better or sweep.data.baseline not in names:
        return {}
    (other,) = (name for name in names if name != sweep.data.baseline)
    speeds = sweep.speed(metric.name, other)
    return {int(row.Index): style.speed(row) for row in style.rows_of(speeds)}


def _guides(sweep: Sweep, data: pd.DataFrame) -> list[dict[int, float]]:
    """Each line of times as if it had grown as the operations up to its last value."""
    guides = []
    for _, rows in data.dropna(subset="value").groupby("line", sort=False):
        last, work = rows.iloc[-1], sweep.work()
        guide = work.reindex(rows["at"]) / work[last["at"]] * last["value"]
        guides.append({int(at): float(value) for at, value in guide.dropna().items()})
    return guides


def _notes(data: pd.DataFrame, languages: Sequence[str]) -> list[Line2D]:
    """The entries of a legend that say whose runs have no result, and why."""
    failed = data[data.status != "ok"]
    texts = failed.implementation + ": " + failed.status.map(lambda key: in_words(key, languages))
    return [style.handle(text, color=style.GREY, **style.FAILED) for text in dict.fromkeys(texts)]


def _dots(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """Dots of a quantity's metrics, a panel for each value of the sweep."""
    along, data = _along(sweep), tidy(sweep, names, metrics, languages)
    titles = {
        of[0]: ", ".join(map("{} = {}".format, along.sizes, of)) + f" ({metrics[0].unit})"
        for of in zip(*along.sizes.values(), strict=True)
    }
    marks = {metric.name: title_metric(metric, languages) for metric in metrics}
    return draw_dots(data, titles, marks, _looks(sweep, names), _notes(data, languages))


def _bars(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """Bars of alternatives; a metric that no run has is left out."""
    data, occupied = tidy(sweep, names, metrics, languages), sweep.data.benchmark.occupied
    known = [m for m in metrics if data["value"][data.metric == m.name].notna().any()]
    known, words = known or [*metrics[:1]], _words(sweep, languages)
    data = data[data.metric.isin([metric.name for metric in known])]
    failed = data.status.map(lambda key: "" if key == "ok" else in_words(key, languages))
    data = data.assign(busy=np.nan, failed=failed)
    legend = words if len(words) > 1 else []
    told = [m for m in sweep.data.benchmark.metrics if occupied and m.name == occupied[1]]
    if occupied and told and occupied[0] in {metric.name for metric in known}:
        busy = tidy(sweep, names, told, languages)["value"]
        data.loc[data.metric == occupied[0], "busy"] = busy.to_numpy()
        legend = [in_words(key, languages) for key in ("busy", "idle")] if busy.any() else legend
    panels = {metric.name: with_unit(metric, languages) for metric in known}
    return draw_bars(data, panels, _looks(sweep, names), legend)


def _curve(sweep: Sweep, languages: Sequence[str], names: Sequence[str], curve: Curve) -> Figure:
    """The curves of an experiment, and their differences from the first one of the baseline."""
    at, first = _along(sweep).values, {x: _words(sweep, [x])[0] for x in languages}
    if len(at) > 1:
        first = dict.fromkeys(languages, f"{sweep.symbol} = {at[0]}")
    reference = {x: f"{sweep.data.baseline} [{text}]" for x, text in first.items()}
    difference = " ".join(said("difference", languages, reference=reference))
    titles = f"{in_languages(curve.labels, languages)} ({curve.unit})", difference
    along, words = in_languages(curve.along, languages), _words(sweep, languages)
    return draw_curves(_steps_of(sweep, names, curve), _looks(sweep, names), titles, along, words)


def _steps_of(sweep: Sweep, names: Sequence[str], curve: Curve) -> pd.DataFrame:
    """A row for each step of each run; of several processes those of the first with the curve."""
    keys, every = list(run_keys(sweep.data.benchmark)), _every(sweep)
    runs = every[(every.status == "ok") & every.implementation.isin(names)]
    runs = runs.sort_values("implementation", key=lambda n: n != sweep.data.baseline, kind="stable")
    runs = runs.assign(run=range(len(runs)), variant=runs.variant.map(_variants(sweep).index))
    table = read_table(sweep.data.folder / "tables" / sweep.name / "curves.csv")
    table = table[table.metric == curve.name].assign(step=table["index"] + 1)
    table = table[table.process == table.groupby(keys)["process"].transform("min")]
    found = table.merge(runs[[*keys, "run", "variant"]], on=keys)
    return found.sort_values(["run", "step"], kind="stable", ignore_index=True)


# The figures across experiments


def _clocks(d: Ladder, languages: Sequence[str]) -> Figure:
    """The times of each step by every clock; its table has all numbers, the figure the ends."""
    metrics = [m for m in compared_metrics(d.data.benchmark) if m.unit == "ms" and d.values(m.name)]
    metrics.sort(key=lambda metric: metric.name != KERNEL)  # the kernel alone first
    table = pd.DataFrame({m.name: d.values(m.name) for m in metrics}).reindex(d.names)
    names = {m.name: in_languages(m.labels, languages) for m in metrics}
    title = f"{d.place(d.name, d.at)} (ms)"
    return draw_steps([Steps(title, table, names, measured, ends=True)])


def _profile(d: Ladder, languages: Sequence[str]) -> Figure:
    """What each unit does of its limit, and what falls from step to step."""
    shares = 100 * d.counters[[*UNITS]]
    shares = shares.loc[:, shares.max() > PERCENT_SHOWN]
    falls = d.counters[["instructions", "shared_bytes", "global_load_bytes"]]
    falls = falls.assign(kernel_time=pd.Series(d.kernels)).where(lambda counts: counts > 0)
    falls = (falls / falls.bfill().iloc[0])[["kernel_time", *falls.columns[:-1]]]
    names = {key: in_words(f"profile.{key}", languages) for key in (*shares, *falls)}
    limits = {100.0: in_words("profile.limit", languages), 100 * LIMIT: f"{LIMIT:.0%}"}
    titles = [in_words(f"profile.{key}", languages) for key in ("shares", "falls")]
    panels = [Steps(titles[1], falls, names, lambda x: "1" if x > 0.99 else f"1/{1 / x:,.0f}")]
    if not shares.empty:
        panels.insert(0, Steps(titles[0], shares, names, lambda x: f"{x:.0f}%", limits, d.units))
    return draw_steps(panels)


def _strips(data: Dataset, sweeps: Sequence[Sweep], languages: Sequence[str]) -> Figure:
    """How far each implementation is from the best at all settings, the nearest first."""
    metrics = [*use_metrics(data.benchmark), *metrics_of(data.benchmark, exact=True)[:1]]
    strips = {
        title_metric(metric, languages): (distances, not metric.exact)
        for metric in metrics
        if not (distances := _distances(data, sweeps, metric)).empty
    }
    ranking, is_share = ([each for each in strips.values() if each[1]] or [*strips.values()])[-1]
    order = map(str, ranking.median().sort_values(ascending=not is_share).index)
    looks = style.looks_of({name: data.declared[name]["style"] for name in order})
    heads = ["\n".join(said(f"strips.{key}", languages)) for key in ("median", "worst")]
    return draw_strips(strips, looks, heads)


def _distances(data: Dataset, sweeps: Sequence[Sweep], metric: Metric) -> pd.DataFrame:
    """The distances of a metric at every setting that the experiments have, each setting once."""
    tables, given = [], [p.name for p in data.benchmark.given]
    for sweep in sweeps:
        every = _every(sweep).drop_duplicates(["variant", "at"]).set_index(["variant", "at"])
        for variant in sweep.variants:
            table = sweep.medians(metric.name, variant).dropna(how="all")
            settings = every.loc[variant].loc[table.index, given].to_numpy().tolist()
            tables.append(table.set_axis([str(setting) for setting in settings]))
    values = pd.concat(tables).groupby(level=0).first().sort_index(axis=1)
    if metric.higher_is_better:
        return 100 * values.div(values.max(axis=1), axis=0)
    shares = values.div(values.min(axis=1), axis=0)
    return shares if metric.exact else 100 / shares


def _speeds(sweeps: Sequence[Sweep], languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The figure of each sweep of two implementations, by its id: ``speedups-<experiment>``.

    Of the last variant: what comes before that is another experiment's.
    """
    told = [sweep for sweep in sweeps if sweep.symbol != SHARED]  # page one has no line of others
    found = {sweep.name: (sweep, rows) for sweep in told if (rows := _speeds_of(sweep))}
    every = [x for _, rows in found.values() for each in rows.values() for x in each.x]
    limits = min([1.0, *every]) / ROOM, max([1.0, *every]) * ROOM
    for name, (sweep, speeds) in found.items():
        parts = [sweep.data.benchmark.metric(metric).part for metric in [*speeds][:-1]]
        heads = ["\n".join(dict.fromkeys(part[x] for x in languages)) for part in parts]
        heads += ["\n".join(said(f"speedups.{key}", languages)) for key in ("total", "share")]
        heads = heads if name == next(iter(found)) else [""] * len(heads)
        about, is_last = (sweep.symbol, speeds, _shares(sweep)), name == [*found][-1]
        yield f"speedups-{name}", draw_speeds(*about, limits, heads, is_last=is_last)


def _speeds_of(sweep: Sweep) -> dict[str, pd.DataFrame]:
    """The speeds of the other of two implementations by metric; none of a sweep that has none."""
    benchmark, planned = sweep.data.benchmark, len(sweep.plan["implementations"])
    if not planned == len(sweep.names) == FEW or sweep.data.device in benchmark.simulated:
        return {}
    metrics = [metric.name for metric in chosen_metrics(benchmark) if _is_of_time(metric)]
    found = {m: sweep.speed(m, sweep.names[1], variant=sweep.variants[-1]) for m in metrics}
    return found if any(len(each) for each in found.values()) else {}


def _shares(sweep: Sweep) -> dict[int, str]:
    """The other implementation's share of the baseline's memory, by value."""
    for metric in metrics_of(sweep.data.benchmark, exact=True)[:1]:
        held = sweep.medians(metric.name, sweep.variants[-1])
        share = (held[sweep.names[1]] / held[sweep.names[0]]).dropna()
        return dict(zip(map(int, share.index), map(percent, share), strict=True))
    return {}
