"""Page one's figure: two rates and peak memory, the implementations that page one names in colour.

The others are in grey, and named in a legend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flashlab.analysis.experiment import Row, Sweep, Variant, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.figures.labels import label_briefly, label_fixed, title_lines
from flashlab.figures.lines import (
    LINE_POINTS,
    MARK_POINTS,
    MOST_LINES,
    draw_lines,
    gutter_inches,
    label_ends,
    line_frame,
    mark_failures,
    with_levels,
    write_title,
)
from flashlab.figures.placement import POINTS
from flashlab.figures.roofline import Roofs
from flashlab.figures.style import (
    FAINT,
    GREY,
    LABEL_POINTS,
    PAGE_INCHES,
    SMALL_POINTS,
    as_number,
    draw_legend,
    facet_grid,
    marker,
    scale_sizes,
    scale_values,
    shades_of,
    tick_inches,
)
from flashlab.telling.catalogs import in_all
from flashlab.telling.values import to_json

HEIGHT_INCHES = 46 / 25.4
LEAST_PANEL_INCHES = 0.75

GAP_INCHES = 0.08
"""Between the labels of a panel and the next panel."""

FROM_CEILING = 5
"""A ceiling is drawn where the best rate is at least one part in so many of it."""

RATE_UNIT = "TFLOP/s"
"""The unit of the rates that a matrix product is a ceiling of."""

CEILING_SHARE = 0.86
"""How high in its panel a ceiling stands, below its label."""


@dataclass(frozen=True)
class Chain:
    """Sweeps of one parameter that go on from one another, in one variant each.

    Two are joined where the last runs of the one are the first runs of the other.
    """

    links: tuple[tuple[Sweep, Variant], ...]

    @property
    def values(self) -> list[int]:
        """The values of the parameter, each once."""
        return sorted({value for sweep, _ in self.links for value in sweep.values})

    @property
    def implementations(self) -> list[str]:
        """The implementations of all its sweeps."""
        names = (name for sweep, _ in self.links for name in sweep.implementations)
        return list(dict.fromkeys(names))

    @property
    def joined(self) -> Sweep:
        """One sweep of all the runs."""
        first, variants = self.links[0][0], [variant for _, variant in self.links]
        entries = {e["name"]: e for sweep, _ in self.links for e in sweep.plan["implementations"]}

        def rows(table: str) -> list[Row]:
            found: dict[Any, Row] = {}
            for (sweep, _), variant in zip(self.links, variants, strict=True):
                for row in getattr(sweep, table):
                    if sweep.variant_of(row) == variant:
                        found.setdefault((*sweep.key_of(row), row.get("metric")), row)
            return list(found.values())

        plan = {**first.plan, "implementations": list(entries.values())}
        return Sweep(plan, first.benchmark, rows("runs"), rows("metrics"))


def _ends(sweep: Sweep, variant: Variant, value: int) -> set[tuple[Any, ...]]:
    rows = (sweep.run_at(name, variant, value) for name in sweep.implementations)
    return {sweep.key_of(row) for row in rows if row}


def chains(sweeps: Sequence[Sweep]) -> list[Chain]:
    """Every chain of these sweeps, one beginning at each of their variants."""
    series = [(sweep, variant) for sweep in sweeps for variant in sweep.variants]
    found = []
    for first in series:
        links = [first]
        while following := _following(links[-1], series):
            links.append(following)
        found.append(Chain(tuple(links)))
    return found


def _following(
    link: tuple[Sweep, Variant], series: Sequence[tuple[Sweep, Variant]]
) -> tuple[Sweep, Variant] | None:
    """The series that goes on where a link ends, if any does."""
    sweep, variant = link
    end = _ends(sweep, variant, sweep.values[-1])
    for other, of in series:
        goes_on = other.plan["sweep"] == sweep.plan["sweep"] and other.values[0] == sweep.values[-1]
        if goes_on and len(other.values) > 1 and end & _ends(other, of, other.values[0]):
            return other, of
    return None


def longest(found: Sequence[Chain]) -> Chain:
    """The chain with the most implementations, then values; the first of several."""
    return max(found, key=lambda chain: (len(chain.implementations), len(chain.values)))


def shown_metrics(benchmark: Benchmark) -> list[Metric]:
    """The parts of a sampled quantity of which more is better, or else of the first one."""
    sampled = [quantity for quantity in benchmark.quantities.values() if not quantity.exact]
    if not sampled:
        return []
    higher = [quantity for quantity in sampled if quantity.better == "higher"]
    return list(benchmark.panels((higher or sampled)[0].name))[:2]


def _strings(params: Any) -> Iterator[str]:
    """Every string within JSON values, in their order."""
    if isinstance(params, str):
        yield params
    elif isinstance(params, Mapping):
        for value in params.values():
            yield from _strings(value)
    elif isinstance(params, list):
        for value in params:
            yield from _strings(value)


def named_on_page_one(findings: Sequence[Finding], names: Collection[str]) -> list[str]:
    """Those of the implementations that the findings of page one are about or name, in order."""
    front = sorted((f for f in findings if f.rank is not None), key=lambda f: f.rank or 0)
    told = (
        each
        for f in front
        for each in (*sorted(f.implementations), *_strings(to_json([f.statements, f.facts])))
    )
    return [name for name in dict.fromkeys(told) if name in names]


def emphasised_in(sweeps: Sequence[Sweep], findings: Sequence[Finding]) -> list[str]:
    """What to draw in colour: the baseline, the headline's, and what page one's findings name."""
    baselines = [sweep.baseline for sweep in sweeps]
    headline = [name for sweep in sweeps if sweep.is_summary for name in sweep.implementations]
    names = {name for sweep in sweeps for name in sweep.implementations}
    return list(dict.fromkeys([*baselines, *headline, *named_on_page_one(findings, names)]))


def _out_of_memory(sweeps: Sequence[Sweep], findings: Sequence[Finding]) -> Chain | None:
    """The sweep in which something runs out of memory: what page one names comes first."""
    limits = [f for f in findings if f.kind == "out_of_memory" and f.facts.get("failed")]
    by_name = {sweep.name: sweep for sweep in sweeps}
    for finding in sorted(limits, key=lambda f: (f.rank is None, f.rank or 0)):
        sweep = by_name.get(str(finding.experiment))
        if sweep and finding.variant in sweep.variants:
            return Chain(((sweep, finding.variant or ()),))
    return None


def _draw_ceiling(
    axes: Axes, best: float, unit: str, roofs: Roofs | None, languages: Sequence[str]
) -> None:
    """The matrix product's rate as a band down to what it fell to under load, labelled above it.

    It is left out where the best rate is far below, or in another unit.
    """
    if roofs is None or unit != RATE_UNIT:
        return
    high = roofs.matrix_product / 1e12
    low = high if roofs.sustained is None else roofs.sustained / 1e12
    if best * FROM_CEILING < high:
        return
    axes.axhspan(low, high, color="#DADADA", linewidth=0.8, zorder=0.6)
    axes.set_ylim(0, high / CEILING_SHARE)
    rates = f"{high:,.3g}" if low == high else f"{low:,.3g}–{high:,.3g}"
    _label_above(axes, high, f"{in_all(languages, 'figures', 'matrix_product')} {rates}")


def _draw_capacity(axes: Axes, capacity: float, languages: Sequence[str]) -> None:
    """How much the device holds, as a line with its label above it."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, capacity) * (high / low) ** 0.16)
    axes.axhline(capacity, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=0.8)
    text = f"{in_all(languages, 'figures', 'capacity')} {as_number(round(capacity))}"
    _label_above(axes, capacity, text)


