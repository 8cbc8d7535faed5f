"""What the verdicts of a comparison amount to: which implementation changed, by how much, where.

Where all changes of a metric of an implementation are at the sizes or variants that one condition
describes, or two do together, and the others are not, the conclusion names the conditions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flashlab.benchmarks.model import Benchmark, Value
from flashlab.comparing.verdicts import EQUAL, FAILED, GAINS, INCONCLUSIVE, LOSSES, MENDED, Pair

STATED = (FAILED, *LOSSES, MENDED, *GAINS)
"""The verdicts that state a difference, the most pressing first."""

FEWEST_DECIDED = 0.5
"""Least share of the runs under a condition that must have the verdict; the rest may be open."""


@dataclass(frozen=True)
class Condition:
    """A condition on a parameter: ``==``, ``<=`` or ``>=`` a value."""

    parameter: str
    relation: str
    value: Value

    def holds(self, parameters: dict[str, Value]) -> bool:
        """Whether a run with these parameters meets it."""
        found = parameters[self.parameter]
        if self.relation == "==":
            return found == self.value
        assert isinstance(found, int)
        assert isinstance(self.value, int)
        return found <= self.value if self.relation == "<=" else found >= self.value


def _conditions(benchmark: Benchmark, settings: Sequence[dict[str, Value]]) -> list[Condition]:
    """Every condition that some of these settings meet and others do not.

    Sizes come before variants, and first the size that takes the most values: of conditions that
    describe the same runs, it is the one that was meant to vary.
    """
    found: list[Condition] = []
    taken = [
        (parameter, sorted({setting[parameter.name] for setting in settings}))
        for parameter in benchmark.parameters
    ]
    for parameter, values in sorted(taken, key=lambda p: (p[0].is_variant, -len(p[1]))):
        if len(values) < 2:
            continue
        if not parameter.is_variant:
            found += [Condition(parameter.name, "<=", value) for value in values[1:-1]]
            found += [Condition(parameter.name, ">=", value) for value in values[1:-1]]
        found += [Condition(parameter.name, "==", value) for value in values]
    return found


def _described(
    benchmark: Benchmark,
    settings: Sequence[dict[str, Value]],
    verdicts: Sequence[str],
    wanted: str,
) -> tuple[Condition, ...] | None:
    """The fewest conditions that all runs of a verdict meet and no decided other run does.

    Empty if that is so of all runs; None where no one or two conditions tell them apart.
    """
    conditions = _conditions(benchmark, settings)
    met: dict[Condition, frozenset[int]] = {
        condition: frozenset(i for i, s in enumerate(settings) if condition.holds(s))
        for condition in conditions
    }
    mine = frozenset(i for i, verdict in enumerate(verdicts) if verdict == wanted)
    others = frozenset(
        i for i, verdict in enumerate(verdicts) if verdict not in (wanted, INCONCLUSIVE)
    )

    def fits(runs: frozenset[int]) -> bool:
        return mine <= runs and not runs & others and len(mine) >= FEWEST_DECIDED * len(runs)

    every = frozenset(range(len(settings)))
    if fits(every):
        return ()
    fitting = [condition for condition in conditions if fits(met[condition])]
    if fitting:
        return (min(fitting, key=lambda condition: len(met[condition])),)
    pairs = [
        pair
        for pair in itertools.combinations([c for c in conditions if mine <= met[c]], 2)
        if pair[0].parameter != pair[1].parameter and fits(met[pair[0]] & met[pair[1]])
    ]
    return min(pairs, key=lambda pair: len(met[pair[0]] & met[pair[1]])) if pairs else None


@dataclass(frozen=True)
class Conclusion:
    """The runs of an implementation with one verdict on a metric, and what became of the others.

    `low` and `high` bound the ratios of these runs. `conditions` describe them, None where no
    conditions do. `shapes` are theirs in short. `doubtful` of them carry these `warnings`.
    """

    implementation: str
    metric: str | None
    verdict: str
    low: float | None
    high: float | None
    conditions: tuple[Condition, ...] | None
    shapes: Sequence[str]
    total: int
    equal: int
    undecided: int
    doubtful: int
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The conclusion as it stands in comparison.json."""
        conditions = self.conditions
        told = None if conditions is None else [vars(condition) for condition in conditions]
        return {**vars(self), "conditions": told, "shapes": list(self.shapes)}


def _of_metric(benchmark: Benchmark, pairs: Sequence[Pair]) -> Iterator[Conclusion]:
    verdicts = [pair.verdict for pair in pairs]
    settings = [benchmark.all_parameters(pair.run) for pair in pairs]
    for verdict in STATED:
        mine = [pair for pair in pairs if pair.verdict == verdict]
        if not mine:
            continue
        ratios = [pair.ratio.ratio for pair in mine if pair.ratio]
        yield Conclusion(
            implementation=mine[0].run.implementation,
            metric=mine[0].metric_name,
            verdict=verdict,
            low=min(ratios, default=None),
            high=max(ratios, default=None),
            conditions=_described(benchmark, settings, verdicts, verdict),
            shapes=[" ".join(pair.run.words) for pair in mine],
            total=len(pairs),
            equal=verdicts.count(EQUAL),
            undecided=verdicts.count(INCONCLUSIVE),
            doubtful=sum(bool(pair.warnings) for pair in mine),
            warnings=sorted({code for pair in mine for code in pair.warnings}),
        )


def _groups(pairs: Sequence[Pair], key: Callable[[Pair], Any]) -> list[list[Pair]]:
    groups: dict[Any, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(key(pair), []).append(pair)
    return list(groups.values())


def _by_metric(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """The pairs of each implementation and metric, failures left out."""
    with_metric = [pair for pair in pairs if pair.metric is not None]
    return _groups(with_metric, lambda pair: (pair.run.implementation, pair.metric_name))


def conclude(benchmark: Benchmark, pairs: Sequence[Pair]) -> list[Conclusion]:
    """The differences that are stated, the most pressing first."""
    found: list[Conclusion] = []
    for mine in _groups(pairs, lambda pair: pair.run.implementation):
        # Every run of the implementation once: it failed on one side, or it did not.
        runs = {pair.run: pair for pair in mine}.values()
        found += _of_metric(
            benchmark,
            [p if p.metric is None else replace(p, metric=None, verdict=EQUAL) for p in runs],
        )
    for mine in _by_metric(pairs):
        found += _of_metric(benchmark, mine)
    return sorted(found, key=lambda conclusion: STATED.index(conclusion.verdict))


def count_verdicts(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """How many runs have which verdict, for each implementation and metric."""
    return [
        {
            "implementation": mine[0].run.implementation,
            "metric": mine[0].metric_name,
            "verdicts": dict(sorted(Counter(pair.verdict for pair in mine).items())),
        }
        for mine in _by_metric(pairs)
    ]
