"""What is said of two sides, in one language: whole sentences and cells, from the catalogs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flashlab.analysis.replication import UNREPLICATED
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.circumstances import AGREES, CODE
from flashlab.compare.rule import EQUAL, GAINS, INCONCLUSIVE, LOSSES, VERDICTS
from flashlab.compare.words import DOUBT, NO_VALUE, between, percentage, say

SHOWN_SHAPES = 3
"""Most shapes that a sentence lists where no condition describes them."""

RELATIONS = {"==": "=", "<=": "≤", ">=": "≥"}


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
        rates = [
            self.say(
                "ceiling.copy" if rate["what"] == "copy" else "ceiling.product",
                what=rate["what"],
                before=f"{rate['one']:,.0f}",
                after=f"{rate['other']:,.0f}",
            )
            for rate in self.document["ceilings"]
        ]
        if rates:
            lines.append(self.say("ceilings", rates=self.joined(rates)))
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

    @property
    def lead(self) -> list[str]:
        """What comes first: the verdicts counted, whether the choice changes, what failed."""
        pairs = self.document["pairs"]
        if self.document["conclusions"]:
            measured = self.benchmark.measured
            groups = [[m for m in measured if m.exact == exact] for exact in (False, True)]
            lines = [line for metrics in groups if (line := self._counted(metrics))]
        else:
            counts = Counter(pair["verdict"] for pair in pairs)
            equal, undecided = counts[EQUAL], counts[INCONCLUSIVE]
            lines = [self.say("none", count=len(pairs), equal=equal, undecided=undecided)]
        lines += map(self._choice, self.document["choices"])
        for failing in self.document["failing"]:
            statuses = dict.fromkeys(self.say(failing[side]) for side in ("one", "other"))
            about = {**failing, "statuses": self.joined([*statuses])}
            lines.append(self._of_runs("failing", about, "failing.one"))
        if pairs and all(max(pair["processes"]) == 1 for pair in pairs):
            # Two processes, each with its own offset, and the margin on top.
            spread = UNREPLICATED.deviation
            least = (1 + self.document["margin"]) * (1 + 1.96 * 2**0.5 * spread) - 1
            shown = {"spread": f"{percentage(spread)}%", "least": f"{percentage(least)}%"}
            lines.append(self.say("single", **shown))
        return lines

    def _of_runs(self, key: str, about: Mapping[str, Any], key_of_one: str | None = None) -> str:
        """A message about runs, of which `about` has the ``shapes``; another one about a single."""
        shapes = about["shapes"]
        given = {**about, "count": len(shapes), "shapes": self._shapes(shapes)}
        return self.say((len(shapes) == 1 and key_of_one) or key, **given)

    def _counted(self, metrics: Sequence[Metric]) -> str:
        """How many comparisons of some metrics have which verdict; empty where there are none."""
        names = {metric.name for metric in metrics}
        pairs = [pair for pair in self.document["pairs"] if pair["metric"] in names]
        compared = {pair["metric"] for pair in pairs}
        labels = [m.labels[self.language] for m in metrics if m.name in compared]
        found = Counter(pair["verdict"] for pair in pairs)
        counts = [f"{self.say(v)} {found[v]}" for v in VERDICTS if found[v]]
        about = {"metrics": self.joined(labels), "count": len(pairs), "counts": self.joined(counts)}
        stated = {*found} & {*LOSSES, *GAINS}
        if not found:
            return ""
        if {*found} == {EQUAL}:
            return self.say("summary.equal", **about)
        if stated == {GAINS[0]}:
            return self.say("summary.no_slower", **about)
        if stated == {LOSSES[0]}:
            return self.say("summary.no_faster", **about)
        return self.say("summary", **about)

    def _choice(self, choice: Mapping[str, Any]) -> str:
        """At how many shapes it is decided who is fastest, and where that changes."""
        changed: dict[str, list[str]] = {}
        for change in choice["changes"]:
            names = self.say("choice.change", before=change["one"], after=change["other"])
            changed.setdefault(names, []).append(change["shape"])
        told = [
            self.say("choice.where", names=names, count=len(shapes), shapes=self._shapes(shapes))
            for names, shapes in changed.items()
        ]
        about = {
            **choice,
            "metric": self.benchmark.metric(choice["metric"]).labels[self.language],
            "names": self.joined(choice["kept"]),
            "count": len(choice["changes"]),
            "changes": self.joined(told),
        }
        return self.say("choice.changes" if told else "choice.same", **about)

    @property
    def failures(self) -> list[str]:
        """The runs that have a result on one side alone, a sentence for each implementation."""
        return [
            self._of_runs(f"statement.{found['verdict']}", found)
            for found in self.document["conclusions"]
            if found["metric"] is None
        ]

    @property
    def shown(self) -> list[str]:
        """The verdicts that any row of the table of counts has, in the order of its columns."""
        found = {verdict for row in self.counted_rows for verdict in row["verdicts"]}
        return [verdict for verdict in (*LOSSES, *GAINS, EQUAL, INCONCLUSIVE) if verdict in found]

    @property
    def counted_rows(self) -> list[Mapping[str, Any]]:
        """The counts of verdicts by implementation and metric, where not all are equal."""
        return [row for row in self.document["counts"] if row["verdicts"].keys() != {EQUAL}]

    @property
    def changed(self) -> frozenset[str]:
        """The implementations of which the sides hold other code or packages, or do not say so."""
        return frozenset(row["implementation"] for row in self.differing if row["implementation"])

    def differences(self, row: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
        """Of a row of the counts, each difference: verdict, ratios, intervals, and where it is."""
        return [
            (
                found["verdict"],
                between(found["low"], found["high"]),
                between(*found["interval"]),
                self._where(found) + (DOUBT if found["doubtful"] else ""),
            )
            for found in self.document["conclusions"]
            if (found["implementation"], found["metric"]) == (row["implementation"], row["metric"])
        ]

    def _where(self, difference: Mapping[str, Any]) -> str:
        if len(difference["shapes"]) == difference["total"]:
            return self.say("where.every")
        if difference["conditions"]:
            return self.joined([self._condition(each) for each in difference["conditions"]])
        return NO_VALUE

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
            self._of_runs("only", {"name": side["name"], **lacking}, "only.one")
            for side, groups in zip(self.document["sides"], self.document["only"], strict=True)
            for lacking in groups
        ]
        return lines or [self.say("only.none")]
