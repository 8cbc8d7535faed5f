"""The commands that render the report."""

from __future__ import annotations

from pathlib import Path

from flashlab.cli import LANGUAGE, Command, option, path

RENDERED = (
    path("--config", "the resolved configuration"),
    path("--results", "folder of the dataset"),
    option("--ceilings", type=Path, help="the device's ceilings, if measured"),
)

COMMANDS = (
    Command(
        "report",
        "flashlab.report.render:write_report",
        "Render the report as a PDF.",
        (*RENDERED, path("--output", "PDF to write")),
    ),
    Command(
        "page",
        "flashlab.report.render:write_page",
        "Write the report as one HTML file.",
        (*RENDERED, path("--output", "HTML file to write")),
    ),
    Command(
        "statements",
        "flashlab.report.evidence:print_statements",
        "Print every statement of a report with the rows that it rests on.",
        (option("results", type=Path, help="folder of the dataset: results/NAME"), LANGUAGE),
    ),
)
