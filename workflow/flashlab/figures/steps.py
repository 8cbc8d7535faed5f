"""The figures of a ladder of steps: speeds, parts of the times, and counters.

The shade of a step's bar shows its verdict: the step helps, makes no difference, hurts, or is
undecided. A time is split into its parts, as shares of the whole. Counters are drawn along a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from flashlab.analysis.comparisons import compared_metrics
from flashlab.analysis.experiment import Experiment, step_metric
from flashlab.analysis.frames import Gain, by_key, gains
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import PAGE_INCHES
from flashlab.figures.labels import capitalised, in_languages, in_words, title_with_unit
from flashlab.figures.panel import draw_panel, set_apart, value_limits
from flashlab.figures.style import (
    COLOURS,
    GREY,
    Style,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    name_artists,
    name_rows,
    new_panels,
    scale_logarithmically,
    title_panel,
    write,
)
from flashlab.numbers import measured, times

ROW_INCHES = 0.17
CLOCK_INCHES = 0.15
"""The height of a row of the figure on page one, which has little room."""

LOOKS: dict[str, Style] = {
    "above": {"facecolor": COLOURS[1], "edgecolor": COLOURS[1]},
    "equal": {"facecolor": "#9A9A9A", "edgecolor": "#9A9A9A"},
    "below": {"facecolor": COLOURS[0], "edgecolor": COLOURS[0]},
    "inconclusive": {"facecolor": "white", "edgecolor": GREY},
}
"""The style of a bar, by the verdict of its ratio."""

VERDICTS = {
    "above": "step_helps",
    "equal": "step_no_difference",
    "below": "step_hurts",
    "inconclusive": "step_inconclusive",
}
"""The legend of a bar, by the verdict of its ratio."""

PART_SHADES = (
    *("#B4B4B4", "#777777", "#D9D9D9", "#D9BA77", "#29A385", "#0061E0", "#8FD3C1", "#240A66"),
    "#F0DFB8",
)
"""Greys of start and compilation; then the colours of file, copies and kernel."""

CLOCKS: Sequence[Style] = (
    {"color": "#0061E0", "marker": "o"},
    {"color": "#29A385", "marker": "D"},
    {"color": "#240A66", "marker": "s"},
)
"""The marks of a step's times, from the shortest clock to the longest."""

MOST_PANELS = 2

PROFILED = {"%": ("%", 1.0), "B": ("GB/s", 1e6)}
"""The printed unit and the divisor of a counter's values, by the counter's unit.

Bytes are drawn per second: 10⁶ bytes in a millisecond are 1 GB/s.
"""

PROFILE_INCHES = 0.8


