"""From the tables of a dataset to what its report says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.story import ladder, training
from flashlab.story.attention import sentences
from flashlab.story.observation import Observation, write_observations

STORIES: Mapping[str, Callable[[Dataset], Iterable[Observation]]] = {
    "attention": sentences.observations,
    "ladder": ladder.story,
    "training": training.story,
}
"""What is observed of a dataset, by its benchmark. Another one's report has no sentences."""


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
