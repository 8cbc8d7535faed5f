"""Figures from a dataset's frames, as SVG files that are always the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.analysis.experiment import chosen_metrics, metrics_of, run_keys, use_metrics
from flashlab.analysis.frames import Dataset, Sweep, read_dataset
from flashlab.analysis.ratios import exceeds_margin
from flashlab.benchmarks.model import FLOPS, Curve, Metric, Parameter
from flashlab.figures.bars import draw_bars
from flashlab.figures.curve import draw_curves
from flashlab.figures.dots import Dots, draw_dots
from flashlab.figures.labels import (
    in_languages,
    in_words,
    label_product,
    said,
    title_metric,
    title_with_unit,
    titles_of,
)
from flashlab.figures.lines import Along, Panel, draw_lines
from flashlab.figures.overview import Strip, draw_strips
from flashlab.figures.profile import draw_profile
from flashlab.figures.speeds import SpeedRows, draw_speeds, limits_of
from flashlab.figures.style import (
    FAILED,
    GREY,
    HALF,
    WIDE,
    Look,
    drawing,
    handle,
    looks_of,
    rows_of,
    save,
)
from flashlab.files import read_json, write_json
from flashlab.numbers import measured, times
from flashlab.story.ladder import ladder_of

FEW = 2
"""Most lines of a figure whose values are printed at the points."""

MOST_LINES = 3
"""More implementations than this have dots in place of lines of times."""

MOST_DOTS = 6
"""Most values of a sweep of which each has a panel of dots."""

NAMED, MOST_NAMED = 4, 5
"""Of more implementations than the second, the lines of so many are in colour, the rest grey."""

MOST_LINEAR = 1000
"""A rate whose greatest value is more than so many times the least is on a logarithmic axis."""


def draw_figures(
    plan_files: Sequence[Path],
    tables: Path,
    ceilings_file: Path | None,
    languages_file: Path,
    cores: int,
    output: Path,
    overview: Path,
) -> None:
    """Draw the figures of all experiments, ``<experiment>/<id>.svg``, and those across them.

    Args:
        plan_files: the experiments' plans (``plan/experiments/<experiment>.json``).
        tables: the folder of all experiments' tables.
        ceilings_file: the machine's ceilings, if they were measured.
        languages_file: the languages of the words in the figures.
        cores: how many processes draw.
        output: the folder of the figures of experiments.
        overview: that of those across experiments, with ``drawn.json``, the list of their ids.
    """
    data, languages = read_dataset(plan_files, tables, ceilings_file), read_json(languages_file)
    wanted = [(sweep, figure) for sweep in data.sweeps for figure in sweep.plan["figures"]]
    output.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"initializer": _jobs.extend, "initargs": ([*wanted],)}
    with ProcessPoolExecutor(cores, mp_context=get_context("fork"), **options) as pool:
        list(pool.map(partial(_draw_job, languages, output), range(len(wanted))))
    names = []
    with drawing():
        for name, figure in across(data, languages):
            save(figure, overview / f"{name}.svg")
            names.append(name)
    write_json(overview / "drawn.json", names)


_jobs: list[tuple[Sweep, Mapping[str, Any]]] = []
"""Of a process that draws: forked with the data, which need not be sent to it."""


def _draw_job(languages: Sequence[str], output: Path, number: int) -> None:
    sweep, figure = _jobs[number]
    with drawing():
        drawn = draw(sweep, languages, figure["quantity"], figure["implementations"])
        save(drawn, output / sweep.name / f"{figure['id']}.svg")


def across(data: Dataset, languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The figures across experiments, by their ids.

    Of two implementations there are the speeds of each sweep (``speedups-<experiment>``). Of many
    there are how far each is from the best (``strips``), and their rates at the longest sweep
    (``longest``). Where implementations are steps, there are their times by every clock
    (``clocks``), and their counters (``profile``).
    """
    if ladder := next((sweep for sweep in data.sweeps if _steps(sweep)), None):
        is_simulated = data.device in data.benchmark.simulated
        if not is_simulated and (clocks := _clocks(ladder, languages)):
            yield "clocks", clocks
        climbed = None if is_simulated else ladder_of(data)
        if climbed and (profile := draw_profile(climbed, languages)):
            yield "profile", profile
        return
    swept = [sweep for sweep in data.sweeps if sweep.names and not _has_alternatives(sweep)]
    alone = [sweep for sweep in swept if not _twins(sweep)]
    if any(len(sweep.names) > FEW for sweep in alone):
        if strips := _strips(data, alone, languages):
            yield "strips", strips
        if longest := _longest(alone, languages):
            yield "longest", longest
    yield from _speeds(swept, languages)


