"""The ratio of the times of two metrics against that of their operations, along a sweep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.kinds.comparison import describe_range, quoted_range
from flashlab.analysis.rates import operations, timed_metrics
from flashlab.analysis.ratios import Ratio, ratio, rounded, shared_verdict
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.telling.codes import by_code
from flashlab.telling.values import MetricName, Number, say

AGAINST_IDEAL = {"equal": "as_operations", "above": "above", "below": "below"}

MESSAGES = by_code("balance.as_operations", "balance.above", "balance.below", "balance.mixed")


def verdict_of(shares: Sequence[Ratio]) -> str:
    """What ratios amount to as shares of what operations say."""
    shared = shared_verdict(shares)
    return AGAINST_IDEAL.get(shared, shared)


def balances(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """How each time stands to the one before it, where their operations have the same ratio."""
    names = sorted(sweep.implementations)
    for first, second in itertools.pairwise(timed_metrics(sweep.benchmark)):
        for name, variant in itertools.product(names, sweep.variants):
            base, series = (Series(sweep, name, variant, metric) for metric in (first, second))
            ideals = {operations(second, run) / operations(first, run) for run in series.runs}
            if len({rounded(ideal) for ideal in ideals}) != 1:
                continue
            ideal = ideals.pop()
            below, above = given.estimates.along(base), given.estimates.along(series)
            ratios = [ratio(value, above[value], below[value], ideal) for value in below]
            verdict, facts = verdict_of(ratios), describe_range(ratios) | {"ideal": rounded(ideal)}
            values = quoted([series], other_metric=MetricName(first.name))
            values |= {"ideal": Number(facts["ideal"])}
            values |= quoted_range(facts, sweep.parameter.symbol)
            key = MESSAGES.get(verdict)
            yield build_finding(
                "balance",
                [series],
                verdict,
                statements=[say(key, second.quantity.name, **values)] if key else [],
                facts=facts,
                ratios=ratios,
                subject={"other_metric": first.name},
                each_alone=True,
            )


def _strength(finding: Finding) -> float:
    """How far the ratio lies from that of the operations, at most, as a power of two."""
    ideal = finding.facts["ideal"]
    return max(abs(math.log2(each["estimate"] / ideal)) for each in finding.estimates)


BALANCE = Kind(
    label="kind.balance",
    verdicts=("as_operations", "above", "below", "mixed", "inconclusive"),
    of_experiment=[(SWEEPS, balances)],
    told="briefly",
    strength=_strength,
)
