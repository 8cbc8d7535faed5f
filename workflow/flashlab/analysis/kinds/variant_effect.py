"""What switching a variant on does to each sampled metric and to their total."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flashlab.analysis.comparisons import variant_pairs
from flashlab.analysis.experiment import Experiment, chosen_metrics
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.kinds.comparison import Messages, compared_ratios, ratio_finding
from flashlab.analysis.series import Series
from flashlab.telling.values import Label

MESSAGES: Messages = {
    "better": ("variant_effect.better", "variant_effect.better.one"),
    "worse": ("variant_effect.worse", "variant_effect.worse.one"),
    "equivalent": ("variant_effect.equivalent", "variant_effect.equivalent.one"),
    "inconclusive": (
        "variant_effect.inconclusive",
        "variant_effect.inconclusive.one",
        "variant_effect.inconclusive.missing",
    ),
    "mixed": ("variant_effect.mixed",),
}


def variant_effects(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """What switching a variant on does to each sampled metric, and to their total."""
    names, metrics = sorted(experiment.implementations), chosen_metrics(experiment.benchmark)
    for switched, off, on in variant_pairs(experiment):
        named = {"switched": Label(experiment.benchmark.parameter(switched).labels)}
        for name, metric in itertools.product(names, metrics):
            pair = [Series(experiment, name, variant, metric) for variant in (on, off)]
            ratios, subject = compared_ratios(given, pair), {"switched": switched}
            yield ratio_finding("variant_effect", MESSAGES, pair, ratios, subject, named)


VARIANT_EFFECT = Kind(
    label="kind.variant_effect",
    verdicts=("better", "worse", "equivalent", "inconclusive", "mixed"),
    of_experiment=[(EXPERIMENTS, variant_effects)],
    told="in full",
)
