"""The words for verdicts that comparisons and benches share."""

from __future__ import annotations

from flashlab.benchmarks.model import Metric
from flashlab.story.compare import TIMES

LOSSES, GAINS = ("slower", "worse"), ("faster", "better")


def verdict_word(verdict: str, metric: Metric) -> str:
    """The word for a verdict on a metric: faster or slower for times, else better or worse.

    A verdict that states no difference, equal or inconclusive, is its own word.
    """
    if verdict not in ("above", "below"):
        return verdict
    gained = (verdict == "above") == metric.higher_is_better
    return (GAINS if gained else LOSSES)[0 if metric.unit in TIMES else 1]
