"""The tables of a planted report as its story reads them."""

from __future__ import annotations

from pathlib import Path

from planted.results import PlantedReport

from flashlab.analysis.frames import Dataset, read_dataset


def dataset_of_report(report: PlantedReport, folder: Path, ceilings: Path | None = None) -> Dataset:
    """The same as frames."""
    report.tabulate(folder / "results")
    return dataset_of(folder / "results", ceilings)


def dataset_of(home: Path, ceilings: Path | None = None) -> Dataset:
    """The tables in a folder of results as frames."""
    return read_dataset(home, ceilings)