CLOCKS = (("#0061E0", "o"), ("#29A385", "D"), ("#240A66", "s"))
"""The shade and the marker of a step's times, from the shortest clock to the longest."""


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


def _twins(sweep: Sweep) -> dict[str, str]:
    """The implementation with separate inputs, by the name of its twin with packed ones."""
    entries = {entry["name"]: entry.get("packed_of") for entry in sweep.plan["implementations"]}
    return {name: twin for name, twin in entries.items() if twin in entries}


def _steps(sweep: Sweep) -> list[str]:
    """The implementations that are steps, and the one that the first is compared with."""
    entries = {entry["name"]: entry.get("previous") for entry in sweep.plan["implementations"]}
    pairs = ((before, name) for name, before in entries.items() if before in entries)
    return list(dict.fromkeys(itertools.chain.from_iterable(pairs)))


def _has_alternatives(sweep: Sweep) -> bool:
    """True if its runs are alternatives at one setting, which has a name and no size."""
    parameter = _parameter(sweep)
    is_named = parameter.nominal and parameter.stands_for is None
    return is_named and _every(sweep)["at"].nunique() == 1


def _looks(
    sweep: Sweep, names: Sequence[str], named: Sequence[str] | None = None
) -> dict[str, Look]:
    """The looks of these implementations, in the plan's order."""
    styles = {entry["name"]: entry["style"] for entry in sweep.plan["implementations"]}
    twins = {name: twin for name, twin in _twins(sweep).items() if {name, twin} <= {*names}}
    return looks_of({n: style for n, style in styles.items() if n in names}, twins, named)


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


def _words(sweep: Sweep, languages: Sequence[str], *, every: bool = False) -> list[str]:
    """The words for each variant, of what differs or of `every` part: ``因果 Causal``."""
    runs = _every(sweep).drop_duplicates("variant").sort_values("variant")
    told = [p for p in sweep.data.benchmark.variants if every or runs[p.name].nunique() > 1]
    texts = []
    for row in runs.to_dict("records"):
        words = [(p, p.words.get(row[p.name])) for p in told]
        shown = [
            in_languages(w, languages) if w else f"{p.symbol} = {row[p.name]}" for p, w in words
        ]
        texts.append(", ".join(shown))
    return texts


def tidy(
    sweep: Sweep, names: Sequence[str], metrics: Sequence[Metric], languages: Sequence[str]
) -> pd.DataFrame:
    """A row for each run of these implementations and metric.

    The columns are ``metric``, ``implementation``, ``variant`` (its position), ``line`` (what it is
    called), ``at``, ``status``, ``value``, ``low``, ``high`` and ``title``.
    """
    every, words = _every(sweep), _words(sweep, languages)
    runs = every.loc[
        every.implementation.isin(names), ["variant", "implementation", "at", "status"]
    ]
    position = runs.variant.map(_variants(sweep).index)
    suffix = position.map(dict(enumerate(words)))
    is_alone = len(names) == 1 and len(words) > 1
    line = suffix if is_alone else (runs.implementation + " " + suffix).str.strip()
    frames = []
    for metric in metrics:
        keys = [(sweep.name, v, metric.name, n, at) for v, n, at, _ in runs.to_numpy()]
        bounds = sweep.data.bounds.reindex(keys).set_axis(runs.index)
        values = sweep.data.values.reindex(keys).to_numpy(dtype=float)
        found = runs.assign(metric=metric.name, variant=position, line=line, value=values)
        found = found.assign(low=bounds.low, high=bounds.high)
        frames.append(found.assign(title=titles_of(found, sweep.symbol, f" {metric.unit}")))
    return pd.concat(frames, ignore_index=True)


