"""What all figures share: fonts, colours, markers, and SVG that is reproducible.

An implementation keeps its marker throughout, and its colour wherever it is emphasised; a variant
shows in the line's dashes and the marker's fill. What is drawn of an implementation is named
(`name_artists`), so that a reader of the HTML page can hide it.
"""

from __future__ import annotations

import colorsys
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from flashlab.figures.placement import FONT, sparse, text_inches
from flashlab.files import open_atomically
from flashlab.telling.glyphs import FONTS

COLOURS = (
    *("#AB1700", "#0061E0", "#6A8549", "#E880DC", "#29A385", "#D9BA77", "#240A66", "#750C59"),
)
"""Apart in lightness too: in greyscale, and under the common colour-vision deficiencies."""

FAINT = "#B4B4B4"
"""The line of an implementation that is not emphasised."""

FAINT_TEXT = "#6E6E6E"

TEXT_LIGHTNESS = 0.32
"""The lightness (HLS) at which each colour has the contrast that text needs."""

MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (3, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))

PAGE_INCHES = 174 / 25.4
"""Width of the text on A4."""

HALF_INCHES = 84 / 25.4
"""Width of a figure of which two stand side by side."""

LABEL_POINTS = 7.0
SMALL_POINTS = 6.5
"""The smallest text of a figure that is no cell of a heat map."""

LEGEND_INCHES = 0.14
"""Height of a row of a legend."""

LEGEND_HANDLE_INCHES = 0.42
"""Width of a legend's entry beside its text."""

TICK_INCHES = 0.14
"""The least distance between two labels of a vertical axis."""

TICK_GAP_INCHES = 0.05
"""The least gap between two labels of a horizontal axis."""

GREY = "#555555"

STYLE: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": LABEL_POINTS,
    "axes.labelsize": LABEL_POINTS,
    "axes.titlesize": LABEL_POINTS,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.labelsize": SMALL_POINTS,
    "ytick.labelsize": SMALL_POINTS,
    "xtick.major.size": 2.0,
    "ytick.major.size": 2.0,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "lines.markeredgewidth": 0.6,
    "legend.fontsize": SMALL_POINTS,
    "svg.fonttype": "none",
    "svg.hashsalt": "flashlab",
}


def colour(entry: Mapping[str, Any]) -> str:
    """The colour of an implementation, by its number in the plan."""
    return COLOURS[entry["style"] % len(COLOURS)]


def shades_of(entries: Sequence[Mapping[str, Any]], emphasised: Collection[str]) -> dict[str, str]:
    """The colour of each implementation by its name, grey unless it is emphasised."""
    return {
        entry["name"]: colour(entry) if entry["name"] in emphasised else FAINT for entry in entries
    }


def text_colour(shade: str) -> str:
    """A colour as dark as text on white has to be."""
    if shade == FAINT:
        return FAINT_TEXT
    _, lightness, _ = colorsys.rgb_to_hls(*to_rgb(shade))
    return to_hex(sns.set_hls_values(shade, l=min(lightness, TEXT_LIGHTNESS)))


