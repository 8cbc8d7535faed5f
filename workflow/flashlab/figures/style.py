"""Common to all figures: fonts, colours, sizes, axes, reproducible SVG.

An implementation has its colour and its marker in every figure. What a point or a bar stands for,
with its interval, is the ``<title>`` of its SVG (`title_points`), which a browser shows.
"""

from __future__ import annotations

import colorsys
import html
import io
import itertools
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.textpath import TextToPath
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from scipy.optimize import isotonic_regression

from flashlab.files import open_atomically
from flashlab.numbers import tick, times
from flashlab.telling.glyphs import FONTS

Style = dict[str, Any]
"""Properties of artists."""

WIDE, HALF = 180 / 25.4, 88 / 25.4
"""The width of the text on A4, and of one of two figures side by side, in inches."""

FONT, POINTS = "Noto Sans TC", 72
"""That of the report, and the points in an inch."""

TITLE_POINTS, SMALL_POINTS = 7.0, 6.5
TITLE_HEIGHT, LINE_POINTS, ENTRY_POINTS = 12.0, SMALL_POINTS * 1.25, 32.0
"""The heights of a panel's title and of a line of small text, and the width of a legend's entry
beside its text, in points."""

COLOURS = (
    *("#AB1700", "#0061E0", "#D0CAEA", "#AD6771", "#07ACFC", "#DC7242", "#D8B530", "#4B005F"),
    "#383D34",
)
"""Apart in lightness too, so in greyscale, and of enough contrast."""

MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*", "p")
DASHES: tuple[Any, ...] = ("-", (0, (3, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))

TEXT_LIGHTNESS, DARKER = 0.32, 0.6
"""The lightness (HLS) at which each colour has the contrast that text needs, and the share of it
that a colour keeps where a second implementation has it."""

GREY, PALE, INK, RATIO = "#555555", "#A6A6A6", "#1C1C1C", "#0B3D62"
"""Of what is secondary, of lines that are not named, of edges, and of ratios below an axis."""

LEAST_SPAN = 5.0
"""The factor that a logarithmic axis spans at least, so that it has two round numbers."""

GROUND: Style = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}
"""Behind a text that stands on lines."""

FAILED: Style = {"marker": "x", "markersize": 3.5, "markeredgewidth": 1, "linestyle": "none"}
"""The mark of a run without a result."""

STYLE: dict[Any, Any] = {
    **sns.axes_style("white"),  # without ticks, where the grid has lines
    **{"font.family": FONT, "font.size": TITLE_POINTS, "text.color": "black"},
    "figure.dpi": POINTS,  # as in the SVG, so that what is laid out is what is drawn
    **{"axes.edgecolor": GREY, "axes.linewidth": 0.6, "axes.grid": True, "axes.labelpad": 1.5},
    **{"axes.spines.right": False, "axes.spines.top": False, "axes.titleweight": "bold"},
    **{"axes.titlesize": TITLE_POINTS, "axes.labelsize": TITLE_POINTS},
    **{"grid.color": "#E4E4E4", "grid.linewidth": 0.5, "lines.markeredgewidth": 0.6},
    **{f"{axis}tick.labelsize": SMALL_POINTS for axis in "xy"},
    **{f"{axis}tick.major.{part}": 2.0 for axis in "xy" for part in ("size", "pad")},
    **{"legend.borderaxespad": 0.0, "legend.borderpad": 0.0, "legend.frameon": False},
    **{"legend.columnspacing": 1.2, "legend.fontsize": SMALL_POINTS, "legend.labelspacing": 0.3},
    **{"legend.handlelength": 1.8, "legend.handletextpad": 0.5},
    "patch.force_edgecolor": False,  # which would hide what is thin
    **{"svg.fonttype": "none", "svg.hashsalt": "flashlab"},
}


@dataclass(frozen=True)
class Look:
    """The look of an implementation; one that is not named is grey."""

    shade: str
    marker: str
    is_named: bool = True

    @property
    def text(self) -> Style:
        """The look of its name."""
        return {"color": dark(self.shade), "weight": "bold"} if self.is_named else {"color": GREY}

    def mark(self, is_filled: bool = True) -> Style:
        """The look of its marks; those of a second variant are hollow."""
        star = 1.4 if self.marker == "*" else 1.0  # which covers less than others of its size
        return {
            **{"marker": self.marker, "markersize": star * (3.8 if self.is_named else 2.4)},
            **{"markerfacecolor": self.shade if is_filled else "white"},
            **{"markeredgecolor": "white" if is_filled else self.shade},
            "markeredgewidth": 0.3 if is_filled else 0.6,
        }


