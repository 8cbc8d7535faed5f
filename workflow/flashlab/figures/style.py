"""Common to all figures: fonts, colours, markers, layout, and SVG that is reproducible.

An implementation keeps its colour and its marker throughout; where it does not stand out, the
colour is muted. A variant shows in the line's dashes and the marker's fill. What is drawn of an
implementation is named (`name_artists`), so that a reader of the HTML page can hide it.
"""

from __future__ import annotations

import colorsys
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecBase
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from flashlab.figures.forms import HALF_INCHES
from flashlab.figures.placement import FONT, sparse, text_inches, wrap_texts
from flashlab.files import open_atomically
from flashlab.numbers import tick
from flashlab.telling.glyphs import FONTS

COLOURS = (
    *("#AB1700", "#0061E0", "#D0CAEA", "#AD6771", "#07ACFC", "#DC7242", "#D8B530", "#4B005F"),
    "#383D34",
)
"""Apart in lightness too: in greyscale, and under the common colour-vision deficiencies."""

MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*", "p")
DASHES: tuple[Any, ...] = ("", (3, 1.5), (1, 1), (5, 1, 1, 1))

TEXT_LIGHTNESS = 0.32
"""The lightness (HLS) at which each colour has the contrast that text needs."""

DARKER = 0.6
"""The lightness that a colour loses where a second implementation has it."""

MUTED_LIGHTNESS = 0.58
"""The greatest lightness of a muted colour, for a thin line to be seen."""

LABEL_POINTS = 7.0
SMALL_POINTS = 6.5
"""The smallest text of a figure."""

LINE_POINTS = SMALL_POINTS * 1.25
"""Height of a line of text."""

LEGEND_HANDLE_INCHES = 0.42
"""Width of a legend's entry beside its text."""

TICK_INCHES = 0.14
"""The least distance between two labels of an axis of values."""

TICK_GAP_INCHES = 0.05
"""The least gap between two labels of the axis of a sweep."""

LEAST_SPAN = 5.0
"""The factor that a logarithmic axis spans at least, so that it has two round numbers."""

GREY = "#555555"

INK = "#1C1C1C"
"""The edges of marks and bars, for light ones to be seen on white, and intervals."""

RATIO = "#0B3D62"
"""The colour of ratios below an axis: that of what the report concludes."""

MOST_EMPHASISED = 3

Style = dict[str, Any]
"""Properties of artists."""

STYLE: dict[Any, Any] = {
    **sns.axes_style("white"),  # without ticks, where the grid has lines
    "font.family": FONT,
    "font.size": LABEL_POINTS,
    "text.color": "black",
    "figure.dpi": 72,  # as in the SVG, so that what is laid out is what is drawn
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelpad": 1.5,
    "axes.labelsize": LABEL_POINTS,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": LABEL_POINTS,
    "axes.titleweight": "bold",
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    **{f"{axis}tick.labelsize": SMALL_POINTS for axis in "xy"},
    **{f"{axis}tick.major.size": 2.0 for axis in "xy"},
    **{f"{axis}tick.major.pad": 2.0 for axis in "xy"},
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "legend.columnspacing": 1.2,
    "legend.fontsize": SMALL_POINTS,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.3,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.03,
    **{f"figure.constrained_layout.{space}": 0.0 for space in ("wspace", "hspace")},
    "lines.markeredgewidth": 0.6,
    "patch.force_edgecolor": False,  # which would hide what is thin
    "svg.fonttype": "none",
    "svg.hashsalt": "flashlab",
}


# Looks


