"""Findings and numbers in words: the same numbers in every language, by Babel and the catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from babel.numbers import parse_pattern

from flashlab.catalogs import message

Texts = dict[str, str]
"""One text for each language of the report."""

_ALL_DIGITS = parse_pattern("#,##0.############")


def number(value: float | None, language: str, digits: int | None = None) -> str:
    """A number as the language writes it, at most `digits` significant ones; a dash for None."""
    if value is None:
        return "–"
    if digits is not None:
        value = float(f"{value:.{digits}g}")
    return str(_ALL_DIGITS.apply(value, language))


def text(key: str, language: str, **params: Any) -> str:
    """The report's message in a language, with the parameters set in."""
    return message(language, "report", key).format_map(params)


def sentences(said: Sequence[Texts]) -> Texts:
    """Sentences one after the other: with a space in Latin script, without in Chinese."""
    return {
        language: ("" if language == "zh_TW" else " ").join(texts[language] for texts in said)
        for language in said[0]
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

    def chosen(self, texts: Mapping[str, str]) -> Texts:
        """A text that others wrote in every language, such as a label: the report's languages."""
        return {language: texts[language] for language in self.languages}

    def listed(self, items: Sequence[Any]) -> Texts:
        """Items joined as the language joins them, or its word for none."""
        return {
            language: text("list.separator", language).join(
                item[language] if isinstance(item, dict) else _printed(item, language)
                for item in items
            )
            if items
            else text("none", language)
            for language in self.languages
        }

    def finding(self, finding: Mapping[str, Any], symbol: str) -> Texts:
        """A finding's sentences: the verdict's, the trend's, and what to doubt about it."""
        params = {
            name: self.listed(value) if isinstance(value, list) else _by_language(self, value)
            for name, value in finding["params"].items()
        }
        subject = finding["subject"]
        for name in ("implementation", "baseline"):
            if name in subject:
                params[name] = dict.fromkeys(self.languages, subject[name])
        for name in ("pass", "mask", "quantity"):
            if name in subject:
                params[name] = self.each(f"{name}.{subject[name]}")
        params["symbol"] = dict.fromkeys(self.languages, symbol)
        params["clauses"] = self._clauses(finding["params"], symbol)
        said = [self.each(_key(finding), **params)]
        trend = finding["params"].get("trend", "none")
        if trend != "none":
            said.append(self.each(f"{finding['kind']}.trend.{trend}", **params))
        if "no_samples" in finding["reasons"]:
            said.append(self.each("no_samples"))
        excluded = [
            reason.removeprefix("excluded: ")
            for reason in finding["reasons"]
            if reason.startswith("excluded: ")
        ]
        if excluded:
            said.append(self.each("excluded", runs=self.listed(excluded)))
        return sentences(said)

    def _clauses(self, params: Mapping[str, Any], symbol: str) -> Texts:
        """Where a mixed finding is faster, slower, equal and undecided, without the empty ones."""
        clauses = [
            self.each(f"clause.{name}", symbol=symbol, values=self.listed(params[f"{name}_at"]))
            for name in ("faster", "slower", "equal", "undecided")
            if params.get(f"{name}_at")
        ]
        return {
            language: text("clause.separator", language).join(c[language] for c in clauses)
            for language in self.languages
        }

    def warnings(self, codes: Sequence[str]) -> Texts:
        """The names of warnings, joined."""
        return self.listed([self.each(f"warning.{code}") for code in codes])


def _key(finding: Mapping[str, Any]) -> str:
    """The message of a finding's verdict, with its own form for one value and for exact numbers."""
    params, key = finding["params"], f"{finding['kind']}.{finding['verdict']}"
    if params.get("count") == 1:
        return f"{key}.one"
    if key == "scaling.power_law" and params["exponent_low"] == params["exponent_high"]:
        return f"{key}.exact"
    return key


def _printed(value: Any, language: str) -> str:
    return number(value, language) if isinstance(value, float) else str(value)


def _by_language(words: Words, value: Any) -> Texts:
    return {language: _printed(value, language) for language in words.languages}
