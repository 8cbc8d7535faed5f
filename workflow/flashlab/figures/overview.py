"""The figures across experiments: page one's summary, and the heat map where it is useful.

Both are drawn from the findings, so that they show the very ratios that the sentences give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flashlab.catalogs import SYMBOLS, in_all
from flashlab.figures.heat_map import draw_heat_map, heat_map_pages
from flashlab.figures.panels import Panel, all_compared, panels_of
from flashlab.figures.roofline import draw_roofline, read_roofs
from flashlab.figures.style import (
    GREY,
    LABEL_POINTS,
    PAGE_INCHES,
    as_number,
    colour,
    drawing,
    implementation_id,
    marker,
    save,
)
from flashlab.glyphs import legible_plan
from flashlab.records import write_json
from flashlab.tables import read_csv

SUMMARY_PANELS = 5
"""Experiments that the summary figure shows: the first ones, as many as are legible on A4."""

HEAT_MAP_IMPLEMENTATIONS = 3
"""From how many compared implementations on a heat map says more than lines."""

LEGEND_COLUMNS = 5
LEGEND_INCHES = 0.15
MARGIN = 0.05
SMALL = LABEL_POINTS - 1.5


def _label(entry: Mapping[str, Any], languages: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(entry["label"][language] for language in languages))


# The summary


def _draw_ratios(axes: Axes, panel: Panel, kind: str, timed: str) -> None:
    """Ratios of every implementation in one panel: full solid, causal beside full dashed."""
    for entry in panel.compared:
        for mask in panel.masks:
            estimates = panel.ratios(kind, entry["name"], timed, mask)
            if not estimates:
                continue
            x = [e["value"] for e in estimates]
            y = [e["estimate"] for e in estimates]
            shade = colour(entry["style"])
            drawn: list[Any] = axes.plot(
                x,
                y,
                color=shade,
                linestyle="--" if mask == "causal" and len(panel.masks) > 1 else "-",
                linewidth=1.1,
                marker=marker(entry["style"]),
                markersize=3.6,
                markeredgecolor="white",
                markeredgewidth=0.4,
            )
            bounded = [e for e in estimates if e.get("low") is not None]
            if bounded:
                bars = axes.vlines(
                    [e["value"] for e in bounded],
                    [e["low"] for e in bounded],
                    [e["high"] for e in bounded],
                    color=shade,
                    linewidth=0.9,
                )
                drawn.append(bars)
            implementation_id(axes, entry["name"], drawn)


def _scale_ratio(axes: Axes) -> None:
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=5))
    axes.yaxis.set_major_formatter(FuncFormatter(as_number))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhspan(1 - MARGIN, 1 + MARGIN, color="#DDDDDD", linewidth=0, zorder=0.5)
    axes.axhline(1, color=GREY, linewidth=0.7, zorder=0.6)


def _share_range(row: Sequence[Axes]) -> None:
    """One range for the panels of a row, with room, and 1 in it."""
    lows, highs = zip(*(axes.get_ylim() for axes in row), strict=True)
    low, high = min(*lows, 0.9), max(*highs, 1.1)
    for axes in row:
        axes.set_ylim(low / 1.08, high * 1.08)


def draw_summary(panels: Sequence[Panel], languages: Sequence[str]) -> Figure:
    """Speed and memory against the baseline: a column an experiment, a row a quantity."""
    shown = panels[:SUMMARY_PANELS]
    rows = [("speedup", "forward"), ("speedup", "backward"), ("memory_ratio", "")]
    handles = _handles(shown, languages)
    height = 2.73 + LEGEND_INCHES * math.ceil(len(handles) / LEGEND_COLUMNS)
    figure, grid = plt.subplots(
        len(rows), len(shown), figsize=(PAGE_INCHES, height), squeeze=False, sharex="col"
    )
    titles = max(len(languages), 1)
    figure.subplots_adjust(
        left=0.62 / PAGE_INCHES,
        right=1 - 0.08 / PAGE_INCHES,
        bottom=(height - 2.4) / height,
        top=1 - (0.1 + 0.14 * titles) / height,
        wspace=0.1,
        hspace=0.16,
    )
    for row, (kind, timed) in zip(grid, rows, strict=True):
        for axes, panel in zip(row, shown, strict=True):
            _draw_ratios(axes, panel, kind, timed)
            axes.set_xscale("log", base=2)
            axes.set_xticks(panel.values, [str(value) for value in panel.values])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.tick_params(labelsize=SMALL - 0.5, pad=1.5)
            axes.margins(x=0.12)
            _scale_ratio(axes)
        _share_range(row)
        for axes in row[1:]:
            axes.tick_params(labelleft=False)
        quantity = timed or "memory"
        row[0].set_ylabel(in_all(languages, "figures", quantity, "\n"), fontsize=SMALL + 0.5)
    for axes, panel in zip(grid[0], shown, strict=True):
        title = "\n".join(dict.fromkeys(panel.plan["title"][language] for language in languages))
        axes.set_title(title, fontsize=SMALL + 0.5, linespacing=1.1, pad=3)
    for axes, panel in zip(grid[-1], shown, strict=True):
        axes.set_xlabel(SYMBOLS[panel.sweep], fontsize=SMALL + 0.5, labelpad=1)
    _legend(figure, handles)
    return figure


def _handles(panels: Sequence[Panel], languages: Sequence[str]) -> list[Line2D]:
    """The legend's entries: the implementations, and the masks where both were measured."""
    handles = [
        Line2D(
            [],
            [],
            color=colour(entry["style"]),
            marker=marker(entry["style"]),
            markersize=4,
            linewidth=1.2,
            label=_label(entry, languages),
        )
        for entry in all_compared(panels)
    ]
    if any(len(panel.masks) > 1 for panel in panels):
        handles += [
            Line2D([], [], color=GREY, linestyle="-", label=in_all(languages, "figures", "full")),
            Line2D(
                [], [], color=GREY, linestyle="--", label=in_all(languages, "figures", "causal")
            ),
        ]
    return handles


