"""The commands of the analysis: tables, observations, and which verdicts have changed."""

from __future__ import annotations

from pathlib import Path

from flashlab.cli import Command, option, path, paths


def _verdicts(results: Path) -> None:
    from flashlab.analysis.verdict_changes import CHANGED, compare_verdicts

    for line in compare_verdicts(results):
        print(f"{CHANGED}{line}")


COMMANDS = (
    Command(
        "tables",
        "flashlab.analysis.tables:write_tables",
        "Aggregate an experiment's records into CSV.",
        (
            path("--plan", "plan/records/<experiment>.json"),
            path("--output", "folder to write into"),
            option("--ceilings", type=Path, help="the device's ceilings, if measured"),
        ),
        tells_made=True,
    ),
    Command(
        "observations",
        "flashlab.story.stage:observe",
        "Compare all runs, judge the published claims, and observe what the report says.",
        (
            paths("plans", "plan/sweeps/*.json"),
            path("--tables", "folder of all tables"),
            path("--claims", "the published claims"),
            option("--ceilings", type=Path, help="the device's ceilings, if measured"),
            path("--output", "observations.json to write, with the tables beside it"),
        ),
        tells_made=True,
        beside=("comparisons.csv", "claims.csv"),
    ),
    Command(
        "verdicts",
        _verdicts,
        "Say which verdicts differ from the report before.",
        (path("--results", "folder of the dataset"),),
    ),
)
