"""Words and numbers that comparisons, histories and benches share."""

from __future__ import annotations

from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.model import Metric
from flashlab.telling.catalogs import message

NO_VALUE = "–"
VALUE_DIGITS = 4


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


def name_metric(metric: Metric, language: str) -> str:
    """The name of a metric, as it begins a cell."""
    text = metric.labels[language]
    return text[:1].upper() + text[1:]


def number(value: float, unit: str) -> str:
    """A measured value with its unit."""
    return f"{rounded(value, VALUE_DIGITS):g} {unit}"