def looks_of(styles: Mapping[str, int], named: Collection[str] | None = None) -> dict[str, Look]:
    """The look of each implementation, from the number of its style; grey unless it is `named`.

    A tenth style has the colour of the first, darker, and the next marker.
    """
    looks = {}
    for name, style in styles.items():
        rounds, position = divmod(style, len(COLOURS))
        is_named, marker = named is None or name in named, (position + rounds) % len(MARKERS)
        shade = _scaled(COLOURS[position], DARKER**rounds) if is_named else PALE
        looks[name] = Look(shade, MARKERS[marker], is_named)
    return looks


def _scaled(shade: str, share: float) -> str:
    """A colour of so much of its lightness."""
    _, lightness, _ = colorsys.rgb_to_hls(*to_rgb(shade))
    return to_hex(sns.set_hls_values(shade, l=lightness * share)) if share != 1 else shade


def dark(shade: str) -> str:
    """A colour as dark as text on white has to be."""
    _, lightness, _ = colorsys.rgb_to_hls(*to_rgb(shade))
    return _scaled(shade, min(1.0, TEXT_LIGHTNESS / lightness)) if lightness else shade


# Texts


@cache
def text_points(text: str, points: float = SMALL_POINTS, weight: str = "normal") -> float:
    """The width of a text's widest line in the report's font, in points."""
    font = font_manager.FontProperties(family=FONT, weight=weight, size=points)
    lines = [line for line in text.split("\n") if line]
    widths = [TextToPath().get_text_width_height_descent(line, font, False)[0] for line in lines]
    return float(max(widths, default=0.0))


def widest(texts: Iterable[str], weight: str = "normal") -> float:
    """The width of the widest of some small texts, in points; zero of none."""
    return max((text_points(text, weight=weight) for text in texts), default=0.0)


def write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[float, float] = (0.0, 0.0),
    coords: Any = "data",
    **style: Any,
) -> Annotation:
    """Write a small text so many points to the right of and above a place, seen outside too."""
    style = {"fontsize": SMALL_POINTS, "va": "center", "annotation_clip": False, **style}
    near: Style = {"xytext": offset, "textcoords": "offset points"}
    return axes.annotate(text, at, xycoords=coords, **near, **style)


def title_panel(axes: Axes, title: str, above: float = 0.0) -> None:
    """Write a panel's title so many points above it."""
    axes.set_title(title, x=0, y=1, ha="left", pad=3 + above)


def name_rows(
    axes: Axes, names: Sequence[str], looks: Mapping[str, Look] | None = None, height: float = 1.0
) -> None:
    """Write the name of each row beside a panel; those of implementations in their colours."""
    axes.set_yticks([(row + 0.5) * height for row in range(len(names))], names)
    for name, mark in zip(names, axes.yaxis.get_major_ticks(), strict=True):
        mark.label1.set(**(looks[name].text if looks else {}))
    axes.set_ylim(len(names) * height, 0)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)


def write_column(
    axes: Axes, right: float, head: str, texts: Iterable[tuple[int, str]], *looks: Style
) -> None:
    """Write texts, each with its row, that end so many points right of a panel, below a heading."""
    top: Style = {"ha": "right", "va": "bottom", "color": GREY, "linespacing": 1.1}
    write(axes, head, (1, 1), (right, 1.5), "axes fraction", **top)
    for (row, text), look in itertools.zip_longest(texts, looks):
        at, beside = (1, row + 0.5), axes.get_yaxis_transform()
        write(axes, text, at, (right, 0), beside, ha="right", va="center_baseline", **(look or {}))


def handle(label: str, **style: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **style)


def rows_of(frame: pd.DataFrame) -> list[Any]:
    """The rows of a frame, as named tuples."""
    return [*frame.itertuples()]


def speed(row: Any) -> str:
    """A speed of a row as the tables print it, with ``?`` where it is undecided."""
    return f"{times((row.x, row.low, row.high))}×{'?' * (row.verdict == 'undecided')}"


def spread(wanted: Sequence[float], extent: float) -> Any:
    """Centres for labels in ascending order, as near to where they are wanted as can be.

    Each takes `extent`. They do not overlap, and stay between 0 and 1 where there is room for all.
    """
    below = extent * np.arange(len(wanted))
    places = isotonic_regression(np.asarray(wanted, dtype=float) - extent / 2 - below).x
    return np.clip(places, 0, max(0, 1 - extent * len(wanted))) + extent / 2 + below


# Axes of values


