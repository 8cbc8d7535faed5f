"""The figures of a ladder of steps: how fast each one is, and where its time is spent.

The shade of a step's bar shows its finding: the step helps, makes no difference, hurts, or is
undecided. A time is split into its parts, as shares of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from flashlab.analysis.experiment import Sweep, step_metric
from flashlab.analysis.finding import Finding
from flashlab.figures.labels import capitalised, in_languages, in_words, title_with_unit
from flashlab.figures.style import (
    COLOURS,
    GREY,
    PAGE_INCHES,
    Style,
    draw_legend,
    lay_out,
    name_artists,
    name_rows,
    new_panels,
    scale_logarithmically,
    three_digits,
    title_panel,
    write,
)

ROW_INCHES = 0.17

LOOKS: dict[str, Style] = {
    "above": {"facecolor": COLOURS[1], "edgecolor": COLOURS[1]},
    "equal": {"facecolor": "#9A9A9A", "edgecolor": "#9A9A9A"},
    "below": {"facecolor": COLOURS[0], "edgecolor": COLOURS[0]},
    "inconclusive": {"facecolor": "white", "edgecolor": GREY},
}
"""A bar, by the verdict of its ratio."""

VERDICTS = {
    "above": "step_helps",
    "equal": "step_no_difference",
    "below": "step_hurts",
    "inconclusive": "step_inconclusive",
}
"""What it stands for."""

PART_SHADES = (
    *("#B4B4B4", "#777777", "#D9D9D9", "#D9BA77", "#29A385", "#0061E0", "#8FD3C1", "#240A66"),
    "#F0DFB8",
)
"""Greys of what comes before the work; then the file, the copies and the kernel between them."""

MOST_PANELS = 2


def _step_names(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for pair in sweep.steps for name in pair))


def _values_at(sweep: Sweep, value: int, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """The metrics that each step has at a value of the sweep."""
    values: dict[str, dict[str, float]] = {}
    for name in _step_names(sweep):
        run = sweep.run_at(name, sweep.variants[0], value)
        if run is not None and run["status"] == "ok":
            rows = [sweep.metric_row(run, metric) for metric in metrics]
            values[name] = {r["metric"]: float(r["value"]) for r in rows if r["status"] == "ok"}
    return values


def _draw_panel(axes: Axes, sweep: Sweep, findings: Sequence[Finding], value: int) -> None:
    """The speed of each step as a multiple of that of the first one that has any."""
    metric, names = step_metric(sweep), _step_names(sweep)
    name_rows(axes, names, [row + 0.5 for row in range(len(names))], len(names))
    title_panel(axes, [f"{sweep.parameter.symbol} = {value}"])
    values = _values_at(sweep, value, [metric.name])
    medians = {name: held[metric.name] for name, held in values.items() if held}
    if not medians:
        return
    factors = {name: next(iter(medians.values())) / median for name, median in medians.items()}
    if metric.higher_is_better:
        factors = {name: 1 / factor for name, factor in factors.items()}
    ratios = {
        finding.subject["implementation"]: estimate
        for finding in findings
        if (finding.kind, finding.experiment) == ("step", sweep.name)
        and finding.is_about(metric=metric.name)
        for estimate in finding.estimates
        if estimate["value"] == value
    }
    low, high = min(1.0, *factors.values()) / 1.6, max(factors.values())
    scale_logarithmically(axes.xaxis, low, high * 1.1, most=5)
    for row, name in enumerate(names):
        ratio, factor = ratios.get(name), factors.get(name, low)
        text = "×" if name not in factors else f"{three_digits(factor)}×"
        if ratio and name in factors:
            text += f"  (×{three_digits(ratio['estimate'])})"
        look = LOOKS[ratio["verdict"] if ratio else "equal"]
        bar = axes.barh(row + 0.5, factor - low, 0.7, low, linewidth=0.7, **look)
        name_artists(name, [*bar, write(axes, text, (factor, row + 0.5), (3, 0))])


def draw_steps(sweep: Sweep, findings: Sequence[Finding], languages: Sequence[str]) -> Figure:
    """A panel for each of the last values of the sweep, a bar for each step."""
    values = sweep.values[-MOST_PANELS:]
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(values), sharey=True)
    for axes, value in zip(panels, values, strict=True):
        _draw_panel(axes, sweep, findings, value)
        axes.set_xlabel(in_words("speed_of_steps", languages))
    keys = VERDICTS.items()
    handles = [Patch(label=in_words(key, languages), **LOOKS[verdict]) for verdict, key in keys]
    draw_legend(figure, handles, len(handles))
    lay_out(figure, ROW_INCHES * len(_step_names(sweep)))
    return figure


def draw_split(sweep: Sweep, languages: Sequence[str]) -> Figure | None:
    """Where a time goes at the last value of a sweep, a bar for each step; None without any."""
    split, benchmark, value = sweep.benchmark.split, sweep.benchmark, sweep.values[-1]
    if split is None:
        return None
    held = {metric.name for metric in benchmark.metrics}  # a part may be optional
    metrics = [name for name in (*split.parts, split.whole) if name in held]
    times = {n: v for n, v in _values_at(sweep, value, metrics).items() if split.whole in v}
    if not times:
        return None
    whole, shades = benchmark.metric(split.whole), dict(zip(split.parts, PART_SHADES, strict=False))
    figure, ((axes,),) = new_panels(PAGE_INCHES)
    name_rows(axes, list(times), [row + 0.5 for row in range(len(times))], len(times))
    axes.set_xlim(0, 100)
    for row, (name, parts) in enumerate(times.items()):
        reached = 0.0
        for part, shade in shades.items():
            share = 100 * parts.get(part, 0.0) / parts[split.whole]
            name_artists(name, axes.barh(row + 0.5, share, 0.7, reached, color=shade))
            reached += share
        text = f"{three_digits(parts[split.whole])} {whole.unit}"
        name_artists(name, [write(axes, text, (100, row + 0.5), (4, 0))])
    *texts, last = title_with_unit(whole, languages)
    title_panel(axes, [*texts, f"{last}, {sweep.parameter.symbol} = {value}"])
    axes.set_xlabel(in_words("share_of_whole", languages))
    labels = {part: capitalised(benchmark.metric(part).labels) for part in shades}
    handles = [Patch(color=shades[p], label=in_languages(t, languages)) for p, t in labels.items()]
    draw_legend(figure, handles, columns=4)
    lay_out(figure, ROW_INCHES * len(times))
    return figure
