"""What is said of two sides, in one language: whole sentences and cells, from the catalogs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.circumstances import AGREES, CODE
from flashlab.compare.pairs import UNREPLICATED
from flashlab.compare.rule import EQUAL, INCONCLUSIVE, VERDICTS
from flashlab.compare.words import percentage, say
from flashlab.telling.catalogs import message

SHOWN_SHAPES = 3
"""Most shapes that a sentence lists where no condition describes them."""

RELATIONS = {"==": "=", "<=": "≤", ">=": "≥"}

STATEMENTS = {
    ("failed", None): "statement.failed",
    ("mended", None): "statement.mended",
    ("slower", "higher"): "statement.slower",
    ("faster", "lower"): "statement.faster",
    ("worse", "higher"): "statement.worse.higher",
    ("worse", "lower"): "statement.worse.lower",
    ("better", "higher"): "statement.better.higher",
    ("better", "lower"): "statement.better.lower",
}
"""The sentence of a verdict, on a metric whose value is now higher or lower, or on a run."""

REST = {
    "doubtful": ("rest.doubtful.one", "rest.doubtful"),
    "equal": ("rest.equal.one", "rest.equal"),
    "undecided": ("rest.undecided.one", "rest.undecided"),
}
"""What is said of one other run, and of several."""


def _stated(value: str) -> str:
    """A value of a field; a protocol in short: ``sampled, relative_interval 0.01``."""
    if not value.startswith("{"):
        return value
    protocol = json.loads(value)
    settings = [f"{key} {setting}" for key, setting in protocol.items() if key != "name"]
    return ", ".join([protocol["name"], *settings])


@dataclass(frozen=True)
class Sentences:
    """The sentences and cells of a comparison (`two_sides.compare`) in a language."""

    document: Mapping[str, Any]
    language: str

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark that both sides are of."""
        return find_benchmark(self.document["benchmark"])

    def say(self, key: str, **params: object) -> str:
        """A message with its parameters, the sides' names and the margin filled in."""
        one, other = (side["name"] for side in self.document["sides"])
        margin = f"{percentage(self.document['margin'])}%"
        return say(key, self.language, **{"one": one, "other": other, "margin": margin, **params})

    def joined(self, parts: Sequence[str]) -> str:
        """A list in words."""
        return self.say("separator").join(parts)

    @property
    def subtitle(self) -> str:
        """What is compared, and how."""
        return self.say("subtitle", shared=self.document["shared"])

    # The circumstances

    def field(self, row: Mapping[str, Any]) -> str:
        """The name of a field of the circumstances."""
        return self.say(row["field"], implementation=row["implementation"])

    def values(self, values: Sequence[str]) -> str:
        """What one side states of a field."""
        return self.joined([_stated(value) for value in values]) or self.say("unstated")

    @property
    def differing(self) -> list[Mapping[str, Any]]:
        """The fields on which both sides do not agree."""
        return [row for row in self.document["environments"] if row["verdict"] != AGREES]

    @property
    def environments(self) -> list[str]:
        """Whether anything differs, whether the code does, and what agrees."""
        rows, differing = self.document["environments"], self.differing
        lines = [self.say("environments.differ" if differing else "environments.same")]
        code = [row for row in rows if row["field"] in CODE]
        if all(row["verdict"] == AGREES and row["one"] for row in code):
            lines.append(self.say("environments.same_code"))
        agreeing = [
            self.field(row)
            for row in rows
            if row["verdict"] == AGREES and row["implementation"] is None and row["one"]
        ]
        if agreeing and differing:
            lines.append(self.say("environments.agree", fields=self.joined(agreeing)))
        return lines

    # The conclusions

    def _condition(self, condition: Mapping[str, Any]) -> str:
        parameter = self.benchmark.parameter(condition["parameter"])
        if parameter.words:
            words = parameter.words[condition["value"]][self.language]
            return self.say("condition.variant", words=words)
        return f"{parameter.symbol} {RELATIONS[condition['relation']]} {condition['value']}"

    def _shapes(self, shapes: Sequence[str]) -> str:
        """Some shapes, the first of them by name."""
        more = len(shapes) - SHOWN_SHAPES
        further = [self.say("more", count=more)] if more > 0 else []
        return self.joined([*shapes[:SHOWN_SHAPES], *further])

    def _where(self, difference: Mapping[str, Any]) -> str:
        shapes, conditions = difference["shapes"], difference["conditions"]
        counts = {"count": len(shapes), "total": difference["total"]}
        if len(shapes) == difference["total"]:
            return self.say("where.all.one" if len(shapes) == 1 else "where.all", **counts)
        if conditions:
            told = self.joined([self._condition(condition) for condition in conditions])
            return self.say("where.conditions", conditions=told, **counts)
        return self.say("where.some", shapes=self._shapes(shapes), **counts)

    def _statement(self, difference: Mapping[str, Any]) -> list[str]:
        """A difference in a sentence, and what became of the other runs in further ones."""
        verdict, where = difference["verdict"], self._where(difference)
        about: dict[str, object] = {"implementation": difference["implementation"], "where": where}
        if difference["metric"] is None:
            return [self.say(STATEMENTS[verdict, None], **about)]
        ends = (abs(difference[end] - 1) for end in ("low", "high"))
        low, high = map(percentage, sorted(ends))
        amount = self.say("amount.one" if low == high else "amount.range", low=low, high=high)
        metric = self.benchmark.metric(difference["metric"]).labels[self.language]
        way = "higher" if difference["low"] > 1 else "lower"
        # The report words the warnings of a run.
        codes = [
            message(self.language, "report", f"warning.{code}") for code in difference["warnings"]
        ]
        rest = [
            self.say(key[difference[what] > 1], count=difference[what], warnings=self.joined(codes))
            for what, key in REST.items()
            if difference[what]
        ]
        return [self.say(STATEMENTS[verdict, way], **about, metric=metric, amount=amount), *rest]

    @property
    def conclusions(self) -> list[str]:
        """How many have which verdict, and every difference or that there is none; last, limits."""
        between = "" if self.language == "zh_TW" else " "
        differences = self.document["conclusions"]
        lines = [between.join(self._statement(difference)) for difference in differences]
        verdicts = [pair["verdict"] for pair in self.document["pairs"]]
        if lines:
            found = [verdict for verdict in VERDICTS if verdict in verdicts]
            counts = [f"{self.say(verdict)} {verdicts.count(verdict)}" for verdict in found]
            metrics = {pair["metric"] for pair in self.document["pairs"]}
            told = [m.labels[self.language] for m in self.benchmark.metrics if m.name in metrics]
            about = {"metrics": self.joined(told), "counts": self.joined(counts)}
            lines.insert(0, self.say("summary", count=len(verdicts), **about))
        else:
            equal, undecided = map(verdicts.count, (EQUAL, INCONCLUSIVE))
            lines = [self.say("none", count=len(verdicts), equal=equal, undecided=undecided)]
        if all(max(pair["processes"]) == 1 for pair in self.document["pairs"]):
            # Two processes, each with its own offset, and the margin on top.
            spread = UNREPLICATED.deviation
            least = (1 + self.document["margin"]) * (1 + 1.96 * 2**0.5 * spread) - 1
            shown = {"spread": f"{percentage(spread)}%", "least": f"{percentage(least)}%"}
            lines.append(self.say("single", **shown))
        return lines

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
                "only.one" if len(lacking["shapes"]) == 1 else "only",
                name=side["name"],
                count=len(lacking["shapes"]),
                **{**lacking, "shapes": self._shapes(lacking["shapes"])},
            )
            for side, groups in zip(self.document["sides"], self.document["only"], strict=True)
            for lacking in groups
        ]
        return lines or [self.say("only.none")]
