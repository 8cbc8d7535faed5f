"""Words and numbers that comparisons, histories and benches share."""

from __future__ import annotations

from flashlab.analysis.ratios import rounded, rounded_off_margin
from flashlab.benchmarks.model import Metric
from flashlab.telling.catalogs import message

NO_VALUE = "–"
VALUE_DIGITS = 4

DOUBT = " *"
"""Marks what was measured with warnings."""

CHANGED = " †"
"""Marks an implementation of which the sides hold other code or packages."""

FARTHEST = 100
"""The largest ratio that is printed as such; two processes bound nothing."""


def say(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in.

    The codes of verdicts, of statuses and of the fields of circumstances are keys too.
    """
    text = message(language, "compare", key).format_map(params)
    if language != "zh_TW":
        return text
    # The package of the report imports WeasyPrint, which takes a second or two.
    from flashlab.report.typography import spaced

    return spaced(text)


def percentage(share: float) -> str:
    """A share as a number of percent: 0.05234 is ``5.2``."""
    value = rounded(100 * share, 2)
    return f"{value:.0f}" if value >= 10 else f"{value:g}"


def printed(ratio: float) -> str:
    """A ratio to three digits, and more by the margin; what is far off is not told to the digit."""
    if not 1 / FARTHEST <= ratio <= FARTHEST:
        return f"> {FARTHEST:g}" if ratio > 1 else f"< {1 / FARTHEST:g}"
    value = rounded_off_margin(ratio)
    return max(f"{value:g}", f"{value:#.3g}", key=len).removesuffix(".")


def between(low: float, high: float) -> str:
    """Two ratios and what lies between them; one where they are printed alike."""
    return "–".join(dict.fromkeys((printed(low), printed(high))))


def name_metric(metric: Metric, language: str) -> str:
    """The name of a metric, as it begins a cell."""
    text = metric.labels[language]
    return text[:1].upper() + text[1:]


def number(value: float, unit: str) -> str:
    """A measured value with its unit."""
    return f"{rounded(value, VALUE_DIGITS):g} {unit}"
