"""The words of the figures, in every language of the report, from what the benchmark declares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flashlab.analysis.experiment import Sweep, Variant
from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Texts
from flashlab.figures.placement import text_inches, wrap_texts
from flashlab.telling.catalogs import message


def in_languages(texts: Texts, languages: Sequence[str], between: str = " ") -> str:
    """A text in every language, once where they agree: ``時間 Time``."""
    return between.join(dict.fromkeys(texts[language] for language in languages))


def capitalised(texts: Texts) -> dict[str, str]:
    """Words for use within a sentence, as they begin one."""
    return {language: text[:1].upper() + text[1:] for language, text in texts.items()}


def label_parameter(parameter: Parameter, languages: Sequence[str]) -> str:
    """``序列長度 Sequence length N``."""
    return f"{in_languages(capitalised(parameter.labels), languages)} {parameter.symbol}"


def title_metric(metric: Metric, languages: Sequence[str], between: str = " ") -> str:
    """The title of a metric's panel: ``前向 Forward``."""
    return in_languages(metric.part or capitalised(metric.labels), languages, between)


def title_lines(
    metric: Metric,
    languages: Sequence[str],
    width: float,
    points: float,
    *,
    relative: bool = False,
) -> list[str]:
    """A metric with its unit as the title of a panel: ``前向時間 Forward time (ms)``.

    With `relative`, the values are multiples of the least. There are as many lines as the text
    takes in bold within so many inches.
    """
    texts = capitalised(metric.labels)
    if relative:
        texts = {
            language: message(language, "figures", "relative").format(metric=texts[language])
            for language in languages
        }
    *others, last = dict.fromkeys(texts[language] for language in languages)
    unit = "" if relative else f" ({metric.unit})"
    return wrap_texts([*others, f"{last}{unit}"], points, width, bold=True)


def label_variant(benchmark: Benchmark, variant: Variant, languages: Sequence[str]) -> str:
    """``因果 Causal``; empty for a benchmark without variants."""
    said = []
    for name, value in variant:
        parameter = benchmark.parameter(name)
        words = parameter.words.get(value)
        said.append(
            in_languages(capitalised(words), languages)
            if words
            else f"{parameter.symbol} = {value}"
        )
    return ", ".join(said)


def _covaried(sweep: Sweep) -> dict[str, list[Any]]:
    """The sizes that vary along with the swept one, at each of its values, by their symbols."""
    found = {}
    for parameter in sweep.varying:
        at = {sweep.value_of(row): row[parameter.name] for row in sweep.runs}
        if parameter != sweep.parameter:
            found[parameter.symbol] = [at[value] for value in sweep.values]
    return found


def label_covaried(sweep: Sweep) -> list[list[str]]:
    """The sizes that vary along, at each value of the sweep: ``[["d = 32"], ["d = 64"]]``."""
    covaried = _covaried(sweep).items()
    return [
        [f"{symbol} = {sizes[position]}" for symbol, sizes in covaried]
        for position in range(len(sweep.values))
    ]


def label_briefly(sweep: Sweep) -> str:
    """The swept size, and what varies along from its first to its last: ``E (d = 16–128)``."""
    along = ", ".join(
        f"{symbol} = {sizes[0]}–{sizes[-1]}" for symbol, sizes in _covaried(sweep).items()
    )
    return f"{sweep.parameter.symbol} ({along})" if along else sweep.parameter.symbol


def label_fixed(sweep: Sweep, languages: Sequence[str]) -> str:
    """The sizes that do not vary, and the variant if there is one only: ``H = 32, d = 64, Full``.

    A size that is the product of others is left out.
    """
    benchmark, row = sweep.benchmark, sweep.runs[0]
    products = {product.whole for product in benchmark.products}
    fixed = [
        f"{parameter.symbol} = {row[parameter.name]}"
        for parameter in benchmark.parameters
        if not parameter.is_variant
        and parameter not in (*sweep.varying, sweep.parameter)
        and parameter.name not in products
    ]
    words = [label_variant(benchmark, sweep.variants[0], languages)]
    return ", ".join([*fixed, *(words if len(sweep.variants) == 1 and words[0] else [])])


def title_experiment(
    sweep: Sweep, languages: Sequence[str], points: float, width: float
) -> list[str]:
    """An experiment's title in bold lines no wider than so many inches, a language after another.

    A line is parted at spaces, or anywhere in a script that has none.
    """
    lines: list[str] = []
    for text in dict.fromkeys(sweep.plan["title"][language] for language in languages):
        line = ""
        for part in re.findall(r"[ -~]+?(?: |$|(?=[^ -~]))|[^ -~]", text):
            if line and text_inches(f"{line}{part}".rstrip(), points, bold=True) > width:
                lines.append(line.rstrip())
                line = ""
            line += part
        lines.append(line.rstrip())
    return lines
