"""What all figures share: fonts, colours, markers, and SVG that is reproducible.

An implementation keeps its colour and marker throughout, and what is drawn of it is a group of its
own (`implementation_id`), so that a reader of the HTML can hide it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flashlab.files import open_atomically
from flashlab.glyphs import FONTS

FONT_FAMILY = "Noto Sans TC"

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
"""Okabe and Ito's palette, which stays apart under the common colour-vision deficiencies."""

MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*")

PAGE_INCHES = 6.85
"""Width of the text on A4: 210 mm less two margins of 18 mm."""

LABEL_POINTS = 8.0
GREY = "#555555"

STYLE: dict[Any, Any] = {
    "font.family": FONT_FAMILY,
    "font.size": LABEL_POINTS,
    "axes.labelsize": LABEL_POINTS,
    "axes.titlesize": LABEL_POINTS + 0.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.labelsize": LABEL_POINTS - 0.5,
    "ytick.labelsize": LABEL_POINTS - 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "flashlab",
}


def colour(style: int) -> str:
    """The colour of an implementation, by its number in the plan."""
    return COLOURS[style % len(COLOURS)]


def marker(style: int) -> str:
    """The marker of an implementation, by its number in the plan."""
    return MARKERS[style % len(MARKERS)]


def implementation_id(axes: Axes, name: str, drawn: Sequence[Artist]) -> None:
    """Name what is drawn of an implementation, so that the HTML can hide it."""
    for artist in drawn:
        position = len(axes.figure.findobj(lambda a: bool(a.get_gid())))
        artist.set_gid(f"implementation:{name}:{position}")


def as_number(value: float, _: int = 0) -> str:
    """A tick's number: 0.05, 2, 10,000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


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
    """Write a figure as SVG, whole or not at all, without a date, and close it."""
    with open_atomically(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
