"""The figures of a ladder of steps: how fast each one is, and where its time is spent.

The shade of a step's bar shows its finding: the step helps, makes no difference, hurts, or is
undecided. A time is split into its parts, as shares of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flashlab.analysis.experiment import Row, Sweep, step_metric
from flashlab.analysis.finding import Finding
from flashlab.figures.labels import capitalised, in_languages, title_lines
from flashlab.figures.placement import text_inches
from flashlab.figures.style import (
    COLOURS,
    FAINT,
    LABEL_POINTS,
    LEGEND_INCHES,
    PAGE_INCHES,
    SMALL_POINTS,
    as_number,
    logarithmic_ticks,
    name_artists,
    place_panels,
)
from flashlab.telling.catalogs import in_all

BAR_INCHES = 0.17
"""Height of a row."""

SHADES = {"above": COLOURS[1], "equal": FAINT, "below": COLOURS[0], "inconclusive": "#E3E3E3"}
VERDICTS = {
    "above": "step_helps",
    "equal": "step_no_difference",
    "below": "step_hurts",
    "inconclusive": "step_inconclusive",
}
"""What a bar's shade stands for, by the verdict of its ratio."""

PART_SHADES = (
    *("#B4B4B4", "#777777", "#D9D9D9", "#D9BA77", "#29A385", "#0061E0", "#8FD3C1", "#240A66"),
    "#F0DFB8",
)
"""Greys of what comes before the work; then the file, the copies and the kernel between them."""

MOST_PANELS = 2


def step_names(sweep: Sweep) -> list[str]:
    """The steps, in their order."""
    return list(dict.fromkeys(name for pair in sweep.steps for name in pair))


def _value(sweep: Sweep, name: str, value: int, metric: str) -> float | None:
    run = sweep.run_at(name, sweep.variants[0], value)
    if run is None or run["status"] != "ok":
        return None
    row = sweep.metric_row(run, metric)
    return float(row["value"]) if row["status"] == "ok" else None


def _verdict_at(findings: Sequence[Finding], sweep: Sweep, name: str, value: int) -> dict[str, Any]:
    """The ratio of a step to the one before, with its verdict; empty where there is none."""
    about = {"implementation": name, "metric": step_metric(sweep).name}
    estimates = (
        estimate
        for finding in findings
        if (finding.kind, finding.experiment) == ("step", sweep.name) and finding.is_about(**about)
        for estimate in finding.estimates
    )
    return next((dict(each) for each in estimates if each["value"] == value), {})


