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
from flashlab.analysis.ratio_pairs import over_ideal, times_ideal
from flashlab.analysis.ratios import (
    INTERVALS,
    Ratio,
    interval_json,
    rounded,
    shared_verdict,
    without_samples,
)
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.telling.values import MetricName, Number, say

AGAINST_IDEAL = {"equal": "as_operations", "above": "above", "below": "below"}

MESSAGES = {
    "as_operations": "balance.as_operations",
    "above": "balance.above",
    "below": "balance.below",
    "mixed": "balance.mixed",
}


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
            shares = [over_ideal(value, ideal, above[value], below[value]) for value in below]
            found = [times_ideal(share, ideal) for share in shares]
            verdict, facts = verdict_of(shares), describe_range(found) | {"ideal": rounded(ideal)}
            told = []
            if verdict in MESSAGES:
                values = quoted([series], other_metric=MetricName(first.name))
                values |= {"ideal": Number(facts["ideal"])}
                values |= quoted_range(facts, sweep.parameter.symbol)
                told = [say(MESSAGES[verdict], second.quantity.name, **values)]
            yield build_finding(
                "balance",
                [series],
                verdict,
                statements=told,
                facts=facts,
                method=f"median {second.labels['en']} over median {first.labels['en']}, judged as "
                f"a share of the ratio of their operations, {INTERVALS}",
                n=min((ratio.samples for ratio in found), default=0),
                estimates=[
                    {"value": ratio.value, **interval_json(ratio), "verdict": share.verdict}
                    for ratio, share in zip(found, shares, strict=True)
                ],
                reasons=without_samples(found),
                subject={"other_metric": first.name},
                each_alone=True,
            )


def _strength(finding: Finding) -> float:
    """How far the ratio lies from that of the operations, at most, as a power of two."""
    ideal = finding.facts["ideal"]
    return max(abs(math.log2(each["estimate"] / ideal)) for each in finding.estimates)


BALANCE = Kind(
    name="balance",
    label="kind.balance",
    verdicts=("as_operations", "above", "below", "mixed", "inconclusive"),
    of_experiment=[(SWEEPS, balances)],
    told="briefly",
    strength=_strength,
)
