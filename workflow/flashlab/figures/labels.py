"""The words of the figures, in every language of the report, from what the benchmark declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashlab.analysis.ceilings import Ceiling
from flashlab.analysis.experiment import Experiment, Variant
from flashlab.benchmarks.model import FLOPS, Benchmark, Metric, Texts
from flashlab.labels import message
from flashlab.numbers import tick


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
    """A text in every language, once where they agree: ``時間 Time``."""
    return " ".join(dict.fromkeys(texts[language] for language in languages))


def capitalised(texts: Texts) -> dict[str, str]:
    """Words for use within a sentence, as they begin one."""
    return {language: text[:1].upper() + text[1:] for language, text in texts.items()}


def title_metric(metric: Metric, languages: Sequence[str]) -> str:
    """The title of a metric's panel: ``前向 Forward``."""
    return in_languages(metric.part or capitalised(metric.labels), languages)


def title_with_unit(
    metric: Metric, languages: Sequence[str], relative: bool = False, unit: str | None = None
) -> list[str]:
    """A metric with its unit, in every language: ``["前向時間", "Forward time (ms)"]``.

    With `relative`, the values are multiples of the least; they may be in another `unit`.
    """
    texts = capitalised(metric.labels)
    if relative:
        return said("relative", languages, metric=texts)
    *others, last = dict.fromkeys(texts[language] for language in languages)
    return [*others, f"{last} ({unit or metric.unit})"]


def label_product(product: Ceiling, unit: str, languages: Sequence[str]) -> str:
    """The matrix product's rates, sustained to initial: ``矩陣乘法 … 665–772``."""
    low, high = (tick(float(f"{rate / FLOPS[unit]:.3g}")) for rate in product.bounds)
    rates = high if low == high else f"{low}–{high}"
    return f"{in_words('matrix_product', languages)} {rates}"


def label_variant(benchmark: Benchmark, variant: Variant, languages: Sequence[str]) -> str:
    """``因果 Causal``; empty for a benchmark without variants."""
    labels = []
    for name, value in variant:
        parameter = benchmark.parameter(name)
        words = parameter.words.get(value)
        without = f"{parameter.symbol} = {value}"
        labels.append(in_languages(capitalised(words), languages) if words else without)
    return ", ".join(labels)


def covaried(experiment: Experiment) -> dict[str, list[Any]]:
    """The sizes that vary along with the swept one, at each of its values, by their symbols."""
    at = {experiment.value_of(row): row for row in experiment.runs}
    return {
        p.symbol: [at[value][p.name] for value in experiment.values] for p in experiment.covarying
    }
