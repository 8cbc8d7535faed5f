"""Whether curves differ by more than chance: against the spread of the naive implementation's.

Runs of the naive implementation that differ only in a nominal parameter, such as the seed, show by
how much curves of the same problem differ. A curve with the same seed that is farther from the
naive one's than any two of those are from one another ``differs``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flashlab.analysis.experiment import Experiment, Row
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import MEASURED, Given, Kind
from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.model import Benchmark, Curve
from flashlab.telling.values import Label

FEWEST = 3
"""Fewest runs of the naive implementation from which a spread is estimated."""

Key = tuple[Any, ...]


def distance(one: Sequence[float], other: Sequence[float], steps: int) -> float:
    """The root mean square of the difference of two curves over their first steps."""
    difference = np.subtract(one[:steps], other[:steps])
    return math.sqrt(float(np.mean(difference**2)))


def _problem(benchmark: Benchmark, run: Row) -> Key:
    """What two runs must have in common for their curves to be of the same problem."""
    sizes = (p.name for p in benchmark.given if not p.is_variant and not p.nominal)
    return (*(run[name] for name in sizes), run["dtype"], run["device"])


def _names(benchmark: Benchmark, run: Row) -> Key:
    """The values of a run's nominal parameters."""
    return tuple(run[p.name] for p in benchmark.given if p.nominal)


def _is_reference(benchmark: Benchmark, run: Row) -> bool:
    """Whether a run is of the naive implementation in its plainest variant."""
    plain = all(run[p.name] in (False, *list(p.words)[:1]) for p in benchmark.variants)
    return run["implementation"] == benchmark.naive and plain


def curve_differences(experiments: Sequence[Experiment], _: Given) -> Iterator[Finding]:
    """A finding for each run that has a curve, but the naive ones that it is compared with."""
    benchmark = experiments[0].benchmark
    for curve in benchmark.curves:
        found = [
            (experiment, run, values)
            for experiment in experiments
            for run in experiment.ordered
            if run["status"] == "ok" and (values := experiment.curve_of(run, curve.name))
        ]
        references: dict[Key, dict[Key, list[float]]] = {}  # by problem and nominal values
        for _experiment, run, values in found:
            if _is_reference(benchmark, run):
                of_problem = references.setdefault(_problem(benchmark, run), {})
                of_problem.setdefault(_names(benchmark, run), values)
        for experiment, run, values in found:
            of_problem = references.get(_problem(benchmark, run), {})
            reference = of_problem.get(_names(benchmark, run))
            if reference and not (experiment.is_summary or _is_reference(benchmark, run)):
                others = [*of_problem.values()]
                yield _finding(experiment, run, curve, values, reference, others)


def _finding(
    experiment: Experiment,
    run: Row,
    curve: Curve,
    values: Sequence[float],
    reference: Sequence[float],
    others: Sequence[Sequence[float]],
) -> Finding:
    steps = min(map(len, [values, *others]))
    away = distance(values, reference, steps)
    pairs = itertools.combinations(others, 2)
    spread = max((distance(*pair, steps) for pair in pairs), default=None)
    verdict = "withheld"
    if spread is not None and len(others) >= FEWEST:
        verdict = "differs" if away > spread else "within"
    last, *lasts = (curve[steps - 1] for curve in [values, *others])
    facts: Mapping[str, Any] = {
        "label": Label(curve.labels),
        "unit": curve.unit,
        "steps": steps,
        "runs": len(others),
        "distance": rounded(away),
        "spread": None if spread is None else rounded(spread),
        "last_distance": rounded(abs(last - reference[steps - 1])),
        "last_spread": rounded(max(lasts) - min(lasts)),
    }
    subject = {
        "implementation": run["implementation"],
        "baseline": str(experiment.benchmark.naive),
        "curve": curve.name,
        "variant": dict(experiment.variant_of(run)),
    }
    estimates = [{"value": experiment.value_of(run), "estimate": facts["distance"]}]
    return Finding("curve", experiment.name, subject, verdict, facts=facts, estimates=estimates)


CURVE = Kind(
    label="kind.curve",
    verdicts=("within", "differs", "withheld"),
    of_dataset=[(MEASURED, curve_differences)],
)
