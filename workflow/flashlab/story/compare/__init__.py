"""The story of a comparison of two datasets or revisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flashlab.story.compare.besides import (
    answer_ended,
    by_pass,
    flat,
    footnote_doubts,
    footnote_missing,
    surprise,
)
from flashlab.story.compare.gain import (
    answer_gain,
    answer_other,
    answer_ranking,
    answer_use,
    answer_why,
)
from flashlab.story.compare.table import Compared
from flashlab.story.observation import Observation

STORY: tuple[Callable[[Compared], Observation | None], ...] = (
    *(answer_gain, answer_ended, answer_other, answer_why, answer_use, answer_ranking),
    *(by_pass, flat, surprise, footnote_doubts, footnote_missing),
)
"""The observations of a comparison, in its order."""


def story(compared: Compared) -> Iterator[Observation]:
    """The observations of a comparison, in its order."""
    return filter(None, (observe(compared) for observe in STORY))