def _legend(figure: Figure, handles: list[Line2D]) -> None:
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=min(len(handles), LEGEND_COLUMNS),
        frameon=False,
        fontsize=SMALL,
        handlelength=1.8,
        columnspacing=1.2,
        borderpad=0,
        borderaxespad=0.2,
    )


# All of them


def _passes(plans: Sequence[Mapping[str, Any]], tables: Path) -> list[dict[str, Any]]:
    """The rows of every experiment's table of passes."""
    return [row for plan in plans for row in read_csv(tables / plan["name"] / "passes.csv")]


def _draw_rooflines(
    plans: Sequence[Mapping[str, Any]],
    tables: Path,
    ceilings: Mapping[str, Any],
    languages: Sequence[str],
) -> Iterator[tuple[str, Figure]]:
    """The roofline of each dtype that has ceilings, which is hardly ever more than one."""
    passes = _passes(plans, tables)
    by_name = {entry["name"]: entry for plan in plans for entry in plan["implementations"]}
    implementations = sorted(by_name.values(), key=lambda entry: entry["style"])
    for dtype in sorted({row["dtype"] for row in passes}):
        roofs = read_roofs(ceilings, dtype)
        if roofs:
            mine = [row for row in passes if row["dtype"] == dtype]
            yield f"roofline-{dtype}", draw_roofline(mine, implementations, roofs, languages)


def draw_overview(
    plan_files: Sequence[Path],
    tables: Path,
    findings_file: Path,
    ceilings_file: Path | None,
    languages_file: Path,
    output: Path,
) -> None:
    """Draw the overview's figures into `output`, and ``drawn.json``, the list of their ids.

    Without a ratio to a baseline there is no summary; a heat map is drawn from
    `HEAT_MAP_IMPLEMENTATIONS` compared implementations on, and continued where a page is full; a
    roofline where the device's ceilings were measured.
    """
    languages = json.loads(languages_file.read_text(encoding="utf-8"))
    plans = [legible_plan(json.loads(path.read_text(encoding="utf-8"))) for path in plan_files]
    panels = panels_of(plans, json.loads(findings_file.read_text(encoding="utf-8")))
    drawn = []
    with drawing():
        figures: list[tuple[str, Figure]] = []
        if compared := [panel for panel in panels if panel.has_ratios]:
            figures.append(("summary", draw_summary(compared, languages)))
        implementations = all_compared(panels)
        if len(implementations) >= HEAT_MAP_IMPLEMENTATIONS:
            for number, rows in enumerate(heat_map_pages(panels), start=1):
                heat_map = draw_heat_map(rows, implementations, languages)
                figures.append((f"heat-map-{number}", heat_map))
        if ceilings_file:
            ceilings = json.loads(ceilings_file.read_text(encoding="utf-8"))
            figures += _draw_rooflines(plans, tables, ceilings, languages)
        for name, figure in figures:
            save(figure, output / f"{name}.svg")
            drawn.append(name)
    write_json(output / "drawn.json", drawn)