# The figures of an experiment


def draw(sweep: Sweep, languages: Sequence[str], quantity: str, names: Sequence[str]) -> Figure:
    """One figure of an experiment: of a curve, or a panel for each metric of a quantity.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    benchmark = sweep.data.benchmark
    for curve in benchmark.curves:
        if curve.name == quantity:
            return _curve(sweep, languages, names, curve)
    metrics = list(benchmark.panels(quantity))
    if _has_alternatives(sweep):
        return _bars(sweep, languages, names, metrics)
    is_few = len(_variants(sweep)) == 1 and len(_along(sweep).values) <= MOST_DOTS
    if len(names) > MOST_LINES and is_few and _is_of_time(metrics[0]):
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
    looks = _looks(sweep, names, named)
    before = f"{names[0]} " if len(names) == 1 else ""
    panels = [
        Panel(
            metric.name,
            before + title_with_unit(metric, languages),
            metric.quantity.logarithmic or _spans(mine) > MOST_LINEAR,
            _ratios(sweep, mine, metric) if is_valued and not along.is_nominal else {},
            _guides(sweep, mine, metric) if is_valued and not along.is_nominal else [],
            _ceiling(sweep, metric, languages),
        )
        for metric in metrics
        for mine in [data[data.metric == metric.name]]
    ]
    alike = " ".join(said("several", languages, count=dict.fromkeys(languages, "{count}")))
    options: dict[str, Any] = {"rows": rows, "is_valued": is_valued, "alike": alike}
    notes = _notes(data, names, along, looks, languages)
    return draw_lines(data, panels, along, looks, notes=notes, **options)


def _spans(data: pd.DataFrame) -> float:
    """How many times the least value the greatest is."""
    return float(data["value"].max() / data["value"].min())


def _leaders(sweep: Sweep, data: pd.DataFrame, metric: Metric) -> list[str]:
    """The baseline and those nearest to the best by their median: the lines to be named."""
    by_setting = data.groupby(["metric", "variant", "at"])["value"]
    best = by_setting.transform("max" if metric.higher_is_better else "min")
    apart = (data["value"] / best).map(math.log, na_action="ignore").abs()
    medians = apart.groupby(data.implementation).median().dropna()
    order = map(str, medians.sort_values(kind="stable").index)
    return list(dict.fromkeys([sweep.data.baseline, *order]))[:NAMED]


def _ceiling(
    sweep: Sweep, metric: Metric, languages: Sequence[str]
) -> tuple[float, float, str] | None:
    """The measured matrix product in the number format of an experiment's runs; of rates alone."""
    ceilings, dtype = sweep.data.ceilings, str(_every(sweep)["dtype"].iloc[0])
    if not ceilings or dtype not in ceilings.matrix or metric.unit not in FLOPS:
        return None
    low, high = (rate / FLOPS[metric.unit] for rate in ceilings.matrix[dtype].bounds)
    return low, high, label_product(ceilings.matrix[dtype], metric.unit, languages)


