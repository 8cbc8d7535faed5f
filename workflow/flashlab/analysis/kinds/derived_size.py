"""What a derived size does to each time at equal operations, from one value to the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, Given, Kind
from flashlab.analysis.kinds.comparison import VERDICTS
from flashlab.analysis.settings import (
    Pair,
    Setting,
    implementations_of,
    operations,
    pair_finding,
    pairs_of,
    settings_of,
    timed_metrics,
)
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.telling.codes import by_code

MESSAGES = by_code(
    "derived_size.better", "derived_size.worse", "derived_size.equivalent", "derived_size.mixed"
)


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


def derived_sizes(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """For each step of a derived size: its factor in each time of each implementation."""
    benchmark, settings = experiments[0].benchmark, settings_of(experiments)
    names, metrics = implementations_of(experiments), timed_metrics(benchmark)
    for parameter in (each for each in benchmark.derived_parameters if not each.is_variant):
        steps = _steps(benchmark, parameter, list(pairs_of(settings, parameter.derived_from)))
        for name, metric, step in itertools.product(names, metrics, steps.items()):
            (low, high), of_step = step
            pairs = [
                pair
                for pair in of_step
                if all(name in setting.runs for setting in pair)
                and len({operations(metric, setting.parameters) for setting in pair}) == 1
            ]
            if not pairs:
                continue
            about = {"parameter": parameter.name, "step": f"{low} to {high}"}
            yield pair_finding(
                "derived_size",
                benchmark,
                given.estimates,
                pairs,
                verdicts=VERDICTS,
                messages=MESSAGES,
                metric=metric,
                subject={"implementation": name, **about},
                named={"parameter": parameter.symbol, "from": low, "to": high},
            )


DERIVED_SIZE = Kind(
    label="kind.derived_size",
    verdicts=(*MESSAGES, "inconclusive"),
    of_dataset=[(CHOICES, derived_sizes)],
    told="of the dataset",
)
