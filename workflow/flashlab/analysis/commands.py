"""The commands of the analysis: tables, observations, and which verdicts have changed."""

from __future__ import annotations

from pathlib import Path

from flashlab.analysis.experiment import OF_DATASET
from flashlab.cli import Command, option, path, paths


def _verdicts(results: Path) -> None:
    from flashlab.analysis.verdict_changes import CHANGED, compare_verdicts

    for line in compare_verdicts(results):
        print(f"{CHANGED}{line}")


COMMANDS = (
    Command(
        "tables",
        "flashlab.analysis.stage:make_tables",
        "Aggregate the records of a dataset into CSV, compare all runs, and judge the claims.",
        (
            path("--results", "folder of the dataset, with its plan"),
            path("--claims", "the published claims"),
            option("--ceilings", type=Path, help="the device's ceilings, if measured"),
            path("--output", "folder of all tables, with those of the dataset beside it"),
        ),
        tells_made=True,
        beside=OF_DATASET,
    ),
    Command(
        "observations",
        "flashlab.story.stage:observe",
        "Observe what the report says.",
        (
            paths("plans", "plan/sweeps/*.json"),
            path("--tables", "folder of all tables"),
            path("--claims", "the published claims"),
            option("--ceilings", type=Path, help="the device's ceilings, if measured"),
            path("--output", "observations.json to write"),
        ),
        tells_made=True,
    ),
    Command(
        "verdicts",
        _verdicts,
        "Say which verdicts differ from the report before.",
        (path("--results", "folder of the dataset"),),
    ),
)
