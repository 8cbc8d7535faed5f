"""From the tables of a dataset to what its report says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.experiment import COMPARISONS, ESTIMATES, read_planned_experiment
from flashlab.analysis.frames import read_dataset
from flashlab.analysis.run_estimates import read_run_estimates
from flashlab.analysis.sittings import with_sittings
from flashlab.files import read_json
from flashlab.story import attention
from flashlab.story.observation import Observation, write_observations
from flashlab.story.registry import STORIES
from flashlab.story.tables import Tables


def read_tables(plan_files: Sequence[Path], tables: Path, ceilings_file: Path | None) -> Tables:
    """The tables of a dataset as its story reads them.

    Args:
        plan_files: of its experiments, in the report's order.
        tables: the folder of the experiments' tables, beside which are the dataset's.
        ceilings_file: the device's ceilings, None where none were measured.
    """
    every = with_sittings([read_planned_experiment(file, tables) for file in plan_files])
    estimates = read_run_estimates(tables.with_name(ESTIMATES), every[0].benchmark)
    ceilings = read_ceilings(read_json(ceilings_file)) if ceilings_file else None
    return Tables(
        [replace(experiment, runs=estimates.warned(experiment)) for experiment in every],
        read_comparisons(tables.with_name(COMPARISONS)),
        estimates,
        ceilings,
    )


def observe(
    plan_files: Sequence[Path], tables: Path, ceilings_file: Path | None, output: Path
) -> None:
    """Write observations.json of the planned experiments."""
    benchmark = read_json(plan_files[0])["benchmark"]
    told: Iterator[Observation] = iter(())
    if benchmark in STORIES:
        told = STORIES[benchmark](read_dataset(plan_files, tables, ceilings_file))
    elif benchmark == "attention":
        told = attention.story(read_tables(plan_files, tables, ceilings_file))
    write_observations([*told], output)
