"""The words for verdicts that comparisons and benches share."""

from __future__ import annotations

from flashlab.benchmarks.model import Metric
from flashlab.labels import message
from flashlab.story.compare import TIMES

EQUAL, INCONCLUSIVE = "equal", "inconclusive"
FAILED, MENDED = "failed", "mended"
LOSSES, GAINS = ("slower", "worse"), ("faster", "better")
STATED = (FAILED, *LOSSES, MENDED, *GAINS)
"""The words that state a difference, the most pressing first: ``failed`` is a run that had a result
on the first side alone."""


def verdict_word(verdict: str, metric: Metric) -> str:
    """The word for a verdict on a metric: faster or slower for times, else better or worse.

    A verdict that states no difference is its own word.
    """
    if verdict in (EQUAL, INCONCLUSIVE):
        return verdict
    gained = (verdict == "above") == metric.higher_is_better
    return (GAINS if gained else LOSSES)[0 if metric.unit in TIMES else 1]


def say(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in. The words of verdicts are keys."""
    return message(language, "compare", key).format_map(params)