def _ratios(sweep: Sweep, data: pd.DataFrame, metric: Metric) -> dict[int, str]:
    """How the second of two lines compares, at each value.

    With the baseline: its speed, or its share of the memory; with the first variant: its share of
    the rate, as a table has what a mask does to times.
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
    return {int(row.Index): f"{times(row.x, row.low, row.high)}×" for row in rows_of(speeds)}


def _guides(sweep: Sweep, data: pd.DataFrame, metric: Metric) -> list[dict[int, float]]:
    """Each line of times as if it had grown as the operations up to its last value."""
    guides = []
    if metric.work and data.variant.nunique() == 1:
        for _, rows in data.dropna(subset="value").groupby("line", sort=False):
            last, work = rows.iloc[-1], sweep.work()
            guide = work.reindex(rows["at"]) / work[last["at"]] * last["value"]
            guides.append({int(at): float(value) for at, value in guide.dropna().items()})
    return guides


def _notes(
    data: pd.DataFrame,
    names: Sequence[str],
    along: Along,
    looks: Mapping[str, Look],
    languages: Sequence[str],
) -> list[Line2D]:
    """The entries of a legend that explain the crosses: one for each line and status."""
    notes, values = [], list(along.values)
    failed = data[data.status != "ok"].drop_duplicates(["line", "status", "at"])
    for (line, status), runs in failed.groupby(["line", "status"], sort=False):
        name = str(runs.implementation.iloc[0])
        positions = enumerate(sorted(map(values.index, runs["at"])))
        groups = itertools.groupby(positions, key=lambda each: each[1] - each[0])
        found = [[str(values[position]) for _, position in group] for _, group in groups]
        at = ", ".join(f"{g[0]}–{g[-1]}" if len(g) > 2 else ", ".join(g) for g in found)
        text = f"{line if len(names) > 1 or line == name else f'{name} {line}'}: "
        text += f"{in_words(str(status), languages)}, {along.symbol} = {at}"
        notes.append(handle(text, color=looks[name].text, **FAILED))
    return notes


def _dots(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """Dots of a quantity's metrics, a panel for each value of the sweep."""
    along, unit = _along(sweep), metrics[0].unit
    settings = {
        at: ", ".join(f"{symbol} = {of[position]}" for symbol, of in along.sizes.items())
        for position, at in enumerate(along.values)
    }
    data = tidy(sweep, names, metrics, languages)
    best = data.groupby(["metric", "at"])["value"].transform("min")
    is_best = [value == value and not exceeds_margin(value) for value in data["value"] / best]
    table = _as_dots(data.assign(panel=data["at"], mark=data.metric, is_best=is_best))
    dots = Dots(
        {at: f"{text} ({unit})" for at, text in settings.items()},
        {metric.name: title_metric(metric, languages) for metric in metrics},
        {at: [*best[data["at"] == at].dropna().unique()] for at in settings},
    )
    statuses = dict.fromkeys(data.status[data.status != "ok"])
    notes = [handle(in_words(status, languages), color=GREY, **FAILED) for status in statuses]
    width = WIDE if len(settings) > FEW else HALF
    return draw_dots(table, dots, _looks(sweep, names), width=width, notes=notes)


def _as_dots(data: pd.DataFrame) -> pd.DataFrame:
    """Rows of dots, with their numbers and without those that were not measured."""
    rows = data[(data.status != "ok") | data["value"].notna()]
    numbers = zip(rows["value"], rows.low, rows.high, strict=True)
    return rows.assign(text=["" if each[0] != each[0] else measured(*each) for each in numbers])


def _bars(
    sweep: Sweep, languages: Sequence[str], names: Sequence[str], metrics: Sequence[Metric]
) -> Figure:
    """Bars of alternatives; a metric that no run has is left out."""
    data, occupied = tidy(sweep, names, metrics, languages), sweep.data.benchmark.occupied
    known = [m for m in metrics if data["value"][data.metric == m.name].notna().any()]
    known, words = known or [*metrics[:1]], _words(sweep, languages)
    data = data[data.metric.isin([metric.name for metric in known])].assign(busy=np.nan)
    legend = words if len(words) > 1 else []
    if occupied and occupied.whole in {metric.name for metric in known}:
        busy = tidy(sweep, names, [sweep.data.benchmark.metric(occupied.busy)], languages)["value"]
        is_whole = data.metric == occupied.whole
        data.loc[is_whole, "busy"] = busy.to_numpy()
        if busy.notna().any():
            legend = [in_words(key, languages) for key in ("busy", "idle")]
    panels = {metric.name: title_with_unit(metric, languages) for metric in known}
    return draw_bars(data, panels, _looks(sweep, names), legend, languages)


