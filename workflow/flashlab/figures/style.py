"""What all figures share: fonts, colours, markers, and SVG that is reproducible.

An implementation keeps its colour and marker throughout; a variant shows in the line's dashes and
the marker's fill. What is drawn of an implementation is named (`name_artists`), so that a reader of
the HTML can hide it.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from flashlab.figures.labels import in_languages
from flashlab.files import open_atomically
from flashlab.glyphs import FONTS

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
"""Okabe and Ito's palette, which stays apart under the common colour-vision deficiencies."""

MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (3, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))

PAGE_INCHES = 6.85
"""Width of the text on A4: 210 mm less two margins of 18 mm."""

POINTS = 72
"""Points in an inch."""

LABEL_POINTS = 8.0
SMALL_POINTS = 6.5
LEGEND_COLUMNS = 5
LEGEND_INCHES = 0.15
"""Height of a row of a legend."""

GREY = "#555555"

STYLE: dict[Any, Any] = {
    "font.family": "Noto Sans TC",
    "font.size": LABEL_POINTS,
    "axes.labelsize": LABEL_POINTS,
    "axes.titlesize": LABEL_POINTS + 0.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.labelsize": LABEL_POINTS - 0.5,
    "ytick.labelsize": LABEL_POINTS - 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.markeredgewidth": 0.6,
    "legend.fontsize": SMALL_POINTS,
    "svg.fonttype": "none",
    "svg.hashsalt": "flashlab",
}


def colour(entry: Mapping[str, Any]) -> str:
    """The colour of an implementation, by its number in the plan."""
    return COLOURS[entry["style"] % len(COLOURS)]


def marker(entry: Mapping[str, Any]) -> str:
    """The marker of an implementation, by its number in the plan."""
    return MARKERS[entry["style"] % len(MARKERS)]


def variant_style(position: int, shade: str) -> dict[str, Any]:
    """How a line in a colour shows its variant, by the variant's position among those drawn."""
    return {
        "color": shade,
        "linestyle": DASHES[position % len(DASHES)],
        "markerfacecolor": "white" if position % 2 else shade,
        "markeredgecolor": shade if position % 2 else "white",
    }


def each_variant(data: pd.DataFrame, shade: str) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
    """The rows of each variant (the column ``variant``), and how its line in a colour is drawn."""
    for position in sorted(set(data["variant"])):
        yield data[data["variant"] == position], variant_style(position, shade)


class _Grid(sns.FacetGrid):  # type: ignore[misc]
    """A grid of panels that `place_panels` places."""

    def tight_layout(self, *_: Any, **__: Any) -> _Grid:
        """Not at every `map_dataframe`: it takes most of the time, and is undone."""
        return self


def facet_grid(
    data: pd.DataFrame, entries: Sequence[Mapping[str, Any]], **facets: Any
) -> sns.FacetGrid:
    """A seaborn FacetGrid of these implementations.

    What is mapped onto it is called for each facet and implementation, with the implementation's
    rows as `data`, its name as `label`, its `color` and its `marker`.
    """
    grid = _Grid(
        data,
        hue="implementation",
        hue_order=[entry["name"] for entry in entries],
        hue_kws={"marker": [marker(entry) for entry in entries]},
        palette={entry["name"]: colour(entry) for entry in entries},
        **facets,
    )
    grid.set_titles("")
    return grid


def place_panels(
    figure: Figure,
    width: float,
    height: float,
    margins: tuple[float, float, float, float],
    **spaces: float,
) -> None:
    """Make a figure so wide, and its panels so high, with margins around them, all in inches.

    The margins are those on the left, on the right, below and above.
    """
    left, right, below, above = margins
    whole = height + below + above
    figure.set_size_inches(width, whole)
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=below / whole,
        top=1 - above / whole,
        **spaces,
    )


def scale_sizes(axes: Axes, values: Sequence[int], labels: Sequence[str]) -> None:
    """Ticks at the measured sizes, in equal steps where each is at least twice the one before."""
    if values[0] > 0 and all(b >= 2 * a for a, b in itertools.pairwise(values)):
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, labels)
    axes.xaxis.set_minor_locator(NullLocator())


def as_number(value: float, _: int = 0) -> str:
    """A tick's number: 0.05, 2, 10,000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def draw_legend(
    figure: Figure,
    entries: Sequence[Mapping[str, Any]],
    variants: Sequence[str],
    languages: Sequence[str],
    more: Sequence[Line2D] = (),
    **changes: Any,
) -> float:
    """A legend of implementations, and of variants if there are several; its height in inches.

    `more` are further entries at its end, `changes` are properties of the lines that stand in it.
    """
    looks = [
        (in_languages(entry["label"], languages), marker(entry), variant_style(0, colour(entry)))
        for entry in entries
    ]
    if len(variants) > 1:
        looks += [(label, "o", variant_style(i, GREY)) for i, label in enumerate(variants)]
    handles = [
        Line2D([], [], label=label, marker=shape, markersize=4, linewidth=1.1, **style | changes)
        for label, shape, style in looks
    ]
    handles += more
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=min(len(handles), LEGEND_COLUMNS),
        frameon=False,
        handlelength=2.2,
        columnspacing=1.4,
        borderpad=0,
        borderaxespad=0.2,
    )
    return LEGEND_INCHES * math.ceil(len(handles) / LEGEND_COLUMNS)


def name_artists(implementation: str, drawn: Iterable[Artist]) -> None:
    """Name what is drawn of an implementation; `save` numbers the names."""
    for artist in drawn:
        artist.set_gid(f"implementation:{implementation}")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the report's style; a character that the vendored fonts lack is an error."""
    for path in sorted(FONTS.glob("*.ttf")):
        font_manager.fontManager.addfont(path)
    with warnings.catch_warnings(), plt.rc_context(STYLE):
        warnings.filterwarnings("error", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("error", message=".*findfont.*")
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, atomically and without a date, and close it."""
    for number, artist in enumerate(figure.findobj(lambda artist: bool(artist.get_gid()))):
        artist.set_gid(f"{artist.get_gid()}:{number}")
    with open_atomically(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
