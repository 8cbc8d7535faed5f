"""What a derived size does to each time at equal operations, from one value to the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, Given, Kind
from flashlab.analysis.kinds.comparison import VERDICTS
from flashlab.analysis.rates import operations, timed_metrics
from flashlab.analysis.ratio_pairs import (
    Pair,
    implementations_of,
    pair_finding,
    pairs_of,
    shares_of,
)
from flashlab.analysis.ratios import shared_verdict
from flashlab.analysis.settings import Setting, settings_of
from flashlab.benchmarks.model import Benchmark, Parameter

MESSAGES = {
    "better": "derived_size.better",
    "worse": "derived_size.worse",
    "equivalent": "derived_size.equivalent",
    "mixed": "derived_size.mixed",
}


def _steps(
    benchmark: Benchmark, parameter: Parameter, pairs: Sequence[Pair]
) -> dict[tuple[int, int], list[Pair]]:
    """Pairs by the two values of a derived size, neighbours only, the smaller value first."""

    def size(setting: Setting) -> int:
        return int(benchmark.all_parameters(setting.parameters)[parameter.name])

    values = sorted({size(setting) for pair in pairs for setting in pair})
    steps: dict[tuple[int, int], list[Pair]] = {
        (low, high): [] for low, high in itertools.pairwise(values)
    }
    for pair in pairs:
        small, large = sorted(pair, key=size)
        if (size(small), size(large)) in steps:
            steps[size(small), size(large)].append((small, large))
    return steps


def derived_sizes(sweeps: Sequence[Sweep], given: Given) -> Iterator[Finding]:
    """For each step of a derived size: its factor in each time of each implementation."""
    benchmark, settings = sweeps[0].benchmark, settings_of(sweeps)
    for parameter in benchmark.derived_parameters:
        if parameter.is_variant:
            continue
        steps = _steps(benchmark, parameter, list(pairs_of(settings, parameter.derived_from)))
        timed = timed_metrics(benchmark)
        for name, metric in itertools.product(implementations_of(sweeps), timed):
            for (low, high), of_step in steps.items():
                mine = [
                    (small, large)
                    for small, large in of_step
                    if name in small.runs
                    and name in large.runs
                    and operations(metric, small.parameters) == operations(metric, large.parameters)
                ]
                if not mine:
                    continue
                shares = shares_of(mine, name, metric, 1.0, given.estimates)
                shared = shared_verdict(shares)
                yield pair_finding(
                    "derived_size",
                    sweeps,
                    mine,
                    shares,
                    1.0,
                    VERDICTS.get(shared, shared),
                    messages=MESSAGES,
                    metric=metric,
                    subject={
                        "implementation": name,
                        "parameter": parameter.name,
                        "step": f"{low} to {high}",
                    },
                    named={"parameter": parameter.symbol, "from": low, "to": high},
                    method=f"median {metric.labels['en']} at the smaller {parameter.name} over "
                    "that at the larger, at equal operations and all else equal",
                )


DERIVED_SIZE = Kind(
    name="derived_size",
    label="kind.derived_size",
    verdicts=(*MESSAGES, "inconclusive"),
    of_dataset=[(CHOICES, derived_sizes)],
    told="of the dataset",
)
