"""Which benchmarks have a story, and what it observes of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flashlab.analysis.frames import Dataset
from flashlab.story import ladder, training
from flashlab.story.attention import sentences
from flashlab.story.observation import Observation

STORIES: Mapping[str, Callable[[Dataset], Iterable[Observation]]] = {
    "attention": sentences.observations,
    "ladder": ladder.story,
    "training": training.story,
}
"""By the name of the benchmark. A report of another one has its tables and figures alone."""