@dataclass(frozen=True)
class Look:
    """The look of an implementation: if it stands out, its colour and its marker."""

    stands_out: bool
    shade: str
    marker: str

    @property
    def text(self) -> str:
        """The colour of its name."""
        return text_colour(self.shade)

    def weight(self, variant: int, size: float = 1.0) -> Style:
        """The weight of its line and the filling of its markers, by the position of a variant."""
        filled = variant % 2 == 0
        star = 1.4 if self.marker == "*" else 1.0  # which covers less than others of its size
        return {
            "linewidth": 1.3 if self.stands_out else 0.8,
            "markersize": size * star * (3.8 if self.stands_out else 3.2),
            "markerfacecolor": self.shade if filled else "white",
            "markeredgecolor": "white" if filled else self.shade,
            "markeredgewidth": 0.3 if filled else 0.6,
            "zorder": 2.5 if self.stands_out else 2.0,
        }

    def sample(self, variant: int = 0, **style: Any) -> Style:
        """A bit of its line, for a legend."""
        return {"color": self.shade, "marker": self.marker, **self.weight(variant), **style}


def looks_of(
    entries: Iterable[Mapping[str, Any]], emphasised: Sequence[str] | None = None
) -> dict[str, Look]:
    """The look of each implementation of a plan, by its name.

    Of more than `MOST_EMPHASISED`, only the first of those `emphasised` stand out. The tenth style
    has the colour of the first, darker, and so the next marker. A kernel with packed inputs has the
    colour of the same one with separate ones.
    """
    entries, looks = list(entries), {}
    few = emphasised is None or len(entries) <= MOST_EMPHASISED
    chosen = {e["name"] for e in entries} if few else set((emphasised or [])[:MOST_EMPHASISED])
    for entry in entries:
        rounds, position = divmod(entry["style"], len(COLOURS))
        stands_out = entry["name"] in chosen
        shade = _darker(COLOURS[position], rounds)
        shade = shade if stands_out else muted(shade)
        looks[entry["name"]] = Look(stands_out, shade, MARKERS[(position + rounds) % len(MARKERS)])
    for entry in entries:
        if (twin := entry.get("packed_of")) in looks:
            looks[entry["name"]] = replace(looks[entry["name"]], shade=looks[twin].shade)
    return looks


def muted(shade: str) -> str:
    """A paler colour for the background, of the same hue."""
    return _no_lighter(to_hex(sns.desaturate(shade, 0.45)), MUTED_LIGHTNESS)


def _darker(shade: str, rounds: int) -> str:
    """A colour as it is used again, once the others are used up."""
    _, lightness, _ = colorsys.rgb_to_hls(*to_rgb(shade))
    return to_hex(sns.set_hls_values(shade, l=lightness * DARKER**rounds)) if rounds else shade


def text_colour(shade: str) -> str:
    """A colour as dark as text on white has to be."""
    return _no_lighter(shade, TEXT_LIGHTNESS)


def _no_lighter(shade: str, most: float) -> str:
    _, lightness, _ = colorsys.rgb_to_hls(*to_rgb(shade))
    return to_hex(sns.set_hls_values(shade, l=min(lightness, most)))


# Layout


