"""How many times as fast an implementation is with packed inputs as with separate ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import COMPARED, Given, Kind
from flashlab.analysis.kinds.comparison import MESSAGES, compared_ratios, ratio_finding
from flashlab.analysis.series import Series


def packings(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Each implementation with packed inputs against itself with separate ones, totals too."""
    metrics = [*metrics_of(experiment.benchmark, exact=False), *experiment.benchmark.totals]
    pairs = sorted(experiment.packed.items())
    for (name, other), variant, metric in itertools.product(pairs, experiment.variants, metrics):
        pair = [Series(experiment, who, variant, metric) for who in (name, other)]
        ratios, against = compared_ratios(given, pair), {"baseline": other}
        yield ratio_finding("packed", MESSAGES, pair, ratios, against, against)


PACKED = Kind(
    label="kind.packed",
    verdicts=("better", "worse", "equivalent", "inconclusive", "mixed"),
    of_experiment=[(COMPARED, packings)],
    told="in full",
)
