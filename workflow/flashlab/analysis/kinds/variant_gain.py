"""What a variant that saves operations gains in time, against the ratio of the operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, Given, Kind
from flashlab.analysis.kinds.balance import verdict_of
from flashlab.analysis.rates import operations, timed_metrics
from flashlab.analysis.ratio_pairs import implementations_of, pair_finding, pairs_of, shares_of
from flashlab.analysis.ratios import rounded
from flashlab.analysis.settings import settings_of
from flashlab.telling.values import Label, Number

MESSAGES = {
    "as_operations": "variant_gain.as_operations",
    "above": "variant_gain.above",
    "below": "variant_gain.below",
    "mixed": "variant_gain.mixed",
}


def variant_gains(sweeps: Sequence[Sweep], given: Given) -> Iterator[Finding]:
    """For each variant that saves operations: its factor in each time of each implementation."""
    benchmark, settings = sweeps[0].benchmark, settings_of(sweeps)
    for parameter in benchmark.variants:
        if parameter.kind is not bool:
            continue
        pairs = [
            pair if pair[0].parameters[parameter.name] is False else (pair[1], pair[0])
            for pair in pairs_of(settings, [parameter.name])
        ]
        timed = timed_metrics(benchmark)
        for name, metric in itertools.product(implementations_of(sweeps), timed):
            mine = [pair for pair in pairs if all(name in setting.runs for setting in pair)]
            ideals = {
                operations(metric, off.parameters) / operations(metric, on.parameters)
                for off, on in mine
            }
            if len(ideals) != 1 or (ideal := ideals.pop()) <= 1:
                continue
            shares = shares_of(mine, name, metric, ideal, given.estimates)
            yield pair_finding(
                "variant_gain",
                sweeps,
                mine,
                shares,
                ideal,
                verdict_of(shares),
                messages=MESSAGES,
                metric=metric,
                subject={"implementation": name, "switched": parameter.name},
                named={"switched": Label(parameter.labels), "ideal": Number(rounded(ideal))},
                method=f"median {metric.labels['en']} without {parameter.name} over that with it, "
                "all else equal, judged as a share of the ratio of the operations",
            )


VARIANT_GAIN = Kind(
    name="variant_gain",
    label="kind.variant_gain",
    verdicts=(*MESSAGES, "inconclusive"),
    of_dataset=[(CHOICES, variant_gains)],
    told="of the dataset",
)