def _draw_panel(
    axes: Axes, sweep: Sweep, findings: Sequence[Finding], value: int, names: Sequence[str]
) -> None:
    """The speed of each step as a multiple of that of the first one that has any."""
    metric = step_metric(sweep)
    medians = {name: _value(sweep, name, value, metric.name) for name in names}
    start = next((median for median in medians.values() if median), None)
    if start is None:
        return
    factors = {
        name: median / start if metric.higher_is_better else start / median
        for name, median in medians.items()
        if median
    }
    low = min(1.0, *factors.values()) / 1.6
    high = max(factors.values())
    axes.set_xscale("log")
    axes.set_xlim(low, high * (high / low) ** 0.35)
    for position, name in enumerate(names):
        if name not in factors:
            axes.text(low * 1.05, position, "×", va="center", fontsize=SMALL_POINTS)
            continue
        found = _verdict_at(findings, sweep, name, value)
        shade = SHADES[found["verdict"]] if found else SHADES["equal"]
        bar = axes.barh(position, factors[name] - low, left=low, height=0.7, color=shade)
        gain = f"  (×{found['estimate']:#.3g})" if found else ""
        label = axes.text(
            factors[name] * 1.05,
            position,
            f"{as_number(float(f'{factors[name]:.3g}'))}×{gain}",
            va="center",
            fontsize=SMALL_POINTS,
        )
        name_artists(name, [*bar.patches, label])
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(FixedLocator(logarithmic_ticks(low, high * 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(as_number))
    axes.grid(False, axis="y")
    axes.set_title(f"{sweep.parameter.symbol} = {value}")


def draw_steps(sweep: Sweep, findings: Sequence[Finding], languages: Sequence[str]) -> Figure:
    """A panel for each of the last values of the sweep, a bar for each step."""
    names, values = step_names(sweep), sweep.values[-MOST_PANELS:]
    figure = Figure()
    panels = figure.subplots(1, len(values), sharey=True, squeeze=False)[0]
    for axes, value in zip(panels, values, strict=True):
        _draw_panel(axes, sweep, findings, value, names)
    label = in_all(languages, "figures", "speed_of_steps")
    for axes in panels:
        axes.set_xlabel(label)
    shown = [
        Patch(color=shade, label=in_all(languages, "figures", VERDICTS[verdict]))
        for verdict, shade in SHADES.items()
    ]
    figure.legend(handles=shown, loc="lower center", ncols=len(shown), frameon=False)
    left = max(text_inches(name, SMALL_POINTS) for name in names) + 0.1
    height = BAR_INCHES * len(names)
    place_panels(figure, PAGE_INCHES, height, (left, 0.1, 0.42 + LEGEND_INCHES, 0.25), wspace=0.08)
    return figure


def _parts_of(sweep: Sweep, run: Row) -> dict[str, float]:
    """The parts of a run's time that it has, in their order, in the whole's unit."""
    split = sweep.benchmark.split
    assert split is not None
    held = {metric.name for metric in sweep.benchmark.metrics}  # a part may be optional
    names = [name for name in (*split.parts, split.whole) if name in held]
    rows = {name: sweep.metric_row(run, name) for name in names}
    return {name: float(row["value"]) for name, row in rows.items() if row["status"] == "ok"}


def draw_split(sweep: Sweep, languages: Sequence[str]) -> Figure | None:
    """Where a time goes at the last value of a sweep, a bar for each step; None without any."""
    split, benchmark = sweep.benchmark.split, sweep.benchmark
    if split is None:
        return None
    value = sweep.values[-1]
    found: dict[str, dict[str, float]] = {}
    for name in step_names(sweep):
        run = sweep.run_at(name, sweep.variants[0], value)
        if run is not None and run["status"] == "ok":
            parts = _parts_of(sweep, run)
            if split.whole in parts:
                found[name] = parts
    if not found:
        return None
    figure = Figure()
    axes = figure.subplots()
    for position, (name, parts) in enumerate(found.items()):
        whole, reached = parts[split.whole], 0.0
        for part, shade in zip(split.parts, PART_SHADES, strict=False):
            share = 100 * parts.get(part, 0.0) / whole
            bar = axes.barh(position, share, left=reached, height=0.7, color=shade)
            name_artists(name, bar.patches)
            reached += share
        text = f"{as_number(float(f'{whole:.3g}'))} {benchmark.metric(split.whole).unit}"
        axes.text(101, position, text, va="center", fontsize=SMALL_POINTS)
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.grid(False, axis="y")
    title = title_lines(benchmark.metric(split.whole), languages, PAGE_INCHES, LABEL_POINTS)
    axes.set_title(f"{' '.join(title)}, {sweep.parameter.symbol} = {value}")
    axes.set_xlabel(in_all(languages, "figures", "share_of_whole"))
    shown = [
        Patch(
            color=shade, label=in_languages(capitalised(benchmark.metric(part).labels), languages)
        )
        for part, shade in zip(split.parts, PART_SHADES, strict=False)
    ]
    columns = 4
    rows = -(-len(shown) // columns)
    figure.legend(handles=shown, loc="lower center", ncols=columns, frameon=False)
    left = max(text_inches(name, SMALL_POINTS) for name in found) + 0.1
    below = 0.38 + rows * (LEGEND_INCHES + 0.02)
    place_panels(figure, PAGE_INCHES, BAR_INCHES * len(found), (left, 0.7, below, 0.25))
    return figure