def scale_linearly(axis: Axis, most: int) -> None:
    """Give an axis at most so many round numbers, or one more."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(lambda value, _: tick(value))


def scale_logarithmically(axis: Axis, low: float, high: float, most: int, unit: str = "") -> None:
    """Make an axis logarithmic, with as many round numbers as there is room for.

    These are 1, 2 and 5, or 1 and 3, in each decade, or powers of ten.
    """
    if high / low < LEAST_SPAN:  # else nearly equal values would look far apart
        centre = math.sqrt(low * high)
        low, high = centre / math.sqrt(LEAST_SPAN), centre * math.sqrt(LEAST_SPAN)
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    decades = math.log10(high / low)
    subs = next((d for d in ((1, 2, 5), (1, 3)) if decades * len(d) <= most), (1,))
    axis.set_major_locator(LogLocator(subs=subs, numticks=max(3, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{tick(value)}{unit}")


def tick_points(axis: Axis) -> float:
    """The width of an axis' labels of ticks, with the ticks, in points."""
    low, high = sorted(axis.get_view_interval())
    shown = [each for each in axis.get_majorticklocs() if low <= each <= high]
    return widest(axis.get_major_formatter().format_ticks(shown)) + 5


# Figures


def new_panels(width: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure so many inches wide and its panels, by row and column, for `lay_out` to place."""
    figure = plt.figure(figsize=(width, 1.0))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def lay_out(
    figure: Figure,
    height: float,
    margins: tuple[float, float, float, float],
    legend: Sequence[Line2D] = (),
    before: float = 0.0,
) -> None:
    """Place the panels, each so many points high, and a legend below them.

    Args:
        figure: the figure, which gets its height.
        height: of a panel (the mean, where they differ).
        margins: left of each panel, right, above and below, in points.
        legend: its entries.
        before: further points left of all panels.
    """
    rows, columns = figure.axes[0].get_gridspec().get_geometry()  # type: ignore[union-attr]
    width = POINTS * figure.get_figwidth()
    left, right, above, below = margins
    entry = widest(str(each.get_label()) for each in legend) + ENTRY_POINTS
    across = max(1, min(len(legend), int(width / entry)))
    under = math.ceil(len(legend) / across) * 1.1 * LINE_POINTS
    whole = rows * (height + above + below) + under
    figure.set_figheight(whole / POINTS)
    figure.subplots_adjust(
        **{"left": (before + left) / width, "right": 1 - right / width},
        **{"top": 1 - above / whole, "bottom": (below + under) / whole},
        wspace=(left + right) / ((width - before) / columns - left - right),
        hspace=(above + below) / height,
    )
    if legend:
        by_rows = [each for first in range(across) for each in legend[first::across]]
        figure.legend(handles=by_rows, loc="lower center", ncols=across)


def title_points(artist: Artist, titles: Iterable[str]) -> None:
    """Say what each point of an artist stands for, in the order of its points."""
    artist.set_gid("\t".join([_TITLED, *titles]))


_TITLED = "titles"
_GROUP = re.compile(rf"""<g id=(["']){_TITLED}\t(.*)\1>""")


def _with_titles(source: str) -> Iterator[str]:
    """The lines of an SVG, with a ``<title>`` in each point of the artists that have some."""
    titles: list[str] = []
    depth = 0
    for line in source.splitlines(keepends=True):
        stripped = line.strip()
        if found := _GROUP.match(stripped):
            titles, depth = html.unescape(found[2]).split("\t"), 0
            only = f"<title>{html.escape(titles.pop())}</title>" if len(titles) == 1 else ""
            line = line.replace(stripped, f"<g>{only}")
        depth += stripped.startswith("<g") - (stripped == "</g>")
        if titles and depth > 0 and stripped.startswith("<use ") and stripped.endswith("/>"):
            title = f"><title>{html.escape(titles.pop(0))}</title></use>"
            line = line.replace("/>", title)
        yield line


@cache
def _add_fonts() -> None:
    for path in sorted(FONTS.glob("NotoSansTC-*.ttf")):
        font_manager.fontManager.addfont(path)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the report's style; a character that the vendored fonts lack is an error."""
    _add_fonts()
    with warnings.catch_warnings(), plt.rc_context(STYLE):
        warnings.filterwarnings("error", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("error", message=".*findfont.*")
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, atomically and without a date, and close it."""
    drawn = io.BytesIO()
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(drawn, metadata={"Date": None})  # type: ignore[no-untyped-call]
    with open_atomically(path) as file:
        file.writelines(_with_titles(drawn.getvalue().decode()))
    plt.close(figure)
