"""What the verdicts of a comparison amount to: which implementation changed, by how much, where.

Where all changes of a metric of an implementation are at the sizes or variants that one condition
describes, or two do together, and the others are not, the difference names the conditions.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flashlab.benchmarks.model import Benchmark, Value
from flashlab.compare.pairs import Pair
from flashlab.compare.rule import EQUAL, INCONCLUSIVE, STATED

FEWEST_DECIDED = 0.5
"""Least share of the runs under a condition that must have the verdict; the rest may be open."""

RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """A condition on a parameter: one of `RELATIONS` to a value."""

    parameter: str
    relation: str
    value: Value

    def holds(self, parameters: Mapping[str, Value]) -> bool:
        """Whether a run with these parameters meets it."""
        return RELATIONS[self.relation](parameters[self.parameter], self.value)


@dataclass(frozen=True)
class Difference:
    """The runs of an implementation with one verdict on a metric, and what became of the others.

    It stands so in comparison.json. `low` and `high` bound the ratios of these runs. `conditions`
    describe them, None where no conditions do. `shapes` are theirs in short. `doubtful` of them
    carry these `warnings`.
    """

    implementation: str
    metric: str | None
    verdict: str
    low: float | None
    high: float | None
    conditions: Sequence[Mapping[str, Any]] | None
    shapes: Sequence[str]
    total: int
    equal: int
    undecided: int
    doubtful: int
    warnings: Sequence[str]


def _conditions(benchmark: Benchmark, pairs: Sequence[Pair]) -> Iterator[Condition]:
    """Every condition that some of these runs meet and others do not.

    Sizes come before variants, and first the size that takes the most values: of conditions that
    describe the same runs, it is the one that was meant to vary.
    """
    values = [
        (parameter, sorted({pair.parameters[parameter.name] for pair in pairs}))
        for parameter in benchmark.parameters
    ]
    for parameter, taken in sorted(values, key=lambda item: (item[0].is_variant, -len(item[1]))):
        if len(taken) < 2:
            continue
        if not parameter.is_variant:
            yield from (Condition(parameter.name, "<=", value) for value in taken[1:-1])
            yield from (Condition(parameter.name, ">=", value) for value in taken[1:-1])
        yield from (Condition(parameter.name, "==", value) for value in taken)


def _describe(
    benchmark: Benchmark, pairs: Sequence[Pair], verdict: str
) -> list[Mapping[str, Any]] | None:
    """The fewest conditions that all runs of a verdict meet and no other decided run does.

    Empty if that is so of all runs; None where no one or two conditions tell them apart.
    """
    every = frozenset(range(len(pairs)))
    wanted = frozenset(i for i in every if pairs[i].verdict == verdict)
    others = frozenset(i for i in every if pairs[i].verdict not in (verdict, INCONCLUSIVE))
    meeting = {
        condition: frozenset(i for i in every if condition.holds(pairs[i].parameters))
        for condition in _conditions(benchmark, pairs)
    }
    possible = [condition for condition, runs in meeting.items() if wanted <= runs]

    def together(conditions: Iterable[Condition]) -> frozenset[int]:
        return every.intersection(*(meeting[condition] for condition in conditions))

    for count in range(3):
        fitting = [
            conditions
            for conditions in itertools.combinations(possible, count)
            if len({condition.parameter for condition in conditions}) == count
            and not (runs := together(conditions)) & others
            and len(wanted) >= FEWEST_DECIDED * len(runs)
        ]
        if fitting:
            fewest = min(fitting, key=lambda conditions: len(together(conditions)))
            return [vars(condition) for condition in fewest]
    return None


def _of_metric(benchmark: Benchmark, pairs: Sequence[Pair]) -> Iterator[Difference]:
    """The differences in one metric of one implementation."""
    verdicts = Counter(pair.verdict for pair in pairs)
    for verdict in STATED:
        differing = [pair for pair in pairs if pair.verdict == verdict]
        if not differing:
            continue
        ratios = [pair.ratio for pair in differing if pair.ratio]
        yield Difference(
            implementation=differing[0].run["implementation"],
            metric=differing[0].metric,
            verdict=verdict,
            low=min(ratios, default=None),
            high=max(ratios, default=None),
            conditions=_describe(benchmark, pairs, verdict),
            shapes=[pair.shape for pair in differing],
            total=len(pairs),
            equal=verdicts[EQUAL],
            undecided=verdicts[INCONCLUSIVE],
            doubtful=sum(bool(pair.warnings) for pair in differing),
            warnings=sorted({code for pair in differing for code in pair.warnings}),
        )


def _by_metric(pairs: Iterable[Pair]) -> dict[tuple[str, str | None], list[Pair]]:
    """The pairs of each implementation and metric; failures have none."""
    groups: dict[tuple[str, str | None], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.run["implementation"], pair.metric), []).append(pair)
    return groups


def find_differences(benchmark: Benchmark, pairs: Sequence[Pair]) -> list[Difference]:
    """The differences that are stated, the most pressing first."""
    # Every run of an implementation once, as what it is about failures: it failed, or it did not.
    runs = {tuple(pair.run.values()): pair for pair in pairs}
    failures = [
        pair if pair.metric is None else replace(pair, metric=None, verdict=EQUAL)
        for pair in runs.values()
    ]
    measured = [pair for pair in pairs if pair.metric is not None]
    groups = [*_by_metric(failures).values(), *_by_metric(measured).values()]
    found = [difference for group in groups for difference in _of_metric(benchmark, group)]
    return sorted(found, key=lambda difference: STATED.index(difference.verdict))


def count_verdicts(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """How many runs have which verdict, for each implementation and metric."""
    return [
        {
            "implementation": name,
            "metric": metric,
            "verdicts": dict(sorted(Counter(pair.verdict for pair in group).items())),
        }
        for (name, metric), group in _by_metric(pairs).items()
        if metric is not None
    ]
