"""The figures across experiments: page one's summary, heat maps and rooflines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from flashlab.analysis.experiment import read_sweep
from flashlab.analysis.finding import read_findings
from flashlab.figures.comparisons import compare
from flashlab.figures.heat_map import draw_heat_map, heat_map_pages
from flashlab.figures.roofline import draw_rooflines, read_roofs
from flashlab.figures.steps import draw_split, draw_steps
from flashlab.figures.style import drawing, save
from flashlab.figures.summary import draw_summary, emphasised_in
from flashlab.files import read_json, write_json
from flashlab.telling.glyphs import legible_plan

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

    Without any result there is no summary (``summary``); a heat map (``heat-map-1``, …) is drawn
    from `HEAT_MAP_IMPLEMENTATIONS` compared implementations on, and continued where a page is full,
    or where implementations are steps, bar charts of them (``steps``, unless a simulator ran them)
    and of where a time goes (``split``); a roofline (``roofline-float16``, …) where ceilings were
    measured. In colour are the implementations that page one's findings name, the baseline and the
    headline's.
    """
    languages = read_json(languages_file)
    findings = read_findings(findings_file)
    ceilings = read_json(ceilings_file) if ceilings_file else None
    sweeps = [
        sweep
        for path in plan_files
        if not (sweep := read_sweep(legible_plan(read_json(path)), tables)).is_of_claims
    ]
    swept = [sweep for sweep in sweeps if not sweep.is_summary]
    emphasised = emphasised_in(sweeps, findings)
    compared = compare(sweeps, findings)
    with drawing():
        figures: list[tuple[str, Figure]] = []
        dtypes = {row["dtype"] for sweep in swept for row in sweep.runs}
        roofs = read_roofs(ceilings, dtypes.pop()) if ceilings and len(dtypes) == 1 else None
        summary = draw_summary(swept, findings, emphasised, roofs, languages) if swept else None
        if summary:
            figures.append(("summary", summary))
        alternatives = any(sweep.has_alternatives for sweep in swept)
        if ladder := next((sweep for sweep in swept if sweep.steps), None):
            if not ladder.is_simulated:
                figures.append(("steps", draw_steps(ladder, findings, languages)))
            if split := draw_split(ladder, languages):
                figures.append(("split", split))
        elif len(compared.entries) >= HEAT_MAP_IMPLEMENTATIONS and not alternatives:
            for number, page in enumerate(heat_map_pages(compared), start=1):
                heat_map = draw_heat_map(compared, page, languages)
                figures.append((f"heat-map-{number}", heat_map))
        if ceilings:
            figures += draw_rooflines(sweeps, ceilings, emphasised, languages)
        for name, figure in figures:
            save(figure, output / f"{name}.svg")
    write_json(output / "drawn.json", [name for name, _ in figures])
