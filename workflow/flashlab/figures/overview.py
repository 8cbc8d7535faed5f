"""The figures across experiments: page one's summary, heat maps and rooflines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from flashlab.figures.comparisons import compare
from flashlab.figures.heat_map import draw_heat_map, heat_map_pages
from flashlab.figures.roofline import draw_rooflines
from flashlab.figures.style import drawing, save
from flashlab.figures.summary import draw_summary
from flashlab.files import read_json, write_json
from flashlab.findings.model import read_findings
from flashlab.glyphs import legible_plan
from flashlab.sweep import read_sweep

HEAT_MAP_IMPLEMENTATIONS = 3
"""From how many compared implementations on a heat map says more than lines."""


def draw_overview(
    plan_files: Sequence[Path],
    tables: Path,
    findings_file: Path,
    ceilings_file: Path | None,
    languages_file: Path,
    output: Path,
) -> None:
    """Draw the overview's figures into `output`, and ``drawn.json``, the list of their ids.

    Without a ratio to a baseline there is no summary (``summary``); a heat map (``heat-map-1``, …)
    is drawn from `HEAT_MAP_IMPLEMENTATIONS` compared implementations on, and continued where a page
    is full; a roofline (``roofline-float16``, …) where the device's ceilings were measured. The
    report shows each of them.
    """
    languages = read_json(languages_file)
    sweeps = [
        sweep
        for path in plan_files
        if not (sweep := read_sweep(legible_plan(read_json(path)), tables)).is_of_claims
    ]
    compared = compare(sweeps, read_findings(findings_file))
    with drawing():
        figures: list[tuple[str, Figure]] = []
        if len(compared.data) and compared.data["ratio"].notna().any():
            figures.append(("summary", draw_summary(compared, languages)))
        if len(compared.entries) >= HEAT_MAP_IMPLEMENTATIONS:
            for number, page in enumerate(heat_map_pages(compared), start=1):
                heat_map = draw_heat_map(compared, page, languages)
                figures.append((f"heat-map-{number}", heat_map))
        if ceilings_file:
            figures += draw_rooflines(sweeps, read_json(ceilings_file), languages)
        for name, figure in figures:
            save(figure, output / f"{name}.svg")
    write_json(output / "drawn.json", [name for name, _ in figures])
