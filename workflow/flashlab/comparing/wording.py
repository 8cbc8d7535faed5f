"""A comparison in words: whole sentences and cells, from the catalogs, in one language."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flashlab.analysis.ratios import counted, rounded, rounded_off_margin
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.comparing.environments import AGREES, CODE
from flashlab.comparing.verdicts import EQUAL, FAILED, INCONCLUSIVE, MENDED, UNREPLICATED
from flashlab.report.typography import spaced
from flashlab.telling.catalogs import message

DOMAIN = "comparison"
SHOWN_SHAPES = 3
"""Most shapes that a sentence lists where no condition describes them."""

NO_VALUE = "–"
DOUBT = " *"
"""Marks a run with warnings on it."""

RELATIONS = {"==": "=", "<=": "≤", ">=": "≥"}
VALUE_DIGITS = 4

FARTHEST = 100
"""The largest ratio that an interval's end is printed as; two processes bound nothing."""


def say(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in."""
    return message(language, DOMAIN, key).format_map(params)


def percentage(share: float, digits: int = 2) -> str:
    """A share as a number of percent: 0.05234 is ``5.2``."""
    value = rounded(100 * share, digits)
    return f"{value:.0f}" if value >= 10 else f"{value:g}"


@dataclass(frozen=True)
class Wording:
    """The words for a comparison (`comparing.comparison`) in a language."""

    document: Mapping[str, Any]
    language: str

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark that both sides are of."""
        return find_benchmark(self.document["benchmark"])

    @cached_property
    def margin(self) -> str:
        """The margin: ``5%``."""
        return f"{percentage(self.document['margin'])}%"

    def say(self, key: str, **params: object) -> str:
        """A message with its parameters, the sides' names and the margin filled in."""
        one, other = self.document["sides"]
        names = {"one": one["name"], "other": other["name"], "margin": self.margin}
        text = say(key, self.language, **{**names, **params})
        return spaced(text) if self.language == "zh_TW" else text

    def joined(self, parts: Sequence[str]) -> str:
        """A list in words."""
        return self.say("separator").join(parts)

    @property
    def subtitle(self) -> str:
        """What is compared, and how."""
        return self.say("subtitle", shared=self.document["shared"])

    # The environments

    def field(self, row: Mapping[str, Any]) -> str:
        """The name of a field of the environments."""
        return self.say(f"field.{row['field']}", implementation=row["implementation"])

    def values(self, values: Sequence[str]) -> str:
        """What one side states of a field."""
        told = [_protocol(value) if value.startswith("{") else value for value in values]
        return self.joined(told) or self.say("unstated")

    @property
    def environments(self) -> list[str]:
        """What differs, what agrees, and whether the code does."""
        rows = self.document["environments"]
        agreeing = [row for row in rows if row["verdict"] == AGREES]
        lines = [
            self.say("environments.same" if len(agreeing) == len(rows) else "environments.differ")
        ]
        code = [row for row in rows if row["field"] in CODE]
        if all(row["verdict"] == AGREES and row["one"] for row in code):
            lines.append(self.say("environments.same_code"))
        general = [self.field(r) for r in agreeing if r["implementation"] is None and r["one"]]
        if general and len(agreeing) < len(rows):
            lines.append(self.say("environments.agree", fields=self.joined(general)))
        return lines

    # The conclusions

    def _condition(self, condition: Mapping[str, Any]) -> str:
        parameter = self.benchmark.parameter(condition["parameter"])
        if parameter.words:
            words = parameter.words[condition["value"]][self.language]
            return self.say("condition.variant", words=words)
        return f"{parameter.symbol} {RELATIONS[condition['relation']]} {condition['value']}"

    def _warnings(self, codes: Sequence[str]) -> str:
        """Warnings as the report words them."""
        return self.joined([message(self.language, "report", f"warning.{code}") for code in codes])

    def shapes(self, shapes: Sequence[str]) -> str:
        """Some shapes, the first of them by name."""
        shown = list(shapes[:SHOWN_SHAPES])
        if len(shapes) > len(shown):
            shown.append(self.say("more", count=len(shapes) - len(shown)))
        return self.joined(shown)

    def _where(self, conclusion: Mapping[str, Any]) -> str:
        count, total = len(conclusion["shapes"]), conclusion["total"]
        conditions = conclusion["conditions"]
        if count == total:
            return self.say(counted("where.all", total), count=total)
        if conditions:
            told = self.joined([self._condition(condition) for condition in conditions])
            return self.say("where.conditions", conditions=told, count=count, total=total)
        shapes = self.shapes(conclusion["shapes"])
        return self.say("where.some", shapes=shapes, count=count, total=total)

    def conclusion(self, conclusion: Mapping[str, Any]) -> str:
        """A conclusion in one to three sentences."""
        key = f"statement.{conclusion['verdict']}"
        params: dict[str, object] = {
            "implementation": conclusion["implementation"],
            "where": self._where(conclusion),
        }
        if conclusion["metric"]:
            metric = self.benchmark.metric(conclusion["metric"])
            params["metric"] = metric.labels[self.language]
            risen = conclusion["low"] > 1
            if conclusion["verdict"] in ("worse", "better"):
                key += ".higher" if risen else ".lower"
            ends = sorted(abs(conclusion[end] - 1) for end in ("low", "high"))
            low, high = map(percentage, ends)
            form = "amount.one" if low == high else "amount.range"
            params["amount"] = self.say(form, low=low, high=high)
        said = [self.say(key, **params)]
        if conclusion["verdict"] not in (FAILED, MENDED):
            for rest in ("doubtful", "equal", "undecided"):
                if conclusion[rest]:
                    key = counted(f"rest.{rest}", conclusion[rest])
                    warnings = self._warnings(conclusion["warnings"])
                    said.append(self.say(key, count=conclusion[rest], warnings=warnings))
        return ("" if self.language == "zh_TW" else " ").join(said)

    @property
    def conclusions(self) -> list[str]:
        """Every difference that is stated, or that there is none; last, what limits them."""
        lines = [self.conclusion(found) for found in self.document["conclusions"]]
        verdicts = [pair["verdict"] for pair in self.document["pairs"]]
        if not lines:
            lines = [
                self.say(
                    "none",
                    count=len(verdicts),
                    equal=verdicts.count(EQUAL),
                    undecided=verdicts.count(INCONCLUSIVE),
                )
            ]
        if all(max(pair["processes"]) == 1 for pair in self.document["pairs"]):
            # Two processes, each with its own offset, and the margin on top.
            least = (1 + self.document["margin"]) * (1 + 1.96 * 2**0.5 * UNREPLICATED.deviation) - 1
            spread, least_told = f"{percentage(UNREPLICATED.deviation)}%", f"{percentage(least)}%"
            lines.append(self.say("single", spread=spread, least=least_told))
        return lines

    # The runs

    def metric(self, name: str | None) -> str:
        """The name of a metric, as it begins a cell."""
        if name is None:
            return NO_VALUE
        text = self.benchmark.metric(name).labels[self.language]
        return text[:1].upper() + text[1:]

    def verdict(self, verdict: str) -> str:
        """A verdict in a word."""
        return self.say(f"verdict.{verdict}")

    def cells(self, pair: Mapping[str, Any]) -> dict[str, str]:
        """A pair as the cells of its row."""
        if pair["metric"] is None:
            one, other = (self.say(f"status.{status}") for status in pair["statuses"])
        else:
            one, other = (
                f"{rounded(pair[side], VALUE_DIGITS):g} {pair['unit']}" for side in ("one", "other")
            )
        ratio, low, high = pair["ratio"], pair["low"], pair["high"]
        return {
            "implementation": pair["run"]["implementation"],
            "shape": pair["shape"],
            "metric": self.metric(pair["metric"]),
            "one": one,
            "other": other,
            "ratio": NO_VALUE if ratio is None else f"{rounded_off_margin(ratio):g}",
            "interval": NO_VALUE if low is None else f"{_end(low)}–{_end(high)}",
            "verdict": self.verdict(pair["verdict"]) + (DOUBT if pair["warnings"] else ""),
        }

    @property
    def omitted(self) -> list[str]:
        """Where the runs are that are equal on both sides."""
        equal = [pair for pair in self.document["pairs"] if pair["verdict"] == EQUAL]
        return [self.say("omitted", count=len(equal))] if equal else []

    # What one side lacks

    @property
    def only(self) -> list[str]:
        """The runs that one side alone has, a sentence for each implementation."""
        lines = [
            self.say(
                counted("only", len(found["shapes"])),
                name=side["name"],
                implementation=found["implementation"],
                count=len(found["shapes"]),
                dtype=found["dtype"],
                device=found["device"],
                shapes=self.shapes(found["shapes"]),
            )
            for side, lacking in zip(self.document["sides"], self.document["only"], strict=True)
            for found in lacking
        ]
        return lines or [self.say("only.none")]


def _end(ratio: float) -> str:
    """An end of an interval; what is far beyond any verdict is not told to the digit."""
    if not 1 / FARTHEST <= ratio <= FARTHEST:
        return f"> {FARTHEST:g}" if ratio > 1 else f"< {1 / FARTHEST:g}"
    return f"{rounded_off_margin(ratio):g}"


def _protocol(value: str) -> str:
    """A protocol in short: ``sampled, max_seconds 0.5, relative_interval 0.01``."""
    protocol = json.loads(value)
    settings = [f"{key} {setting}" for key, setting in protocol.items() if key != "name"]
    return ", ".join([protocol["name"], *settings])