def _label_above(axes: Axes, value: float, text: str) -> None:
    """A text just above a horizontal line, at its left end."""
    axes.annotate(
        text,
        (0.02, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 0.5),
        textcoords="offset points",
        va="bottom",
        fontsize=SMALL_POINTS,
        color=GREY,
        zorder=1.5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},  # over the grid's lines
    )


def _handles(entries: Sequence[Any], shades: dict[str, str]) -> list[Line2D]:
    return [
        Line2D([], [], label=entry["name"], marker=marker(entry), color=FAINT, markersize=3)
        for entry in entries
        if shades[entry["name"]] == FAINT
    ]


def _failure_handles(statuses: Collection[str], languages: Sequence[str]) -> list[Line2D]:
    look: dict[str, Any] = {"marker": "x", "color": GREY, "linestyle": "none", "markersize": 3.5}
    return [
        Line2D([], [], label=in_all(languages, "figures", status), markeredgewidth=1, **look)
        for status in statuses
    ]


def draw_summary(
    sweeps: Sequence[Sweep],
    findings: Sequence[Finding],
    emphasised: Sequence[str],
    roofs: Roofs | None,
    languages: Sequence[str],
) -> Figure | None:
    """The rates along the longest sweep, and peak memory where something runs out of it.

    None where nothing is swept, or there is no result to draw.

    Args:
        sweeps: the experiments.
        findings: all findings.
        emphasised: the implementations in colour, the most important first.
        roofs: the ceilings of the rates, if they were measured.
        languages: of the texts.
    """
    along = longest(chains(sweeps))
    failing = _out_of_memory(sweeps, findings)
    benchmark = sweeps[0].benchmark
    panels = [(along, metric) for metric in shown_metrics(benchmark)]
    panels += [(failing or along, metric) for metric in metrics_of(benchmark, exact=True)[:1]]
    sources = [(chain.joined, metric) for chain, metric in panels]
    frames = []
    for number, (sweep, metric) in enumerate(sources):
        frame = line_frame(sweep, sweep.implementations, [metric], languages)
        frames.append(with_levels(frame).assign(panel=number))
    data = pd.concat(frames, ignore_index=True)
    if not data["value"].notna().any():
        return None
    entries = list({e["name"]: e for s, _ in sources for e in s.plan["implementations"]}.values())
    if len(entries) <= MOST_LINES:
        emphasised = [entry["name"] for entry in entries]
    shades = shades_of(entries, emphasised[:MOST_LINES])
    coloured = [name for name, shade in shades.items() if shade != FAINT]
    order = list(range(len(sources)))
    facets = {"col": "panel", "col_order": order, "sharex": False, "sharey": False}
    grid = facet_grid(data, entries, coloured, **facets)
    grid.map_dataframe(draw_lines)

    handles = _handles(entries, shades)
    statuses = [str(status) for status in data["status"].unique() if status != "ok"]
    handles += _failure_handles(statuses, languages)
    legend = draw_legend(grid.figure, handles, PAGE_INCHES)
    marks = [MARK_POINTS * int(frame["level"].nunique()) for frame in frames]
    head = (5 + LABEL_POINTS * 1.25 + LINE_POINTS) / POINTS
    below = (5 + 2 * LINE_POINTS) / POINTS + legend
    height = max(HEIGHT_INCHES - head, below + LEAST_PANEL_INCHES + max(marks) / POINTS) - below
    axes_of = list(grid.axes.flat)
    top = max((axes.get_ylim()[1] for axes in axes_of[: len(order) - 1]), default=1.0)
    for (sweep, metric), axes, number in zip(sources, axes_of, order, strict=True):
        own = data[data["panel"] == number]
        if not own["value"].notna().any():
            axes.set_yticks([])
            continue
        if not metric.exact and not metric.quantity.logarithmic:
            axes.set_ylim(0, top)
            _draw_ceiling(axes, own["value"].max(), metric.unit, roofs, languages)
        if metric.quantity.logarithmic:
            axes.set_yscale("log")
        if metric.account and "oom" in set(own["status"]):
            capacity = metric.account.capacity(sweep.device)
            if capacity:
                _draw_capacity(axes, capacity, languages)
        scale_values(axes, metric.quantity.logarithmic, height)
    lefts = [tick_inches(axes) + 6 / POINTS for axes in axes_of]
    right = gutter_inches(data[data["implementation"].isin(coloured)])
    gaps = GAP_INCHES * (len(order) - 1)
    width = (PAGE_INCHES - sum(lefts) - right * len(order) - gaps) / len(order)
    whole = height + below + head
    grid.figure.set_size_inches(PAGE_INCHES, whole)
    edges = [sum(lefts[:number]) + number * (width + right + GAP_INCHES) for number in order]
    for axes, left, edge, rows in zip(axes_of, lefts, edges, marks, strict=True):
        inches = (edge + left, below, width, height - rows / POINTS)
        extents = (PAGE_INCHES, whole, PAGE_INCHES, whole)
        axes.set_position([inch / extent for inch, extent in zip(inches, extents, strict=True)])
    for (sweep, metric), axes, number in zip(sources, axes_of, order, strict=True):
        own = data[data["panel"] == number]
        scale_sizes(axes, sweep.values, [str(value) for value in sweep.values])
        axes.set_xlabel(label_briefly(sweep), labelpad=1)
        mark_failures(axes, own, shades)
        label_ends(axes, own[own["implementation"].isin(coloured)], shades)
        edge, rows = edges[number] / PAGE_INCHES, marks[number]
        title = title_lines(metric, languages, PAGE_INCHES, LABEL_POINTS)
        write_title(axes, title, LABEL_POINTS, rows + 3 + LINE_POINTS, edge)
        axes.annotate(
            label_fixed(sweep, languages),
            (edge, 1.0),
            xycoords=("figure fraction", "axes fraction"),
            xytext=(0, rows + 3),
            textcoords="offset points",
            va="bottom",
            fontsize=SMALL_POINTS,
            color=GREY,
            annotation_clip=False,
        )
    figure: Figure = grid.figure
    return figure