def _curve(sweep: Sweep, languages: Sequence[str], names: Sequence[str], curve: Curve) -> Figure:
    """The curves of an experiment, and their differences from the first one of the baseline."""
    swept, reference = _along(sweep), {}
    for language in languages:
        setting = _words(sweep, [language])[0]
        if len(swept.values) > 1:
            setting = f"{swept.symbol} = {swept.values[0]}"
        reference[language] = sweep.data.baseline + (f" [{setting}]" if setting else "")
    titles = (
        f"{in_languages(curve.labels, languages)} ({curve.unit})",
        " ".join(said("difference", languages, reference=reference)),
    )
    along, words = in_languages(curve.along, languages), _words(sweep, languages)
    return draw_curves(_steps_of(sweep, names, curve), _looks(sweep, names), titles, along, words)


def _steps_of(sweep: Sweep, names: Sequence[str], curve: Curve) -> pd.DataFrame:
    """A row for each step of each run; of several processes those of the first with the curve."""
    keys, every = list(run_keys(sweep.data.benchmark)), _every(sweep)
    runs = every[(every.status == "ok") & every.implementation.isin(names)]
    runs = runs.sort_values("implementation", key=lambda n: n != sweep.data.baseline, kind="stable")
    runs = runs.assign(run=range(len(runs)), variant=runs.variant.map(_variants(sweep).index))
    table = pd.read_csv(sweep.data.folder / "tables" / sweep.name / "curves.csv")
    table = table[table.metric == curve.name].assign(step=table["index"] + 1)
    table = table[table.process == table.groupby(keys)["process"].transform("min")]
    found = table.merge(runs[[*keys, "run", "variant"]], on=keys)
    return found.sort_values(["run", "step"], kind="stable", ignore_index=True)


# The figures across experiments


def _clocks(sweep: Sweep, languages: Sequence[str]) -> Figure | None:
    """The times of each step by every clock at the last value; None of fewer than two clocks.

    The table has all numbers; the figure has those of the first step and of the last.
    """
    benchmark, chosen = sweep.data.benchmark, chosen_metrics(sweep.data.benchmark)[-1]
    clocks = [metric for metric in benchmark.compared if metric.unit == "ms"]
    clocks.sort(key=lambda metric: metric != chosen)  # the kernel alone first
    data = tidy(sweep, _steps(sweep), clocks, languages)
    data = data[(data["at"] == data["at"].max()) & data["value"].notna()]
    if data.metric.nunique() < 2:
        return None
    names = [name for name in _steps(sweep) if name in set(data.implementation)]
    labels = {metric.name: in_languages(metric.labels, languages) for metric in clocks}
    table = _as_dots(
        data.assign(panel="", mark=data.metric, is_best=False, low=np.nan, high=np.nan)
    )
    table.loc[~table.implementation.isin([names[0], names[-1]]), "text"] = ""
    shades = dict(zip(labels, CLOCKS, strict=False))
    dots = Dots({"": f"{sweep.symbol} = {data['at'].iloc[0]} (ms)"}, labels, shades=shades)
    return draw_dots(table, dots, {name: Look(GREY, "o") for name in names})


def _strips(data: Dataset, sweeps: Sequence[Sweep], languages: Sequence[str]) -> Figure | None:
    """How far each implementation is from the best at all settings; None without any result."""
    metrics = [*use_metrics(data.benchmark), *metrics_of(data.benchmark, exact=True)[:1]]
    found = [(metric, _distances(data, sweeps, metric)) for metric in metrics]
    strips = [
        Strip(title_metric(metric, languages), distances, not metric.exact)
        for metric, distances in found
        if not distances.empty
    ]
    if not strips:
        return None
    ranking = next((strip for strip in strips[::-1] if strip.is_share), strips[0])
    medians = ranking.distances.median().sort_values(ascending=not ranking.is_share)
    looks = looks_of({str(name): data.declared[str(name)]["style"] for name in medians.index})
    median, worst = ("\n".join(said(f"strips.{key}", languages)) for key in ("median", "worst"))
    return draw_strips(strips, looks, (median, worst))


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
    best = values.max(axis=1) if metric.higher_is_better else values.min(axis=1)
    times_best = values.div(best, axis=0)
    if metric.exact:
        return times_best
    return 100 * (times_best if metric.higher_is_better else 1 / times_best)