def _values_at(
    experiment: Experiment, value: int, metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The metrics that each step has at a value of the sweep."""
    values: dict[str, dict[str, float]] = {}
    for name in experiment.step_names:
        run = experiment.run_at(name, experiment.variants[0], value)
        if run is not None and run["status"] == "ok":
            rows = [experiment.metric_row(run, metric) for metric in metrics]
            values[name] = {r["metric"]: float(r["value"]) for r in rows if r["status"] == "ok"}
    return values


def _gains(experiment: Experiment, comparisons: pd.DataFrame, value: int) -> dict[str, Gain]:
    """The gain of each step over the one before it."""
    metric, before = step_metric(experiment), {name: first for first, name in experiment.steps}
    table = comparisons[comparisons.experiment == experiment.name]
    return {
        subject: gain
        for (*_, key, subject, reference, at), gain in by_key(
            gains(table, experiment.benchmark)
        ).items()
        if (key, reference, at) == (metric.name, before.get(subject), value)
    }


def _draw_panel(axes: Axes, experiment: Experiment, comparisons: pd.DataFrame, value: int) -> None:
    """Bars of each step's speed, as a multiple of the first measured step's."""
    metric, names = step_metric(experiment), experiment.step_names
    name_rows(axes, names)
    title_panel(axes, [f"{experiment.parameter.symbol} = {value}"])
    values = _values_at(experiment, value, [metric.name])
    medians = {name: row[metric.name] for name, row in values.items() if row}
    if not medians:
        return
    factors = {name: next(iter(medians.values())) / median for name, median in medians.items()}
    if metric.higher_is_better:
        factors = {name: 1 / factor for name, factor in factors.items()}
    gains = _gains(experiment, comparisons, value)
    low, high = min(1.0, *factors.values()) / 1.6, max(factors.values())
    scale_logarithmically(axes.xaxis, low, high * 1.1, most=5)
    for row, name in enumerate(names):
        gain, factor = gains.get(name), factors.get(name, low)
        text = "×" if name not in factors else f"{times(factor)}×"
        if gain and name in factors:
            text += f"  (×{times(*gain[:3])})"
        look = LOOKS[gain.verdict if gain else "equal"]
        bar = axes.barh(row + 0.5, factor - low, 0.7, low, linewidth=0.7, **look)
        name_artists(name, [*bar, write(axes, text, (factor, row + 0.5), (3, 0))])


def draw_steps(
    experiment: Experiment, comparisons: pd.DataFrame, languages: Sequence[str]
) -> Figure:
    """A panel for each of the last values of the sweep, a bar for each step.

    Args:
        experiment: one whose implementations are steps.
        comparisons: the table of its dataset.
        languages: those of the words in the figure.
    """
    values = experiment.values[-MOST_PANELS:]
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(values), sharey=True)
    for axes, value in zip(panels, values, strict=True):
        _draw_panel(axes, experiment, comparisons, value)
        axes.set_xlabel(in_words("speed_of_steps", languages))
    handles = [Patch(label=in_words(VERDICTS[v], languages), **look) for v, look in LOOKS.items()]
    draw_legend(figure, handles, len(handles))
    lay_out(figure, ROW_INCHES * len(experiment.step_names))
    return figure


def draw_clocks(experiment: Experiment, languages: Sequence[str]) -> Figure | None:
    """The times of each step by every clock at the last value of a sweep; None without several.

    The clocks are the metrics that rank steps, and the time of the whole process.
    """
    benchmark, value = experiment.benchmark, experiment.values[-1]
    clocks = [metric for metric in compared_metrics(benchmark) if metric.unit == "ms"]
    clocks.sort(key=lambda metric: metric != step_metric(experiment))  # the kernel alone first
    times = _values_at(experiment, value, [metric.name for metric in clocks])
    every = [time for of_step in times.values() for time in of_step.values()]
    if len(clocks) < 2 or not every:
        return None
    figure, ((axes,),) = new_panels(PAGE_INCHES)
    name_rows(axes, list(times))
    scale_logarithmically(axes.xaxis, min(every) / 1.3, max(every) * 1.6, most=9)
    for row, (name, of_step) in enumerate(times.items()):
        ends = [min(of_step.values()), max(of_step.values())]
        drawn = axes.plot(ends, [row + 0.5] * 2, color="#D9D9D9", linewidth=1.2, zorder=1)
        for metric, look in zip(clocks, CLOCKS, strict=False):
            if metric.name in of_step:
                at = [of_step[metric.name]], [row + 0.5]
                drawn += axes.plot(*at, markersize=4.5, linestyle="none", **look)
        texts = " / ".join(measured(time) for time in sorted(of_step.values()))
        name_artists(name, [*drawn, write(axes, texts, (ends[1], row + 0.5), (6, 0))])
    title_panel(axes, [f"{experiment.parameter.symbol} = {value} (ms)"])
    handles = [
        handle(in_languages(capitalised(metric.labels), languages), linestyle="none", **look)
        for metric, look in zip(clocks, CLOCKS, strict=False)
    ]
    draw_legend(figure, handles, len(handles))
    lay_out(figure, CLOCK_INCHES * len(times))
    return figure


def draw_split(experiment: Experiment, languages: Sequence[str]) -> Figure | None:
    """The parts of a time at the last value of a sweep, a bar for each step; None without any."""
    benchmark, value = experiment.benchmark, experiment.values[-1]
    split = benchmark.split
    if split is None:
        return None
    held = {metric.name for metric in benchmark.metrics}  # a part may be optional
    metrics = [name for name in (*split.parts, split.whole) if name in held]
    times = {n: v for n, v in _values_at(experiment, value, metrics).items() if split.whole in v}
    if not times:
        return None
    whole, shades = benchmark.metric(split.whole), dict(zip(split.parts, PART_SHADES, strict=False))
    figure, ((axes,),) = new_panels(PAGE_INCHES)
    name_rows(axes, list(times))
    axes.set_xlim(0, 100)
    for row, (name, parts) in enumerate(times.items()):
        reached = 0.0
        for part, shade in shades.items():
            share = 100 * parts.get(part, 0.0) / parts[split.whole]
            name_artists(name, axes.barh(row + 0.5, share, 0.7, reached, color=shade))
            reached += share
        text = f"{measured(parts[split.whole])} {whole.unit}"
        name_artists(name, [write(axes, text, (100, row + 0.5), (4, 0))])
    *texts, last = title_with_unit(whole, languages)
    title_panel(axes, [*texts, f"{last}, {experiment.parameter.symbol} = {value}"])
    axes.set_xlabel(in_words("share_of_whole", languages))
    labels = {part: capitalised(benchmark.metric(part).labels) for part in shades}
    handles = [Patch(color=shades[p], label=in_languages(t, languages)) for p, t in labels.items()]
    draw_legend(figure, handles, columns=4)
    lay_out(figure, ROW_INCHES * len(times))
    return figure


def _profile_frame(experiment: Experiment, counters: Sequence[Metric]) -> pd.DataFrame:
    """A row for each run and counter, as lines along the sweep (`figures.panel`)."""
    rows = [
        {
            "implementation": run["implementation"],
            "variant": 0,
            "place": experiment.value_of(run),
            "metric": counter.name,
            "status": "ok",
            "level": 0,
            "value": counted[counter.quantity.name]
            / PROFILED[counter.unit][1]
            / (counted["busy_time"] if counter.unit == "B" else 1),
            "low": None,
            "high": None,
        }
        for run in experiment.runs
        if (counted := experiment.counters_of(run, step_metric(experiment).name))
        for counter in counters
    ]
    data = pd.DataFrame(rows)
    return set_apart(data.astype({"low": float, "high": float})) if rows else data


def draw_profile(experiment: Experiment, languages: Sequence[str]) -> Figure | None:
    """The counters of each step along a sweep, as shares and throughputs; None without any."""
    declared = experiment.benchmark.counters_on(experiment.runs[0]["device"])
    every = declared.get(step_metric(experiment).name, ())
    groups = [[c for c in every if c.unit == unit] for unit in PROFILED]
    data = _profile_frame(experiment, [counter for group in groups for counter in group])
    if data.empty or data["place"].nunique() < 2:
        return None
    shown = list(dict.fromkeys(data["implementation"]))
    looks = looks_of([e for e in experiment.plan["implementations"] if e["name"] in shown])
    figure, panels = new_panels(PAGE_INCHES, len(groups), max(map(len, groups)))
    for counters, row in zip(groups, panels, strict=True):
        for axes in row[len(counters) :]:
            axes.set_axis_off()
        for counter, axes in zip(counters, row, strict=False):
            is_share = counter.unit == "%"
            values = data[(data["metric"] == counter.name) & (is_share | (data["value"] > 0))]
            draw_panel(
                axes,
                experiment,
                values,
                looks,
                title_with_unit(counter, languages, unit=PROFILED[counter.unit][0]),
                PROFILE_INCHES,
                ticks=[str(value) for value in experiment.values],
                limits=(0, 105) if is_share else value_limits(values, logarithmic=True),
                logarithmic=not is_share,
                labelled=(),
                rows=0,
            )
    handles = [
        handle(name, name, color=looks[name].shade, marker=looks[name].marker) for name in shown
    ]
    draw_legend(figure, handles, len(handles))
    lay_out(figure, PROFILE_INCHES)
    return figure
