"""The tables of a planted report as its story reads them."""

from __future__ import annotations

from pathlib import Path

from planted.results import PlantedReport
from story.reading import tables_of

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.experiment import read_planned_experiment
from flashlab.files import read_json
from flashlab.plan.plan_files import experiment_file
from flashlab.story.tables import Tables


def tables_of_report(
    report: PlantedReport, folder: Path, ceilings: Ceilings | None = None
) -> Tables:
    """The tables that the stages make of planted records, in the report's order."""
    home = report.write(folder, drawn=[])
    names = ["summary", *(each["name"] for each in report.config["experiments"])]
    planned = set(read_json(home / "plan" / "experiments.json"))
    experiments = [
        read_planned_experiment(experiment_file(home, name), home / "tables", with_samples=True)
        for name in names
        if name in planned
    ]
    return tables_of(*experiments, ceilings=ceilings)