def new_panels(width: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure so many inches wide, and its panels by row and column, for `lay_out` to arrange."""
    figure = plt.figure(figsize=(width, 12.0 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


AROUND_INCHES = 1.5
"""More than the height around a panel, but for a legend."""


def lay_out(figure: Figure, panel: float, whole: float | None = None) -> None:
    """Arrange the panels with their labels, titles and legend.

    The first panel is `panel` inches high, or the whole figure is as high as `whole` says. Ticks of
    a sweep are thinned where their labels would touch. A title begins at the figure's edge where
    panels stand one below the other.
    """
    engine, first = figure.get_layout_engine(), figure.axes[0]
    assert isinstance(engine, ConstrainedLayoutEngine)
    shares = np.ravel(_grid_of(first).get_height_ratios())
    heights = [panel * float(share / shares[0]) for share in shares]
    below = sum(legend.get_window_extent().height for legend in figure.legends) / figure.dpi
    figure.set_figheight(whole or sum(heights) + AROUND_INCHES * len(heights) + below)
    engine.execute(figure)
    figure.set_layout_engine("none")
    if whole is None:
        _stretch(figure, heights)
    for axes in figure.axes:
        place, formatter = axes.get_position(), axes.xaxis.get_major_formatter()
        if _grid_of(axes).ncols == 1:
            axes.title.set_x(-place.x0 / place.width)
        if isinstance(formatter, FixedFormatter):
            kept = fitting(axes, axes.get_xticks(), formatter.seq, TICK_GAP_INCHES)
            labels = [label if i in kept else "" for i, label in enumerate(formatter.seq)]
            axes.xaxis.set_major_formatter(FixedFormatter(labels))


def _stretch(figure: Figure, heights: Sequence[float]) -> None:
    """Make each row of panels so many inches high; the room around them stays."""
    before = figure.get_figheight()
    places = [(axes, axes.get_position()) for axes in figure.axes]
    missing = 1 - places[0][1].height * before / heights[0]
    after = before + sum(heights) * missing
    figure.set_figheight(after)
    for axes, place in places:
        spec = axes.get_subplotspec()
        assert spec is not None
        low = place.y0 * before + sum(heights[spec.rowspan.stop :]) * missing
        high = place.y1 * before + sum(heights[spec.rowspan.start :]) * missing
        axes.set_position(Bbox([[place.x0, low / after], [place.x1, high / after]]))


def _grid_of(axes: Axes) -> GridSpecBase:
    grid = axes.get_gridspec()
    assert grid is not None
    return grid


def fitting(
    axes: Axes, places: Iterable[float], texts: Sequence[str], gap: float, bold: bool = False
) -> list[int]:
    """The positions of those small texts along a panel, already laid out, that have room."""
    pixels = [axes.transData.transform((place, 1.0))[0] for place in places]
    widths = [text_inches(text, SMALL_POINTS, bold) for text in texts]
    return sparse([pixel / axes.figure.dpi for pixel in pixels], widths, gap)


def remove_covered(figure: Figure, numbers: Sequence[Annotation]) -> None:
    """Remove those of some numbers that would cover another text, or leave the figure.

    Of two numbers that cover one another the first stays.
    """
    figure.draw_without_rendering()
    renderer = figure._get_renderer()  # type: ignore[attr-defined]  # else one for each number
    given = {id(number) for number in numbers}
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    kept = [text.get_window_extent(renderer) for text in texts if id(text) not in given]
    for number in numbers:
        box = number.get_window_extent(renderer)
        inside = figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
        if inside and not any(box.overlaps(other) for other in kept):
            kept.append(box)
        else:
            number.remove()


BESIDE_INCHES = 0.3
"""The width of ticks' labels, where a title does not begin at the column's edge."""


def title_panel(axes: Axes, texts: Sequence[str], above: float = 0.0) -> None:
    """Write a panel's title so many points above it, its texts in as few lines as they fit into."""
    width, columns = axes.figure.bbox.width / axes.figure.dpi, _grid_of(axes).ncols
    points = LABEL_POINTS if width >= HALF_INCHES else SMALL_POINTS
    room = width if columns == 1 else width / columns - BESIDE_INCHES
    lines = wrap_texts(texts, points, room, bold=True)
    place: Style = {"x": 0, "ha": "left", "pad": above + 3, "linespacing": 1.15}
    axes.set_title("\n".join(lines), fontsize=points, **place)


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
    return axes.annotate(
        text, at, xycoords=coords, xytext=offset, textcoords="offset points", **style
    )


def name_rows(
    axes: Axes,
    names: Sequence[str],
    places: Iterable[float] = (),
    end: float = 0.0,
    looks: Mapping[str, Look] | None = None,
) -> None:
    """Write each row's name beside a panel; the rows end at `end`, from zero.

    Without places, each is as high as 1. With `looks`, the names of implementations are bold and in
    their colours.
    """
    axes.set_yticks([*places] or [row + 0.5 for row in range(len(names))], names)
    for name, mark in zip(names, axes.yaxis.get_major_ticks(), strict=True):
        if looks:
            mark.label1.set(color=looks[name].text, fontweight="bold")
    axes.set_ylim(end or len(names), 0)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def handle(label: str, implementation: str = "", **style: Any) -> Line2D:
    """An entry of a legend, of an implementation if it has a name."""
    line = Line2D([], [], label=label, **style)
    if implementation:
        name_artists(implementation, [line])
    return line


def draw_legend(figure: Figure, handles: Sequence[Artist], columns: int | None = None) -> None:
    """A legend below a figure's panels, in as many columns as fit by default."""
    if not handles:
        return
    width = figure.get_figwidth()
    for entry in handles:
        beside = width - LEGEND_HANDLE_INCHES
        entry.set_label("\n".join(wrap_texts([str(entry.get_label())], SMALL_POINTS, beside)))
    widest = max(text_inches(str(entry.get_label()), SMALL_POINTS) for entry in handles)
    most = max(1, int(width / (widest + LEGEND_HANDLE_INCHES)))
    columns = columns or min(len(handles), most)
    handles = [each for first in range(columns) for each in handles[first::columns]]  # by rows
    legend = figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)
    drawn = zip(handles, legend.legend_handles, legend.get_texts(), strict=True)
    for entry, sample, text in drawn:
        text.set_gid(entry.get_gid())
        if sample is not None:
            sample.set_gid(entry.get_gid())


