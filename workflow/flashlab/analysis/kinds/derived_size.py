"""What a derived size does to each time at equal operations, from one value to the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, Given, Kind
from flashlab.analysis.kinds.comparison import VERDICTS
from flashlab.analysis.rates import operations, timed_metrics
from flashlab.analysis.ratios import shared_verdict
from flashlab.analysis.settings import (
    Pair,
    Setting,
    factors_of,
    implementations_of,
    pair_finding,
    pairs_of,
    settings_of,
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


def derived_sizes(sweeps: Sequence[Sweep], given: Given) -> Iterator[Finding]:
    """For each step of a derived size: its factor in each time of each implementation."""
    benchmark, settings = sweeps[0].benchmark, settings_of(sweeps)
    names, metrics = implementations_of(sweeps), timed_metrics(benchmark)
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
            factors = factors_of(pairs, name, metric, given.estimates)
            verdict, step_name = shared_verdict(factors), f"{low} to {high}"
            subject = {"implementation": name, "parameter": parameter.name, "step": step_name}
            yield pair_finding(
                "derived_size",
                sweeps,
                pairs,
                factors,
                VERDICTS.get(verdict, verdict),
                messages=MESSAGES,
                metric=metric,
                subject=subject,
                named={"parameter": parameter.symbol, "from": low, "to": high},
            )


DERIVED_SIZE = Kind(
    label="kind.derived_size",
    verdicts=(*MESSAGES, "inconclusive"),
    of_dataset=[(CHOICES, derived_sizes)],
    told="of the dataset",
)
