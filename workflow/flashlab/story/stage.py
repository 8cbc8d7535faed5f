"""From the tables of a dataset to what its report says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from flashlab.analysis.frames import Dataset, read_dataset
from flashlab.files import write_json
from flashlab.story import ladder, training
from flashlab.story.attention import sentences
from flashlab.story.observation import Observation

STORIES: Mapping[str, Callable[[Dataset], Iterable[Observation]]] = {
    "attention": sentences.observations,
    "ladder": ladder.story,
    "training": training.story,
}
"""What is observed of a dataset, by its benchmark. Another one's report has no sentences."""


def observe(results: Path, ceilings_file: Path | None, output: Path) -> None:
    """Write observations.json of the planned experiments.

    Args:
        results: the dataset's folder, with its plan and tables.
        ceilings_file: the device's ceilings, None where none were measured.
        output: the file.
    """
    data = read_dataset(results, ceilings_file)
    story = STORIES.get(data.benchmark.name)
    write_json(output, [each.to_json() for each in (story(data) if story else ())])