def _longest(sweeps: Sequence[Sweep], languages: Sequence[str]) -> Figure | None:
    """Lines of the rate of all passes along the longest sweeps, a panel for each variant.

    None of a benchmark without such a rate, or without any result.
    """
    ranking = chosen_metrics(sweeps[0].data.benchmark)[-1]
    rates = (
        m for m in sweeps[0].data.benchmark.metrics if m.derived and m.derived.of == (ranking.name,)
    )
    metric = ranking if ranking.higher_is_better else next(rates, None)
    along = [sweep for sweep in sweeps if _parameter(sweep) == _parameter(sweeps[0])]
    if metric is None or _parameter(sweeps[0]).nominal:
        return None
    first = max(along, key=lambda sweep: _along(sweep).values[-1])
    panels: dict[str, Panel] = {}
    frames = []
    for sweep in along:
        if (_along(sweep), sweep.names) != (_along(first), first.names):
            continue
        for position, (variant, word) in enumerate(
            zip(_variants(sweep), _words(sweep, languages, every=True), strict=True)
        ):
            if variant not in panels:
                found = tidy(sweep, sweep.names, [metric], languages)
                mine = found[found.variant == position]
                frames.append(mine.assign(metric=variant, variant=0, line=mine.implementation))
                title = f"{title_with_unit(metric, languages)} {word}".strip()
                panels[variant] = Panel(variant, title, metric.quantity.logarithmic)
    data = pd.concat(frames, ignore_index=True)
    looks = _looks(first, first.names, _leaders(first, data, metric))
    notes = _notes(data, first.names, _along(first), looks, languages)
    return draw_lines(data, [*panels.values()], _along(first), looks, is_valued=False, notes=notes)


def _speeds(sweeps: Sequence[Sweep], languages: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """The figure of each sweep of two implementations, by its id: ``speedups-<experiment>``.

    Of the last variant: what comes before that is another experiment's.
    """
    found = {sweep.name: rows for sweep in sweeps if (rows := _speed_rows(sweep, languages))}
    limits, names = limits_of([*found.values()]), list(found)
    for name, rows in found.items():
        ends = {"has_heads": name == names[0], "has_axis": name == names[-1]}
        yield f"speedups-{name}", draw_speeds(rows, limits, **ends)


def _speed_rows(sweep: Sweep, languages: Sequence[str]) -> SpeedRows | None:
    """The speeds of the other of two implementations; None of a sweep that has none."""
    benchmark, baseline = sweep.data.benchmark, sweep.data.baseline
    metrics = [metric for metric in chosen_metrics(benchmark) if _is_of_time(metric)]
    planned = {entry["name"] for entry in sweep.plan["implementations"]}
    is_simulated = sweep.data.device in benchmark.simulated
    if len(planned) != FEW or is_simulated or _parameter(sweep).nominal or not metrics:
        return None
    (other,) = planned - {baseline}
    variant = sweep.variants[-1]
    speeds = {m.name: sweep.speed(m.name, other, variant=variant) for m in metrics}
    values = sorted({int(at) for speed in speeds.values() for at in speed.index})
    shares: dict[int, float] = {}
    for metric in metrics_of(benchmark, exact=True)[:1]:
        held = sweep.medians(metric.name, variant).reindex(columns=[other, baseline])
        share = (held[other] / held[baseline]).dropna()
        shares = {int(at): float(each) for at, each in share.items()}
    heads = ["\n".join(dict.fromkeys(m.part[x] for x in languages)) for m in metrics[:-1]]
    heads += ["\n".join(said(f"speedups.{key}", languages)) for key in ("total", "share")]
    return SpeedRows(sweep.symbol, values, speeds, shares, heads) if values else None
