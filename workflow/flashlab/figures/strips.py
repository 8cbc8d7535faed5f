"""Page one's strips of many implementations: their shares of the best at all settings.

A row an implementation, a panel a use; a tick is a setting, the dot the median of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from flashlab import statistics
from flashlab.analysis.experiment import Experiment, metrics_of, shares_of_best, use_metrics
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import PAGE_INCHES
from flashlab.figures.labels import said, title_metric
from flashlab.figures.placement import POINTS, text_inches
from flashlab.figures.style import (
    GREY,
    INK,
    SMALL_POINTS,
    TICK_GAP_INCHES,
    Look,
    Style,
    fitting,
    lay_out,
    looks_of,
    name_artists,
    name_rows,
    new_panels,
    scale_logarithmically,
    title_panel,
    write,
)
from flashlab.numbers import tick, times

ROW_INCHES = 0.138
GAP_POINTS = 6.0
"""The gap between a panel and its columns of numbers."""

BAND = "#E6EEF5"
PERCENT = 100.0


@dataclass(frozen=True)
class Strip:
    """A panel: a metric, and each implementation's distance from the best at each setting.

    It is in percent of the best's speed or, of an exact metric, a multiple of the least.
    """

    metric: Metric
    distances: pd.DataFrame

    @property
    def is_share(self) -> bool:
        """True if a distance is a share of the best, and not a multiple of it."""
        return not self.metric.exact

    @property
    def worst(self) -> pd.Series[float]:
        """The distance of each implementation where it is farthest from the best."""
        return self.distances.min() if self.is_share else self.distances.max()

    def text(self, distance: float) -> str:
        """A distance in print: a whole percentage, or a multiple."""
        return f"{distance:.0f}" if self.is_share else f"{times(distance)}×"


def _strip(experiments: Sequence[Experiment], metric: Metric) -> Strip:
    """The distances of a metric at every setting that the experiments have, each setting once."""
    by_setting: dict[str, dict[str, float]] = {}
    for experiment in experiments:
        for row in experiment.metrics:
            if row["metric"] == metric.name and row["status"] == "ok" and row["value"]:
                values = by_setting.setdefault(str(experiment.key_of(row)[1:]), {})
                values[row["implementation"]] = row["value"]
    rows = {setting: shares_of_best(metric, values) for setting, values in by_setting.items()}
    shares = pd.DataFrame.from_dict(rows, orient="index").sort_index().sort_index(axis=1)
    return Strip(metric, 1 / shares if metric.exact else PERCENT * shares)


def _strips(experiments: Sequence[Experiment]) -> list[Strip]:
    """A strip of one pass, one of all, and one of memory, of those that have any value."""
    benchmark = experiments[0].benchmark
    metrics = [*use_metrics(benchmark), *metrics_of(benchmark, exact=True)[:1]]
    strips = (_strip(experiments, metric) for metric in metrics)
    return [strip for strip in strips if not strip.distances.empty]


def draw_strips(experiments: Sequence[Experiment], languages: Sequence[str]) -> Figure | None:
    """The strips of each implementation, the nearest to the best first; None without any result."""
    strips = _strips(experiments)
    if not strips:
        return None
    of_all = [strip for strip in strips if strip.is_share] or strips
    medians = of_all[-1].distances.median()
    names = [str(name) for name in medians.sort_values(ascending=not of_all[-1].is_share).index]
    entries = {e["name"]: e for each in experiments for e in each.plan["implementations"]}
    looks = looks_of([entry for name, entry in entries.items() if name in names])
    figure, (panels,) = new_panels(PAGE_INCHES, 1, len(strips), sharey=True)
    for axes, strip in zip(panels, strips, strict=True):
        name_rows(axes, names, looks=looks)
        axes.spines["left"].set_visible(False)
        _scale(axes, strip)
        shown = [(row + 0.5, name) for row, name in enumerate(names) if name in strip.distances]
        for y, name in shown:
            _draw_row(axes, y, strip, name, looks[name])
        right = 0.0
        for key, column in (("median", strip.distances.median()), ("worst", strip.worst)):
            head, texts = "\n".join(said(f"strips.{key}", languages)), column.map(strip.text)
            widths = (text_inches(text, SMALL_POINTS) for text in (head, *texts))
            right += GAP_POINTS + POINTS * max(widths)
            _write_column(axes, right, head, [(y, name, texts[name]) for y, name in shown])
        title_panel(axes, [title_metric(strip.metric, languages)])
    lay_out(figure, ROW_INCHES * len(names))
    for axes, strip in zip(panels, strips, strict=True):
        if not strip.is_share:
            _thin(axes)
    return figure


def _scale(axes: Axes, strip: Strip) -> None:
    """An axis from zero to the best, whose margin is a band; of multiples a logarithmic one."""
    if strip.is_share:
        axes.axvspan(PERCENT / (1 + statistics.MARGIN), PERCENT, color=BAND, zorder=0.5)
        axes.set_xlim(0, PERCENT + 3)
        axes.xaxis.set_major_locator(FixedLocator([0, PERCENT / 2, PERCENT]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}%"))
    else:
        most = float(strip.worst.max())
        scale_logarithmically(axes.xaxis, 0.85, max(10.0, 1.2 * most), most=4)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{tick(ratio)}×"))


def _thin(axes: Axes) -> None:
    """Keep as many ticks of multiples as there is room for, once the panel is laid out."""
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    texts = [f"{tick(each)}×" for each in ticks]
    kept = fitting(axes, ticks, texts, TICK_GAP_INCHES)
    axes.xaxis.set_major_locator(FixedLocator([ticks[position] for position in kept]))


def _draw_row(axes: Axes, y: float, strip: Strip, name: str, look: Look) -> None:
    """A tick for each setting, and a dot at the median."""
    distances = strip.distances[name].dropna()
    median = float(distances.median())
    drawn = axes.plot([distances.min(), distances.max()], [y, y], color="#CFCFCF", lw=1, zorder=1)
    tick: Style = {"marker": "|", "markersize": 6, "markeredgewidth": 0.9, "linestyle": "none"}
    drawn += axes.plot(distances, [y] * len(distances), color=look.text, alpha=0.75, **tick)
    dot: Style = {"marker": "o", "markersize": 4.6, "markeredgewidth": 0.5, "clip_on": False}
    drawn += axes.plot(median, y, color=look.shade, markeredgecolor=INK, zorder=3, **dot)
    name_artists(name, drawn)


def _write_column(
    axes: Axes, right: float, head: str, numbers: Sequence[tuple[float, str, str]]
) -> None:
    """A column of numbers that ends so many points right of a panel, below its heading."""
    style: Style = {"ha": "right", "va": "bottom", "color": GREY, "linespacing": 1.1}
    write(axes, head, (1, 1), (right, 1.5), "axes fraction", **style)
    for y, name, text in numbers:
        at, coords = (1, y), axes.get_yaxis_transform()
        below: Style = {"ha": "right", "va": "center_baseline"}
        name_artists(name, [write(axes, text, at, (right, 0), coords, **below)])
