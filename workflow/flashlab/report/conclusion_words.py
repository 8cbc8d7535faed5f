"""What the sentences of a conclusion quote, in words: ranges, and lists of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.findings.model import Finding
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    Measured,
    Range,
    Run,
    Tellable,
    Within,
    clauses,
    say,
    settings,
)

SPANS = {
    "ratio_range": ("low", "high"),
    "exact_share": ("exact_low", "exact_high"),
    "lead": ("lead_low", "lead_high"),
    "on_range": ("on_low", "on_high"),
    "off_range": ("off_low", "off_high"),
    "wrong_range": ("wrong_low", "wrong_high"),
    "avoid_range": ("avoid_low", "avoid_high"),
    "steps_range": ("steps_low", "steps_high"),
}
"""Ranges of a conclusion, by the params of their ends."""

LABELS = (
    *("cause_metric", "limit_part", "matrix_part", "balance_part", "balance_other", "busiest"),
    "counter",
)
"""Params that are labels and stand within a sentence."""


def word_conclusion(
    benchmark: Benchmark, finding: Finding, symbol: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """What a conclusion's sentences quote beside its params as printed."""
    told = finding.params
    worder = _Worder(benchmark, symbol)
    found: dict[str, Any] = {
        name: Range(params[low], params[high])
        for name, (low, high) in SPANS.items()
        if low in params and high in params
    }
    found |= {name: Within(params[name]) for name in LABELS if name in told}
    found |= {
        f"{name}_heading": Heading(Label(told[name]))
        for name in ("exact_metric", "effect_of")
        if name in told
    }
    if "inconclusive_count" in told and finding.metric:
        found["standings"] = worder.standings(told, benchmark.metric(finding.metric).quantity.name)
    if "switched" in finding.subject:
        switched = benchmark.parameter(finding.subject["switched"])
        found["switched_heading"] = Heading(Label(switched.labels))
    if "metric_label" in told and finding.metric:
        found["use"] = say("use", finding.metric, metric=Heading(params["metric_label"]))
    for name, word in (
        ("parts", worder.parts),
        ("effects", worder.effects),
        ("outcomes", worder.outcomes),
        ("winners", worder.winners),
        ("part_winners", worder.winners),
        ("stretches", worder.stretches),
        ("leads", worder.leads),
        ("also", worder.counts),
        ("counts", worder.counts),
        ("climb", worder.climb),
        ("places", worder.places),
        ("absent", worder.absent),
        ("level_names", worder.runs),
        ("effect_outcomes", worder.effect_outcomes),
        ("break_even", worder.break_even),
    ):
        if name in told:
            found[name] = word(told[name])
    if told.get("more"):
        found["places"] = say("conclusion.more", items=found["places"], count=told["more"])
    return found


def _figure(value: Any) -> Tellable:
    return Measured(value) if isinstance(value, float) else str(value)


