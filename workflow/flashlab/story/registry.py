"""Which benchmarks have a story, and what it observes of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from flashlab.story import attention, ladder, training
from flashlab.story.observation import Observation
from flashlab.story.tables import Tables

STORIES: Mapping[str, Callable[[Tables], Iterator[Observation]]] = {
    "attention": attention.story,
    "ladder": ladder.story,
    "training": training.story,
}
"""By the name of the benchmark. A report of another one has its tables and figures alone."""


def observations(tables: Tables) -> list[Observation]:
    """All observations of a dataset, in the report's order."""
    story = STORIES.get(tables.benchmark.name)
    return list(story(tables)) if story else []
