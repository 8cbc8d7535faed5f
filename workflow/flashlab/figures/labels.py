"""The words of the figures, in every language of the report, and what a point's title says."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from flashlab.benchmarks.model import Metric, Texts
from flashlab.figures.style import rows_of
from flashlab.labels import message
from flashlab.numbers import begin, measured


def said(key: str, languages: Sequence[str], **words: Texts) -> list[str]:
    """A message in every language, once where they agree, with words in the same language."""
    return list(
        dict.fromkeys(
            message(language, "figures", key).format(**{k: t[language] for k, t in words.items()})
            for language in languages
        )
    )


def in_words(key: str, languages: Sequence[str]) -> str:
    """A message in every language: ``記憶體不足 out of memory``."""
    return " ".join(said(key, languages))


def in_languages(texts: Texts, languages: Sequence[str]) -> str:
    """Words in every language, as they begin a sentence: ``時間 Time``."""
    found = dict.fromkeys(texts[language] for language in languages)
    return " ".join(map(begin, found))


def title_metric(metric: Metric, languages: Sequence[str]) -> str:
    """The short title of a metric's panel: ``前向 Forward``."""
    return in_languages(metric.part or metric.labels, languages)


def with_unit(metric: Metric, languages: Sequence[str]) -> str:
    """A metric with its unit: ``前向時間 Forward time (ms)``."""
    return f"{in_languages(metric.labels, languages)} ({metric.unit})"


def titles_of(rows: pd.DataFrame, symbol: str) -> list[str]:
    """What points stand for: ``Flash2, N = 1024: 0.460 ms (0.455–0.466)``.

    Of a run without a result, what became of it.
    """
    titles = []
    for row in rows_of(rows):
        text = row.status
        if row.value == row.value:
            text = f"{measured((row.value, row.low, row.high))} {row.unit}"
            if row.high > row.low:
                ends = (measured((end, row.low, row.high)) for end in (row.low, row.high))
                text += f" ({'–'.join(ends)})"
        titles.append(f"{row.line}, {symbol} = {row.at}: {text}")
    return titles
