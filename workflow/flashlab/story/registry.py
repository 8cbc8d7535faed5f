"""Which benchmarks have a story, and what it observes of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from flashlab.story import attention
from flashlab.story.observation import Observation
from flashlab.story.tables import Tables

STORIES: Mapping[str, Callable[[Tables], Iterator[Observation]]] = {"attention": attention.story}
"""By the name of the benchmark. A report of another one has its tables and figures alone."""


def observations(tables: Tables) -> list[Observation]:
    """What the report of a dataset says, in its order; nothing of times that a simulator took."""
    story = STORIES.get(tables.benchmark.name)
    simulated = any(experiment.is_simulated for experiment in tables.experiments)
    return [] if story is None or simulated else list(story(tables))
