"""Findings and numbers in words: the same numbers in every language, by Babel and the catalogs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from babel import Locale
from babel.numbers import NumberPattern, parse_pattern

from flashlab.catalogs import SYMBOLS, message

Texts = dict[str, str]
"""One text for each language of the report."""

MOST_NAMED = 8
"""Runs without numbers that a sentence names; the finding's reasons have them all."""

_OF_SWEEP = re.compile(r"(\S+) (full|causal) (\w+)=(\d+)")
_OF_CLAIM = re.compile(r"(\S+) B(\d+) N(\d+) H(\d+) E(\d+) (full|causal) (\w+) (\w+)")


@cache
def _pattern(places: int) -> NumberPattern:
    """All digits, and at least so many places after the point."""
    return parse_pattern("#,##0." + "0" * places + "#" * 12)


@cache
def _locale(language: str) -> Locale:
    return Locale.parse(language)


LEAST_DIGITS = 3
"""Significant digits that a measured number is printed with at least, as 4.00: it was rounded to
them, and the zeros say so."""

TWO_PLACES = ("exponent", "exponent_low", "exponent_high", "local")
"""Parameters that are rounded to places, and printed with both."""

AS_GIVEN = ("times_size", "wanted_least", "wanted_most")
"""Parameters that nobody measured."""

