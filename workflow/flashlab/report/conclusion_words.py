"""What the sentences of a conclusion quote, in words: ranges, and lists of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.findings.model import Finding
from flashlab.report.wording import Texts, Words, join_range

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
    words: Words, benchmark: Benchmark, finding: Finding, symbol: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """What a conclusion's sentences quote beside its params as printed."""
    told = finding.params
    worder = _Worder(words, benchmark, symbol)
    found: dict[str, Any] = {
        name: {key: join_range(params[low][key], params[high][key]) for key in words.languages}
        for name, (low, high) in SPANS.items()
        if low in params and high in params
    }
    found |= {name: _lowered(params[name]) for name in LABELS if name in told}
    found |= {
        f"{name}_heading": words.heading(params[name])
        for name in ("exact_metric", "effect_of")
        if name in told
    }
    if "inconclusive_count" in told and finding.metric:
        found["standings"] = worder.standings(told, benchmark.metric(finding.metric).quantity.name)
    if "switched" in finding.subject:
        switched = benchmark.parameter(finding.subject["switched"])
        found["switched_heading"] = words.heading(words.label(switched.labels))
    if "metric_label" in told and finding.metric:
        key = words.most_special("use", benchmark, [finding.metric])
        label = words.heading(params["metric_label"])
        found["use"] = words.each(key, metric=label)
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
        found["places"] = words.each("conclusion.more", items=found["places"], count=told["more"])
    return found


def _lowered(texts: Texts) -> Texts:
    """A label within a sentence."""
    return {key: text[:1].lower() + text[1:] for key, text in texts.items()}


class _Worder:
    """Words for the lists of a conclusion."""

    def __init__(self, words: Words, benchmark: Benchmark, symbol: str) -> None:
        self.words, self.benchmark, self.symbol = words, benchmark, symbol

    def _range(self, low: Any, high: Any) -> Texts:
        printed = self.words.printed({"low": low, "high": high})
        return {
            key: join_range(printed["low"][key], printed["high"][key])
            for key in self.words.languages
        }

    def parts(self, parts: Sequence[Mapping[str, Any]], first: bool = True) -> Texts:
        """``Forward 4.00–4.63×, backward 2.30–2.59×``."""
        words, told = self.words, []
        for position, part in enumerate(parts):
            label = words.label(part["label"])
            told.append(
                words.each(
                    "conclusion.each.part",
                    part=label if first and not position else _lowered(label),
                    range=self._range(part["low"], part["high"]),
                )
            )
        return words.listed(told)

    def effects(self, effects: Sequence[Mapping[str, Any]]) -> Texts:
        """What a variant does to each implementation."""
        return self.words.joined(
            "clauses.separator",
            [
                self.words.each(
                    "conclusion.each.effect", name=e["name"], parts=self.parts(e["parts"], False)
                )
                for e in effects
            ],
        )

    def outcomes(self, outcomes: Sequence[Mapping[str, Any]]) -> Texts:
        """Whom a variant helps."""
        return self.words.joined(
            "clauses.separator",
            [
                self.words.each(
                    self.words.most_special(
                        f"conclusion.outcome.{outcome['code']}",
                        self.benchmark,
                        [q for q in self.benchmark.quantities],
                    ),
                    names=self.words.listed(outcome["names"]),
                )
                for outcome in outcomes
            ],
        )

    def standings(self, told: Mapping[str, Any], quantity: str) -> Texts:
        """``faster at 5, undecided at 2``: at how many settings, of those verdicts that there are.

        `told` are the params of a conclusion that counts them.
        """
        key, words = "conclusion.each.standing", self.words
        counts = {
            verdict: told[f"{verdict}_count"]
            for verdict in ("better", "worse", "equivalent", "inconclusive")
        }
        return words.listed(
            [
                words.each(
                    words.most_special(f"{key}.{verdict}", self.benchmark, [quantity]), count=count
                )
                for verdict, count in counts.items()
                if count
            ]
        )

    def _at(self, values: Sequence[int], is_first: bool, is_last: bool) -> Texts:
        """Where a stretch of values is: up to one, from one on, or between two."""
        key = "all" if is_first and is_last else "to" if is_first else "from" if is_last else "span"
        if len(values) == 1 and not (is_first and is_last):
            key = "at"
        return self.words.each(
            f"conclusion.stretch.{key}",
            symbol=self.symbol,
            low=values[0],
            high=values[-1],
        )

    def winners(self, winners: Sequence[Mapping[str, Any]]) -> Texts:
        """``SdpaCudnn up to N = 1024; Flash4 from N = 2048``."""
        return self.words.joined(
            "clauses.separator",
            [
                self.words.each(
                    "conclusion.each.winner",
                    names=self.words.joined("conclusion.or", map(self.words.same, each["names"])),
                    where=self._at(each["values"], position == 0, position == len(winners) - 1),
                )
                for position, each in enumerate(winners)
            ],
        )

    stretches = winners

    def leads(self, leads: Sequence[Mapping[str, Any]]) -> Texts:
        """``Flash4 7–20%, SdpaCudnn 7.6–44%``."""
        return self.words.listed(
            [
                self.words.each(
                    "conclusion.each.lead",
                    name=each["name"],
                    range=join_range(each["low"], each["high"]),
                )
                for each in leads
            ]
        )

    def climb(self, climbed: Sequence[Mapping[str, Any]]) -> Texts:
        """``SharedTiles 4.2×, Padded 1.1×``."""
        return self.words.listed([f"{each['name']} {each['factor']}×" for each in climbed])

    def counts(self, counts: Sequence[Mapping[str, Any]]) -> Texts:
        """``SdpaEfficient 6, Flex 1``."""
        return self.words.listed(
            [
                self.words.each(
                    "choice.count",
                    name=each.get("name", each.get("implementation")),
                    count=each.get("count", each.get("level")),
                )
                for each in counts
            ]
        )

    def places(self, places: Sequence[Mapping[str, Any]]) -> Texts:
        """Settings, in short."""
        return self.words.joined(
            "clauses.separator",
            [self.words.listed(self.words.settings(self.benchmark, place)) for place in places],
        )

    def runs(self, runs: Sequence[Mapping[str, Any]]) -> Texts:
        """``Flash2 [compiled], SdpaCudnn [eager]``."""
        words, benchmark = self.words, self.benchmark
        return words.listed(
            [
                words.with_settings(run["name"], words.settings(benchmark, run["setting"]))
                for run in runs
            ]
        )

    def effect_outcomes(self, outcomes: Sequence[Mapping[str, Any]]) -> Texts:
        """``faster: Pytorch 1.92×; no difference: Flash2 1.01×``."""
        words, told = self.words, []
        for outcome in outcomes:
            effects = words.listed(
                [
                    words.each(
                        "conclusion.each.times",
                        name=effect["name"],
                        times=words.printed({"times": effect["times"]})["times"],
                    )
                    for effect in outcome["effects"]
                ]
            )
            key = f"conclusion.alternatives.outcome.{outcome['code']}"
            told.append(words.each(key, effects=effects))
        return words.joined("clauses.separator", told)

    def break_even(self, steps: Sequence[Mapping[str, Any]]) -> Texts:
        """``Pytorch from 91 on``."""
        return self.words.listed(
            [
                self.words.each("conclusion.each.step", name=each["name"], count=each["count"])
                for each in steps
            ]
        )

    def absent(self, codes: Sequence[str]) -> Texts:
        """What was looked for and not found."""
        return self.words.listed([self.words.each(f"conclusion.absent.{code}") for code in codes])