def marker(entry: Mapping[str, Any]) -> str:
    """The marker of an implementation, by its number in the plan: another one for each colour.

    The ninth implementation has the colour of the first, and so the next marker.
    """
    rounds, position = divmod(entry["style"], len(COLOURS))
    return MARKERS[(position + rounds) % len(MARKERS)]


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
    data: pd.DataFrame,
    entries: Sequence[Mapping[str, Any]],
    emphasised: Collection[str] | None = None,
    **facets: Any,
) -> sns.FacetGrid:
    """A seaborn FacetGrid of these implementations, those not `emphasised` in grey behind the rest.

    What is mapped onto it is called for each facet and implementation, with the implementation's
    rows as `data`, its name as `label`, its `color` and its `marker`. None emphasises all.
    """
    if emphasised is None:
        emphasised = [entry["name"] for entry in entries]
    entries = sorted(entries, key=lambda entry: entry["name"] in emphasised)
    grid = _Grid(
        data,
        hue="implementation",
        hue_order=[entry["name"] for entry in entries],
        hue_kws={"marker": [marker(entry) for entry in entries]},
        palette=shades_of(entries, emphasised),
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


def scale_sizes(
    axes: Axes, values: Sequence[int], labels: Sequence[str], margin: float = 0.07
) -> None:
    """Ticks at the measured sizes, logarithmic where they span two octaves.

    `margin` is what the axis leaves free on each side, as a share of what lies between. Where the
    labels would touch, only every second one is printed, or fewer; for
    that, the axes must already be as wide as they will be.
    """
    if values[0] > 0 and values[-1] >= 4 * values[0]:
        axes.set_xscale("log", base=2)
    low, high = (axes.xaxis.get_transform().transform(end) for end in (values[0], values[-1]))
    free = margin * (high - low) or 0.5
    left, right = axes.xaxis.get_transform().inverted().transform([low - free, high + free])
    axes.set_xlim(left, right)
    axes.set_xticks(values, labels)
    axes.xaxis.set_minor_locator(NullLocator())
    centres = axes.transData.transform([(value, 1.0) for value in values])[:, 0] / axes.figure.dpi
    widths = [
        max(text_inches(line, SMALL_POINTS) for line in label.split("\n")) for label in labels
    ]
    kept = sparse(list(centres), widths, TICK_GAP_INCHES)
    axes.set_xticklabels([label if i in kept else "" for i, label in enumerate(labels)])


def as_number(value: float, _: int = 0) -> str:
    """A number of a tick or a label: 0.05, 2, 10,000."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if 1e-8 < abs(value) < 1e-4 else f"{value:g}"


def logarithmic_ticks(low: float, high: float, most: int) -> list[float]:
    """As many round numbers as there is room for, but at least two if there are."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    series: list[tuple[tuple[int, ...], int, int]] = [
        ((1, 2, 5), 1, 2),
        ((1,), 1, 3),
        ((1, 3), 1, 2),
        *(((1,), step, 2) for step in range(1, len(decades) + 1)),
    ]
    for digits, step, fewest in series:
        found = [
            digit * 10.0**decade
            for decade in decades
            if decade % step == 0
            for digit in digits
            if low <= digit * 10.0**decade <= high
        ]
        if fewest <= len(found) <= most:
            return found
    powers = [tick for tick in (10.0**decade for decade in decades) if low <= tick <= high]
    return [*powers[:1], *powers[1:][-1:]]  # the outermost two


def scale_values(axes: Axes, logarithmic: bool, inches: float) -> None:
    """The vertical axis of a panel of this height.

    It spans at least two octaves if logarithmic, and begins at zero otherwise.
    """
    most = max(2, int(inches / TICK_INCHES))
    if logarithmic:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high / low < 4:  # else nearly equal values would look far apart
            centre = math.sqrt(low * high)
            low, high = centre / 2, centre * 2
            axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(FixedLocator(logarithmic_ticks(low, high, most)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(min(most, 5), steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(as_number))


def tick_inches(axes: Axes) -> float:
    """How wide the labels of the vertical axis are."""
    low, high = sorted(axes.get_ylim())
    ticks = [t for t in axes.yaxis.get_major_locator().tick_values(low, high) if low <= t <= high]
    return max((text_inches(as_number(tick), SMALL_POINTS) for tick in ticks), default=0.0)


def draw_legend(figure: Figure, handles: Sequence[Line2D], width: float) -> float:
    """A legend below a figure of this width, in as many columns as fit; its height in inches."""
    if not handles:
        return 0.0
    widest = max(text_inches(str(handle.get_label()), SMALL_POINTS) for handle in handles)
    columns = min(len(handles), max(1, int(width / (widest + LEGEND_HANDLE_INCHES))))
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=columns,
        frameon=False,
        handlelength=1.8,
        handletextpad=0.5,
        columnspacing=1.2,
        labelspacing=0.3,
        borderpad=0,
        borderaxespad=0.2,
    )
    return LEGEND_INCHES * math.ceil(len(handles) / columns) + 0.03


def name_artists(implementation: str, drawn: Iterable[Artist]) -> None:
    """Name what is drawn of an implementation; `save` numbers the names."""
    for artist in drawn:
        artist.set_gid(f"implementation:{implementation}")


def name_marks(
    implementation: str,
    drawn: Artist,
    metric: str,
    records: Iterable[str],
    places: Iterable[Sequence[float]] | None = None,
) -> None:
    """Name an artist as `name_artists` does, and the runs whose marks it draws, in their order.

    Args:
        implementation: whose marks they are.
        drawn: a line of markers, or a single patch.
        metric: what the marks show of the runs.
        records: the path of each run's record.
        places: where each mark is, in the units of its axes, for a reader who cannot tell that
            from the metric's value.
    """
    names = [Path(record).name for record in records]
    ats = places if places is not None else [()] * len(names)
    marks = [" ".join([n, *(f"{v:.4g}" for v in at)]) for n, at in zip(names, ats, strict=True)]
    drawn.set_gid(f"implementation:{implementation}:{metric}={','.join(marks)}")


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
