"""The commands that draw figures."""

from __future__ import annotations

from pathlib import Path

from flashlab.cli import Command, option, path, paths

COMMANDS = (
    Command(
        "figures",
        "flashlab.figures.stage:draw_figures",
        "Draw an experiment's figures as SVG.",
        (
            path("--plan", "plan/experiments/<experiment>.json"),
            path("--tables", "folder of all CSV tables"),
            path("--languages", "languages.json"),
            path("--output", "folder to draw into"),
        ),
        tells_made=True,
    ),
    Command(
        "overview",
        "flashlab.figures.stage:draw_overview",
        "Draw the figures across experiments as SVG.",
        (
            paths("plans", "plan/sweeps/*.json"),
            path("--tables", "folder of all tables"),
            path("--comparisons", "comparisons.csv"),
            option("--ceilings", type=Path, help="the device's ceilings, if measured"),
            path("--languages", "languages.json"),
            path("--output", "folder to draw into"),
        ),
        tells_made=True,
    ),
)
