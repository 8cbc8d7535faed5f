"""Which sentences a report on attention says, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flashlab.analysis.frames import Dataset, Sweep
from flashlab.story.attention import time
from flashlab.story.observation import Observation

SWEEP: tuple[Callable[[Sweep], Observation | None], ...] = (time.time, time.leaders)
"""The kinds of sentences of an experiment's paragraph."""


def observations(data: Dataset) -> list[Observation]:
    """All that a report says of a dataset, in its order."""
    return [*_sections(data)]


def _sections(data: Dataset) -> Iterator[Observation]:
    for sweep in data.sweeps:
        found = (kind(sweep) for kind in SWEEP)
        yield from (each for each in found if each is not None)
