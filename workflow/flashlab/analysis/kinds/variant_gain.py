"""What a variant that saves operations gains in time, against the ratio of the operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, Given, Kind
from flashlab.analysis.ratios import rounded
from flashlab.analysis.settings import (
    implementations_of,
    operations,
    pair_finding,
    pairs_of,
    settings_of,
    timed_metrics,
)
from flashlab.telling.codes import by_code
from flashlab.telling.values import Label, Number

MESSAGES = by_code(
    "variant_gain.as_operations", "variant_gain.above", "variant_gain.below", "variant_gain.mixed"
)

AGAINST_IDEAL = {"equal": "as_operations"}
"""What ratios amount to as shares of what operations say."""


def variant_gains(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """For each variant that saves operations: its factor in each time of each implementation."""
    benchmark, settings = experiments[0].benchmark, settings_of(experiments)
    names, metrics = implementations_of(experiments), timed_metrics(benchmark)
    for parameter in (each for each in benchmark.variants if each.kind is bool):
        every = [
            pair if pair[0].parameters[parameter.name] is False else (pair[1], pair[0])
            for pair in pairs_of(settings, [parameter.name])
        ]
        for name, metric in itertools.product(names, metrics):
            pairs = [pair for pair in every if all(name in setting.runs for setting in pair)]
            ideals = {
                operations(metric, off.parameters) / operations(metric, on.parameters)
                for off, on in pairs
            }
            if len(ideals) != 1 or (ideal := ideals.pop()) <= 1:
                continue
            yield pair_finding(
                "variant_gain",
                benchmark,
                given.estimates,
                pairs,
                verdicts=AGAINST_IDEAL,
                messages=MESSAGES,
                metric=metric,
                ideal=ideal,
                subject={"implementation": name, "switched": parameter.name},
                named={"switched": Label(parameter.labels), "ideal": Number(rounded(ideal))},
            )


VARIANT_GAIN = Kind(
    label="kind.variant_gain",
    verdicts=(*MESSAGES, "inconclusive"),
    of_dataset=[(CHOICES, variant_gains)],
    told="of the dataset",
)