# Axes of values


def scale_linearly(axis: Axis, most: int) -> None:
    """Give an axis at most so many round numbers, or one more."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(tick))


def scale_logarithmically(axis: Axis, low: float, high: float, most: int) -> None:
    """Make an axis logarithmic, with as many round numbers as there is room for.

    These are 1, 2 and 5, or 1 and 3, in each decade, or powers of ten.
    """
    if high / low < LEAST_SPAN:  # else nearly equal values would look far apart
        centre = math.sqrt(low * high)
        low, high = centre / math.sqrt(LEAST_SPAN), centre * math.sqrt(LEAST_SPAN)
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    decades = math.log10(high / low)
    digits = next((d for d in ((1, 2, 5), (1, 3)) if decades * len(d) <= most), (1,))
    axis.set_major_locator(LogLocator(subs=digits, numticks=max(3, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(tick))


# The SVG


def name_artists(implementation: str, drawn: Iterable[Artist]) -> None:
    """Name an implementation's artists; `save` numbers the names."""
    for artist in drawn:
        artist.set_gid(f"implementation:{implementation}")


@cache
def _add_fonts() -> None:
    for path in sorted(FONTS.glob("NotoSansTC-*.ttf")):
        font_manager.fontManager.addfont(path)


@contextmanager
def _texts_laid_out_once() -> Iterator[None]:
    """Keep the layout of each text, which Matplotlib makes anew whenever its size is asked for.

    It follows from the words and their properties alone, wherever they stand.
    """
    lay_out_text, known = Text._get_layout, {}  # type: ignore[attr-defined]

    def layout(text: Text, renderer: Any) -> Any:
        figure = text.get_figure(root=True)
        assert figure is not None and not text.get_wrap()
        key = (
            *(text.get_text(), hash(text.get_fontproperties()), figure.dpi, text.get_rotation()),
            *(text.get_horizontalalignment(), text.get_verticalalignment()),
            *(text._multialignment, text._linespacing),  # type: ignore[attr-defined]
            *(text.get_rotation_mode(), text.get_parse_math(), text.get_usetex()),
        )
        if key not in known:
            known[key] = lay_out_text(text, renderer)
        return known[key]

    Text._get_layout = layout  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Text._get_layout = lay_out_text  # type: ignore[attr-defined]


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the report's style; a character that the vendored fonts lack is an error."""
    _add_fonts()
    with warnings.catch_warnings(), plt.rc_context(STYLE), _texts_laid_out_once():
        warnings.filterwarnings("error", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("error", message=".*findfont.*")
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, atomically and without a date, and close it."""
    for number, artist in enumerate(figure.findobj(lambda artist: bool(artist.get_gid()))):
        artist.set_gid(f"{artist.get_gid()}:{number}")
    with open_atomically(path) as file:
        # `savefig` would draw it once more before, to lay it out.
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(file, metadata={"Date": None})  # type: ignore[no-untyped-call]
    plt.close(figure)
