"""Texts and numbers in the report's languages, by Babel and the catalogs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from babel import Locale
from babel.numbers import NumberPattern, parse_pattern

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.catalogs import message, messages

Texts = dict[str, str]
"""One text for each language of the report."""

LEAST_DIGITS = 3
"""The fewest significant digits of a measured number, as in 4.00: it was rounded to these."""


TWO_PLACES = ("exponent", "exponent_low", "exponent_high", "local")
"""Params that are rounded to two places, and printed with both."""

AS_GIVEN = (
    *("times_size", "wanted_least", "wanted_most", "ideal", "times_work"),
    *("whole", "part_size", "capacity", "balance_ideal"),
)
"""Params that are computed, or exact."""


@cache
def _pattern(places: int) -> NumberPattern:
    """All digits, and at least so many places after the point."""
    return parse_pattern("#,##0." + "0" * places + "#" * 12)


@cache
def _locale(language: str) -> Locale:
    return Locale.parse(language)


def number(value: float | None, language: str, digits: int | None = None) -> str:
    """A number as the language writes it, at most `digits` significant ones; a dash for None."""
    if value is None:
        return "–"
    if digits is not None:
        value = float(f"{value:.{digits}g}")
    return str(_pattern(0).apply(value, _locale(language)))


def measured(value: float, language: str, places: int | None = None) -> str:
    """A number that was rounded for printing, with the zeros that it was rounded to."""
    if places is None:
        magnitude = math.floor(math.log10(abs(value))) if value else 0
        places = max(0, LEAST_DIGITS - 1 - magnitude)
    return str(_pattern(places).apply(value, _locale(language)))


def join_range(low: str, high: str) -> str:
    """Two ends as printed, with an en dash between; one number where they print alike."""
    return low if low == high else f"{low}–{high}"


def _printed(name: str, value: Any, language: str) -> str:
    if value is None or name in AS_GIVEN:
        return number(value, language)
    if not isinstance(value, float):
        return str(value)
    return measured(value, language, 2 if name in TWO_PLACES else None)


def text(key: str, language: str, **params: Any) -> str:
    """The report's message in a language; every message may use ``{margin}``, such as 5%."""
    margin = f"{100 * statistics.MARGIN:g}%"
    return message(language, "report", key).format_map({"margin": margin, **params})


def join_sentences(found: Sequence[Texts]) -> Texts:
    """Sentences one after the other: with a space in Latin script, without in Chinese."""
    return {
        language: ("" if language == "zh_TW" else " ").join(texts[language] for texts in found)
        for language in found[0]
    }


class Words:
    """The report's languages: every text in each of them."""

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = tuple(languages)

    def each(self, key: str, **params: Any) -> Texts:
        """A message in every language; a parameter that is itself `Texts` is taken by language."""
        return {
            language: text(
                key,
                language,
                **{
                    name: value[language] if isinstance(value, dict) else value
                    for name, value in params.items()
                },
            )
            for language in self.languages
        }

    def same(self, value: str) -> Texts:
        """A text that is the same in every language."""
        return dict.fromkeys(self.languages, value)

    def label(self, texts: Mapping[str, str]) -> Texts:
        """A text declared in every language, such as a label, in those of the report."""
        return {language: texts[language] for language in self.languages}

    def heading(self, texts: Mapping[str, str]) -> Texts:
        """A label that begins a sentence or stands alone."""
        return {key: text[:1].upper() + text[1:] for key, text in self.label(texts).items()}

    def listed(self, items: Sequence[Any]) -> Texts:
        """Items joined as the language joins them, or its word for none."""
        if not items:
            return self.each("none")
        return self.joined(
            "list.separator", [i if isinstance(i, dict) else self.same(str(i)) for i in items]
        )

    def joined(self, separator: str, items: Iterable[Texts]) -> Texts:
        """Texts with the message `separator` between them."""
        texts = list(items)
        return {
            language: text(separator, language).join(item[language] for item in texts)
            for language in self.languages
        }

    def most_special(self, key: str, benchmark: Benchmark, names: Iterable[str]) -> str:
        """The key of the most special message that the catalogs hold for `key`.

        `names` are the parameters, quantities or implementations that the message is about. For one
        of them, x, the order is ``<benchmark>.x.<key>``, ``x.<key>``, ``<benchmark>.<key>``,
        ``<key>``.
        """
        known = messages(self.languages[0], "report")
        prefixes = [p for name in names for p in (f"{benchmark.name}.{name}", name)]
        special = (f"{prefix}.{key}" for prefix in [*prefixes, benchmark.name])
        return next((found for found in special if found in known), key)

    def keys_below(self, prefix: str) -> list[str]:
        """The keys of the messages ``<prefix>.…``, in the order of the catalog."""
        known = messages(self.languages[0], "report")
        return [key for key in known if key.startswith(f"{prefix}.")]

    # What a benchmark declares

    def parameter(self, parameter: Parameter) -> Texts:
        """A parameter with its symbol: ``sequence length N``."""
        return {
            language: f"{label} {parameter.symbol}"
            for language, label in self.label(parameter.labels).items()
        }

    def setting(self, parameter: Parameter, *values: Any) -> Texts:
        """A parameter's values: ``N = 128 / 256``, or the words for those of a variant."""
        if parameter.words:
            words = [self.label(parameter.words[value]) for value in values]
            return {language: " / ".join(w[language] for w in words) for language in self.languages}
        return self.same(f"{parameter.symbol} = {' / '.join(map(str, values))}")

    def settings(self, benchmark: Benchmark, given: Mapping[str, Any]) -> list[Texts]:
        """What is given of a run, in order of declaration: ``N = 128``, ``causal``.

        A value may be a list of several.
        """
        return [
            self.setting(parameter, *(value if isinstance(value, list) else [value]))
            for parameter in benchmark.parameters
            if (value := given.get(parameter.name)) is not None
        ]

    def with_settings(self, name: str, settings: Sequence[Texts]) -> Texts:
        """``Flash2 [N = 128, causal]``, of what there is of it."""
        if not settings:
            return self.same(name)
        return {
            language: f"{name} [{given}]".strip()
            for language, given in self.listed(settings).items()
        }

    # What a finding holds

    def printed(self, params: Mapping[str, Any]) -> dict[str, Texts]:
        """A finding's params as they are printed, without those that are lists of mappings."""
        return {
            name: self._printed(name, value)
            for name, value in params.items()
            if not (isinstance(value, list) and value and isinstance(value[0], Mapping))
        }

    def _printed(self, name: str, value: Any) -> Texts:
        """A text that has one for each language, a list, or a number."""
        if isinstance(value, Mapping):
            return self.label(value)
        if isinstance(value, list):
            return self.listed([self._printed(name, item) for item in value])
        return {language: _printed(name, value, language) for language in self.languages}
