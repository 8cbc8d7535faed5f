"""Words, marks and numbers that comparisons and benches share."""

from __future__ import annotations

from flashlab.analysis.ratios import rounded, rounded_off_margin
from flashlab.benchmarks.model import Metric
from flashlab.labels import message
from flashlab.story.compare.table import TIMES

NO_VALUE = "–"
VALUE_DIGITS = 4

DOUBT = " *"
"""The mark of a value that was measured with warnings."""

FARTHEST = 100
"""The largest ratio that is printed as such; two processes bound nothing."""

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
    return set_out(message(language, "compare", key).format_map(params), language)


def set_out(text: str, language: str) -> str:
    """A text with the spaces that its language puts between scripts."""
    if language != "zh_TW":
        return text
    # The package of the report imports WeasyPrint, which takes a second or two.
    from flashlab.report.typography import spaced

    return spaced(text)


def printed(ratio: float) -> str:
    """A ratio to three digits, more near the margin; beyond `FARTHEST` only as a bound."""
    if not 1 / FARTHEST <= ratio <= FARTHEST:
        return f"> {FARTHEST:g}" if ratio > 1 else f"< {1 / FARTHEST:g}"
    value = rounded_off_margin(ratio)
    return max(f"{value:g}", f"{value:#.3g}", key=len).removesuffix(".")


def between(low: float, high: float) -> str:
    """A range of two ratios; one number where they are printed alike."""
    return "–".join(dict.fromkeys((printed(low), printed(high))))


def name_metric(metric: Metric, language: str) -> str:
    """The name of a metric, as it begins a cell."""
    text = metric.labels[language]
    return text[:1].upper() + text[1:]


def number(value: float, unit: str) -> str:
    """A measured value with its unit."""
    return f"{rounded(value, VALUE_DIGITS):g} {unit}"