SPANS = {
    "speeds": ("times", "low", "high"),
    "rates": ("times", "rate_low", "rate_high"),
    "matrix": ("percent", "matrix_low", "matrix_high"),
    "copy": ("percent", "copy_low", "copy_high"),
}
"""Ranges: their unit, and the parameters of their ends. One whose ends print alike is a number."""


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
                item[language] if isinstance(item, dict) else str(item) for item in items
            )
            if items
            else text("none", language)
            for language in self.languages
        }

    def joined(self, separator: str, items: Sequence[Texts]) -> Texts:
        """Texts with the message `separator` between them."""
        return {
            language: text(separator, language).join(item[language] for item in items)
            for language in self.languages
        }

    def finding(self, finding: Mapping[str, Any], symbol: str) -> Texts:
        """A finding's sentences: the verdict's, what belongs to it, and what to doubt about it."""
        params = self._printed_params(finding["params"])
        subject = finding["subject"]
        for name in ("implementation", "baseline", "other"):
            if name in subject:
                params[name] = dict.fromkeys(self.languages, subject[name])
        for name in ("pass", "mask", "quantity"):
            if name in subject:
                params[name] = self.each(f"{name}.{subject[name]}")
        params["symbol"] = dict.fromkeys(self.languages, symbol)
        params |= self._spans(params)
        params["clauses"] = self._clauses(finding["params"], symbol)
        if finding["kind"] == "claim":
            params["figure"] = self.claim_figure(finding)
            params["wanted"] = self.claim_wanted(finding)
            params |= self.claim_test(finding)
        said = [self.each(_key(finding), **params)]
        trend = finding["params"].get("trend", "none")
        if trend != "none":
            said.append(self.each(f"{finding['kind']}.trend.{trend}", **params))
        for side in ("agrees", "differs"):
            values = finding["params"].get(f"model_{side}_at")
            if values:
                listed = self.listed(values)
                key = f"memory_ratio.model.{side}"
                said.append(self.each(key, symbol=symbol, values=listed))
        if finding["kind"] == "roofline" and finding["params"]["undecided_at"]:
            said.append(self.each("roofline.undecided", **params))
        covaried = finding["params"].get("covaried")
        if covaried:
            parameters = self.listed([self.each(name) for name in covaried])
            said.append(self.each("covaried", parameters=parameters, symbol=symbol))
        return sentences([*said, *self.reasons(finding["reasons"])])

    def claim_figure(self, finding: Mapping[str, Any]) -> Texts:
        """Our figure for a claim, with its interval, or the range of several; a dash for none."""
        params = finding["params"]
        if not params["count"]:
            return dict.fromkeys(self.languages, "–")
        if "by_metric" not in params:
            return self._claim_figure(params)
        by_metric = [
            self.each(
                "claim.figure.of_metric",
                metric=self.each(f"metric.{ours['metric']}"),
                figure=self._claim_figure(ours),
            )
            for ours in params["by_metric"]
        ]
        return self.joined("claim.place.separator", by_metric)

    def _claim_figure(self, params: Mapping[str, Any]) -> Texts:
        if params["count"] > 1:
            held = params["held_count"]
            key = f"range.{'none' if not held else 'all' if held == params['count'] else 'some'}"
        else:
            key = "exact" if params["ours_low"] == params["ours_high"] else "interval"
        return self.each(f"claim.figure.{key}", **self._printed_params(params))

    def claim_wanted(self, finding: Mapping[str, Any]) -> Texts:
        """The range that a claim stands for; a dash for a claim without a test."""
        params = finding["params"]
        least, most = params["wanted_least"], params["wanted_most"]
        if least is None and most is None:
            return dict.fromkeys(self.languages, "–")
        key = "least" if most is None else "most" if least is None else "between"
        return self.each(f"claim.wanted.{key}", **self._printed_params(params))

    def claim_test(self, finding: Mapping[str, Any]) -> dict[str, Texts]:
        """What a claim's test compares, in words: its `metrics`, the `formula`, and `where`."""
        params = finding["params"]
        if "terms" not in params:
            return {}
        terms = [self._term(term["name"], self._given(term)) for term in params["terms"]]
        form = {
            (1, "times"): "{0}",
            (2, "times"): "{0} ÷ {1}",
            (4, "times"): "({0} ÷ {1}) ÷ ({2} ÷ {3})",
            (4, "amounts"): "({0} − {1}) ÷ ({2} − {3})",
        }[len(terms), params["compare"]]
        formula = {
            language: form.format(*(term[language] for term in terms))
            for language in self.languages
        }
        if params["each_of"]:
            names = self.listed(params["each_of"])
            formula = self.each("claim.each_of", names=names, formula=formula)
        places = [self._given(at) for at in params["at"]]
        return {
            "metrics": self.listed([self.each(f"metric.{name}") for name in params["metrics"]]),
            "formula": formula,
            "where": self.joined("claim.place.separator", places),
        }

    def _given(self, keys: Mapping[str, Any]) -> Texts:
        """``N = 128, causal``: what is given of a run or a place."""
        masks = [self.each(f"mask.{mask}") for mask in keys["masks"]]
        return {
            language: text("list.separator", language).join(
                [*keys["sizes"], *filter(None, [" / ".join(mask[language] for mask in masks)])]
            )
            for language in self.languages
        }

    def _term(self, name: str, given: Texts) -> Texts:
        """``Flash2 [N = 128, causal]``, of what there is of it."""
        return {
            language: " ".join(filter(None, (name, f"[{keys}]" if keys else "")))
            for language, keys in given.items()
        }

    def _printed_params(self, params: Mapping[str, Any]) -> dict[str, Texts]:
        return {
            name: self._worded(name, value)
            for name, value in params.items()
            if name not in ("terms", "at", "metrics", "each_of", "compare", "by_metric")
        }

    def _worded(self, name: str, value: Any) -> Texts:
        """A parameter in every language: a text that has one for each, a list, or a number."""
        if isinstance(value, Mapping):
            return {language: str(value[language]) for language in self.languages}
        if isinstance(value, list):
            return self.listed([self._worded(name, item) for item in value])
        return {language: _printed(name, value, language) for language in self.languages}

    def _spans(self, params: Mapping[str, Texts]) -> dict[str, Texts]:
        """The ranges among the printed parameters; `ratios` says where the ends of `low` lie."""
        found = {}
        for name, (unit, low, high) in SPANS.items():
            if low in params and high in params:
                ends = {**params, "low": params[low], "high": params[high]}
                one = params[low] == params[high]
                found[name] = self.each(f"span.{unit}.{'one' if one else 'range'}", **ends)
        if "speeds" in found and "low_at" in params:
            one = params["low"] == params["high"]
            found["ratios"] = found["speeds"] if one else self.each("span.times.at", **params)
        return found

    def reasons(self, reasons: Sequence[str]) -> list[Texts]:
        """What to know about a verdict, and the runs that it lacks."""
        said, excluded, missing = [], [], []
        for reason in reasons:
            kind, _, rest = reason.partition(": ")
            if kind == "excluded":
                excluded.append(self._excluded(rest))
            elif kind == "missing":
                missing.append(self._shape(rest))
            else:
                said.append(self.each(f"reason.{reason}"))
        for key, runs in (("excluded", excluded), ("missing", missing)):
            if len(runs) > MOST_NAMED:
                named, more = self.listed(runs[:MOST_NAMED]), len(runs) - MOST_NAMED
                said.append(self.each(f"{key}.many", runs=named, more=more))
            elif runs:
                said.append(self.each(key, runs=self.listed(runs)))
        return said

    def _excluded(self, run: str) -> Texts:
        """A run without numbers, as a sweep names it or as a claim does, with its status."""
        named, _, status = run.rpartition(": ")
        worded = self.each(f"status.{status}")
        of_sweep = _OF_SWEEP.fullmatch(named)
        if of_sweep is None:
            return self.each("excluded.shape", run=self._shape(named), status=worded)
        implementation, mask, parameter, value = of_sweep.groups()
        return self.each(
            "excluded.run",
            implementation=implementation,
            mask=self.each(f"mask.{mask}"),
            symbol=SYMBOLS[parameter],
            value=value,
            status=worded,
        )

    def _shape(self, run: str) -> Texts:
        """A run as a claim names it, in words."""
        found = _OF_CLAIM.fullmatch(run)
        if found is None:
            return dict.fromkeys(self.languages, run)
        name, *sizes, mask, dtype, device = found.groups()
        given = [f"{symbol} = {size}" for symbol, size in zip("BNHE", sizes, strict=True)]
        return self._term(name, self.listed([*given, self.each(f"mask.{mask}"), dtype, device]))

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
    """The message of a finding's verdict, in the form that its parameters call for."""
    kind, params = finding["kind"], finding["params"]
    key = f"{kind}.{finding['verdict']}"
    for name in ("direction", "relation", "sign"):
        if name in params:
            key += f".{params[name]}"
    if "check" in finding["subject"]:
        key += f".{finding['subject']['check']}"
    count = params.get("count")
    few = kind in ("crossover", "monotonicity") and count is not None and count < 2
    if few or (count == 0 and key != "claim.not_tested"):
        return f"{key}.missing"
    if count == 1 and kind not in ("claim", "roofline"):
        return f"{key}.one"
    if key == "scaling.power_law" and params["exponent_low"] == params["exponent_high"]:
        return f"{key}.{'proportional' if params['exponent'] == 1 else 'exact'}"
    if key == "scaling.flat" and params["times"] == 1:
        return f"{key}.same"
    if kind == "out_of_memory" and params["largest"] is None:
        return f"{key}.nothing"
    if key.startswith("monotonicity.monotone.") and finding["subject"]["quantity"] == "memory":
        return f"{key}.exact"
    if key.startswith("anomaly.none.") and params["clean"] == params["checks"]:
        return f"{key}.all"
    return key


def _printed(name: str, value: Any, language: str) -> str:
    if value is None or name in AS_GIVEN:
        return number(value, language)
    if not isinstance(value, float):
        return str(value)
    return measured(value, language, 2 if name in TWO_PLACES else None)