class _Worder:
    """Words for the lists of a conclusion."""

    def __init__(self, benchmark: Benchmark, symbol: str) -> None:
        self.benchmark, self.symbol = benchmark, symbol

    def parts(self, parts: Sequence[Mapping[str, Any]], first: bool = True) -> Tellable:
        """``Forward 4.00–4.63×, backward 2.30–2.59×``."""
        told = []
        for position, part in enumerate(parts):
            label = Label(part["label"])
            told.append(
                say(
                    "conclusion.each.part",
                    part=label if first and not position else Within(label),
                    range=Range(_figure(part["low"]), _figure(part["high"])),
                )
            )
        return Listed(told)

    def effects(self, effects: Sequence[Mapping[str, Any]]) -> Tellable:
        """What a variant does to each implementation."""
        return clauses(
            say("conclusion.each.effect", name=e["name"], parts=self.parts(e["parts"], False))
            for e in effects
        )

    def outcomes(self, outcomes: Sequence[Mapping[str, Any]]) -> Tellable:
        """Whom a variant helps."""
        return clauses(
            say(
                f"conclusion.outcome.{outcome['code']}",
                *self.benchmark.quantities,
                names=Listed(outcome["names"]),
            )
            for outcome in outcomes
        )

    def standings(self, told: Mapping[str, Any], quantity: str) -> Tellable:
        """``faster at 5, undecided at 2``: at how many settings, of those verdicts that there are.

        `told` are the params of a conclusion that counts them.
        """
        counts = {
            verdict: told[f"{verdict}_count"]
            for verdict in ("better", "worse", "equivalent", "inconclusive")
        }
        return Listed(
            [
                say(f"conclusion.each.standing.{verdict}", quantity, count=count)
                for verdict, count in counts.items()
                if count
            ]
        )

    def _at(self, values: Sequence[int], is_first: bool, is_last: bool) -> Tellable:
        """Where a stretch of values is: up to one, from one on, or between two."""
        key = "all" if is_first and is_last else "to" if is_first else "from" if is_last else "span"
        if len(values) == 1 and not (is_first and is_last):
            key = "at"
        return say(f"conclusion.stretch.{key}", symbol=self.symbol, low=values[0], high=values[-1])

    def winners(self, winners: Sequence[Mapping[str, Any]]) -> Tellable:
        """``SdpaCudnn up to N = 1024; Flash4 from N = 2048``."""
        return clauses(
            say(
                "conclusion.each.winner",
                names=Listed(each["names"], "conclusion.or"),
                where=self._at(each["values"], position == 0, position == len(winners) - 1),
            )
            for position, each in enumerate(winners)
        )

    stretches = winners

    def leads(self, leads: Sequence[Mapping[str, Any]]) -> Tellable:
        """``Flash4 7–20%, SdpaCudnn 7.6–44%``."""
        return Listed(
            [
                say("conclusion.each.lead", name=e["name"], range=Range(e["low"], e["high"]))
                for e in leads
            ]
        )

    def climb(self, climbed: Sequence[Mapping[str, Any]]) -> Tellable:
        """``SharedTiles 4.2×, Padded 1.1×``."""
        return Listed([f"{each['name']} {each['factor']}×" for each in climbed])

    def counts(self, counts: Sequence[Mapping[str, Any]]) -> Tellable:
        """``SdpaEfficient 6, Flex 1``."""
        return Listed(
            [
                say(
                    "choice.count",
                    name=each.get("name", each.get("implementation")),
                    count=each.get("count", each.get("level")),
                )
                for each in counts
            ]
        )

    def places(self, places: Sequence[Mapping[str, Any]]) -> Tellable:
        """Settings, in short."""
        return clauses(Listed(settings(self.benchmark, place)) for place in places)

    def runs(self, runs: Sequence[Mapping[str, Any]]) -> Tellable:
        """``Flash2 [compiled], SdpaCudnn [eager]``."""
        return Listed([Run(run["name"], settings(self.benchmark, run["setting"])) for run in runs])

    def effect_outcomes(self, outcomes: Sequence[Mapping[str, Any]]) -> Tellable:
        """``faster: Pytorch 1.92×; no difference: Flash2 1.01×``."""
        return clauses(
            say(
                f"conclusion.alternatives.outcome.{outcome['code']}",
                effects=Listed(
                    [
                        say("conclusion.each.times", name=e["name"], times=_figure(e["times"]))
                        for e in outcome["effects"]
                    ]
                ),
            )
            for outcome in outcomes
        )

    def break_even(self, steps: Sequence[Mapping[str, Any]]) -> Tellable:
        """``Pytorch from 91 on``."""
        return Listed(
            [say("conclusion.each.step", name=e["name"], count=e["count"]) for e in steps]
        )

    def absent(self, codes: Sequence[str]) -> Tellable:
        """What was looked for and not found."""
        return Listed([say(f"conclusion.absent.{code}") for code in codes])
