"""What the verdicts of a comparison amount to: which implementation changed, by how much, where.

Where all changes of a metric of an implementation are at the sizes or variants that one condition
describes, or two do together, and the others are not, the conclusion names the conditions.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.compare.pairs import Pair
from flashlab.compare.rule import EQUAL, INCONCLUSIVE, STATED

FEWEST_DECIDED = 0.5
"""Least share of the runs under a condition that must have the verdict; the rest may be open."""

Condition = Mapping[str, Any]
"""A ``parameter``, its ``relation`` (``==``, ``<=``, ``>=``) to a ``value``."""


def _conditions(
    benchmark: Benchmark, pairs: Sequence[Pair]
) -> Iterator[tuple[Condition, frozenset[int]]]:
    """Every condition that some of these runs meet and others do not, with those that meet it.

    Sizes come before variants, and first the size that takes the most values: of conditions that
    describe the same runs, it is the one that was meant to vary.
    """
    columns = [(p, [pair["parameters"][p.name] for pair in pairs]) for p in benchmark.parameters]
    for parameter, column in sorted(columns, key=lambda c: (c[0].is_variant, -len({*c[1]}))):
        values = sorted({*column})
        inner = [] if parameter.is_variant else values[1:-1]
        relations = (("<=", operator.le, inner), (">=", operator.ge, inner))
        for relation, holds, ends in (*relations, ("==", operator.eq, values)):
            for end in ends if len(values) > 1 else ():
                met = frozenset(i for i, value in enumerate(column) if holds(value, end))
                yield {"parameter": parameter.name, "relation": relation, "value": end}, met


def _describe(benchmark: Benchmark, pairs: Sequence[Pair], verdict: str) -> list[Condition] | None:
    """The fewest conditions that all runs of a verdict meet and no other decided run does.

    Empty if that is so of all runs; None where no one or two conditions tell them apart.
    """
    every = frozenset(range(len(pairs)))
    wanted = frozenset(i for i in every if pairs[i]["verdict"] == verdict)
    others = frozenset(i for i in every if pairs[i]["verdict"] not in (verdict, INCONCLUSIVE))
    possible = [(c, met) for c, met in _conditions(benchmark, pairs) if wanted <= met]
    for count in range(3):
        fitting = []
        for some in itertools.combinations(possible, count):
            conditions = [condition for condition, _ in some]
            met = every.intersection(*(met for _, met in some))
            of_several = len({condition["parameter"] for condition in conditions}) == count
            if of_several and not met & others and len(wanted) >= FEWEST_DECIDED * len(met):
                fitting.append((len(met), conditions))
        if fitting:
            return min(fitting, key=operator.itemgetter(0))[1]
    return None


def _conclude(benchmark: Benchmark, pairs: Sequence[Pair], verdict: str) -> dict[str, Any]:
    """The runs of an implementation with a verdict on a metric.

    ``low`` and ``high`` bound the ratios of these runs, which are of medians, and ``interval``
    their intervals. ``conditions`` describe them, None where no conditions do. ``shapes`` are
    theirs in short. ``doubtful`` of them carry these ``warnings``.
    """
    these = [pair for pair in pairs if pair["verdict"] == verdict]
    ratios, lows, highs = (
        [pair[part] for pair in these if pair["ratio"]] for part in ("ratio", "low", "high")
    )
    return {
        "implementation": these[0]["run"]["implementation"],
        "metric": these[0]["metric"],
        "verdict": verdict,
        "low": min(ratios, default=None),
        "high": max(ratios, default=None),
        "interval": [min(lows, default=None), max(highs, default=None)],
        "conditions": _describe(benchmark, pairs, verdict),
        "shapes": [pair["shape"] for pair in these],
        "total": len(pairs),
        "doubtful": sum(bool(pair["warnings"]) for pair in these),
        "warnings": sorted({code for pair in these for code in pair["warnings"]}),
    }


def _by_metric(pairs: Iterable[Pair]) -> dict[tuple[str, str | None], list[Pair]]:
    """The pairs of each implementation and metric; failures have none."""
    groups: dict[tuple[str, str | None], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair["run"]["implementation"], pair["metric"]), []).append(pair)
    return groups


def conclude(benchmark: Benchmark, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The differences that are stated, the most pressing first (`_conclude`)."""
    # Every run once, as what it is about failures: it failed, or it did not.
    runs = {tuple(pair["run"].values()): pair for pair in pairs}
    ended = [
        p if p["metric"] is None else {**p, "metric": None, "verdict": EQUAL} for p in runs.values()
    ]
    measured = [pair for pair in pairs if pair["metric"] is not None]
    groups = [*_by_metric(ended).values(), *_by_metric(measured).values()]
    return [
        _conclude(benchmark, group, verdict)
        for verdict in STATED
        for group in groups
        if any(pair["verdict"] == verdict for pair in group)
    ]


def count_verdicts(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """How many runs have which verdict, for each implementation and metric."""
    return [
        {
            "implementation": name,
            "metric": metric,
            "verdicts": dict(sorted(Counter(pair["verdict"] for pair in group).items())),
        }
        for (name, metric), group in _by_metric(pairs).items()
        if metric is not None
    ]
