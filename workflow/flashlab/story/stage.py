"""From the tables of a dataset to what its report says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashlab.analysis.frames import read_dataset
from flashlab.story.observation import write_observations
from flashlab.story.registry import STORIES


def observe(
    plan_files: Sequence[Path], tables: Path, ceilings_file: Path | None, output: Path
) -> None:
    """Write observations.json of the planned experiments.

    Args:
        plan_files: of the experiments, in the report's order.
        tables: the folder of their tables, beside which are the dataset's.
        ceilings_file: the device's ceilings, None where none were measured.
        output: the file.
    """
    data = read_dataset(plan_files, tables, ceilings_file)
    story = STORIES.get(data.benchmark.name)
    write_observations(list(story(data)) if story else [], output)
