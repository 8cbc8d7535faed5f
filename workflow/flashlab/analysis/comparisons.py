"""All ratios between the experiments' runs, as one plain table: comparisons.csv.

A row compares two runs that differ in one thing, or pools such pairs over the values of the sweep.
The ratio is that of the subject to the reference in the metric's own unit, and never inverted:
``above`` means a larger value, better or worse.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flashlab.analysis.comparison_rows import (
    ALTERNATIVES,
    FIRST,
    IMPLEMENTATIONS,
    PREVIOUS,
    variant_words,
)
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    Experiment,
    Row,
    Variant,
    chosen_metrics,
    comparison_warnings,
)
from flashlab.analysis.ratios import EVIDENCE_DIGITS, Ratio, ratio, verdict_of
from flashlab.analysis.series import Series
from flashlab.analysis.settings import settings_of
from flashlab.benchmarks.model import Benchmark, Metric

COLUMNS = (
    *("experiment", "compared", "variant", "metric", "subject", "reference"),
    *("parameter", "value", "reference_value", "settings"),
    *("ratio", "low", "high", "verdict", "pairs", "samples", "doubts"),
)


def _row(estimate: Ratio, doubts: Sequence[str], /, **columns: Any) -> dict[str, Any]:
    """A row of the table, with further `columns`."""
    return {
        **{"value": estimate.value, "reference_value": estimate.value, "settings": 1, **columns},
        **{"ratio": estimate.ratio, "low": estimate.low, "high": estimate.high},
        **{"verdict": estimate.verdict, "pairs": estimate.pairs, "samples": estimate.samples},
        "doubts": " ".join(doubts),
    }


def _doubts(subject: Series, reference: Series, value: int, reference_value: int) -> list[str]:
    """The codes of the warnings on both runs, and of their differences: inputs, card, sitting."""
    experiment = subject.experiment
    runs: list[Row] = [
        run
        for series, at in ((subject, value), (reference, reference_value))
        if (run := experiment.run_at(series.implementation, series.variant, at))
    ]
    return comparison_warnings(experiment.benchmark, subject.metric.name, [runs])


def _sizes(experiment: Experiment, series: Series, value: int) -> dict[str, Any]:
    """All parameters of a run of the subject, by their names."""
    run = experiment.run_at(series.implementation, series.variant, value)
    return {p.name: run[p.name] for p in experiment.benchmark.parameters} if run else {}


def _along(
    subject: Series, reference: Series, estimates: Estimates, /, **columns: Any
) -> Iterator[dict[str, Any]]:
    """A row for each value of the sweep at which both have numbers, and one pooled over these."""
    ones, others = estimates.along(subject), estimates.along(reference)
    doubts: set[str] = set()
    for value in sorted(ones.keys() & others.keys()):
        these = _doubts(subject, reference, value, value)
        doubts.update(these)
        sizes = _sizes(subject.experiment, subject, value)
        yield _row(ratio(value, ones[value], others[value]), these, **columns, **sizes)
    if pooled := estimates.pooled(subject, reference):
        several = {"value": None, "reference_value": None, "settings": pooled.value}
        yield _row(pooled, sorted(doubts), **columns, **several)


def _growth(series: Series, estimates: Estimates, /, **columns: Any) -> Iterator[dict[str, Any]]:
    """A row for each value over the one before it, and for each over the first one."""
    medians = estimates.along(series)
    values = sorted(medians)
    steps = [(PREVIOUS, before, after) for before, after in itertools.pairwise(values)]
    steps += [(FIRST, values[0], value) for value in values[1:]]
    for compared, before, after in steps:
        growth = ratio(after, medians[after], medians[before])
        doubts = _doubts(series, series, after, before)
        columns |= {"compared": compared, "reference_value": before}
        yield _row(growth, doubts, **columns, **_sizes(series.experiment, series, after))


def variant_pairs(experiment: Experiment) -> Iterator[tuple[str, Variant, Variant]]:
    """Pairs of variants that differ in one boolean parameter alone: off, and on."""
    for parameter in experiment.benchmark.variants:
        if parameter.kind is not bool:
            continue
        for off in experiment.variants:
            on = tuple((key, key == parameter.name or value) for key, value in off)
            if dict(off)[parameter.name] is False and on in experiment.variants:
                yield parameter.name, off, on


def compared_metrics(benchmark: Benchmark) -> list[Metric]:
    """The metrics that rank implementations, and a time that is split into parts, if any is."""
    whole = [metric for metric in benchmark.metrics if metric.name == benchmark.whole]
    return [*chosen_metrics(benchmark), *whole]


def _of_experiment(experiment: Experiment, estimates: Estimates) -> Iterator[dict[str, Any]]:
    names, baseline = experiment.implementations, experiment.baseline
    first = [name for name in names if name == baseline]
    ordered = [*first, *(name for name in names if name != baseline)]
    metrics = compared_metrics(experiment.benchmark)
    common = {"experiment": experiment.name, "parameter": experiment.parameter.name}
    for metric in metrics:
        for variant in experiment.variants:
            series = {name: Series(experiment, name, variant, metric) for name in names}
            about = {**common, "metric": metric.name, "variant": variant_words(variant)}
            for reference, subject in itertools.combinations(ordered, 2):
                named = {**about, "compared": IMPLEMENTATIONS}
                named |= {"subject": subject, "reference": reference}
                yield from _along(series[subject], series[reference], estimates, **named)
            for name in names if experiment.is_ordered else ():
                named = {**about, "subject": name, "reference": name}
                yield from _growth(series[name], estimates, **named)
        for switched, off, on in variant_pairs(experiment):
            for name in names:
                both = [Series(experiment, name, variant, metric) for variant in (on, off)]
                named = {**common, "metric": metric.name, "variant": variant_words(on)}
                named |= {"compared": switched, "subject": name, "reference": name}
                yield from _along(both[0], both[1], estimates, **named)
            for subject, reference in itertools.permutations(names, 2):
                if experiment.has_alternatives:
                    both = [
                        Series(experiment, name, variant, metric)
                        for name, variant in ((subject, on), (reference, off))
                    ]
                    named = {**common, "metric": metric.name, "variant": variant_words(on)}
                    named |= {"compared": ALTERNATIVES, "subject": subject, "reference": reference}
                    yield from _along(both[0], both[1], estimates, **named)


def _of_dataset(
    experiments: Sequence[Experiment], estimates: Estimates
) -> Iterator[dict[str, Any]]:
    """Each implementation against the baseline over all distinct settings of a dataset."""
    if len(experiments) < 2:
        return
    first = experiments[0]
    packed = {name for experiment in experiments for name in experiment.packed}
    settings = settings_of(experiments, without=packed)
    names = list(dict.fromkeys(name for setting in settings for name in setting.runs))
    for metric in chosen_metrics(first.benchmark):
        for name in names:
            both = [s for s in settings if {name, first.baseline} <= s.runs.keys()]
            runs = [[s.runs[each] for s in both] for each in (name, first.baseline)]
            if name == first.baseline or not (pooled := estimates.pooled_over(metric, *runs)):
                continue
            named = {"compared": IMPLEMENTATIONS, "metric": metric.name}
            named |= {"subject": name, "reference": first.baseline}
            several = {"value": None, "reference_value": None, "settings": pooled.value}
            yield _row(pooled, (), **named, **several)


def comparisons(experiments: Sequence[Experiment], estimates: Estimates) -> pd.DataFrame:
    """The table of comparisons of a dataset, in the order of its experiments.

    Args:
        experiments: those of its sections and the headline; simulated ones are left out.
        estimates: the medians with their intervals.

    Returns:
        `COLUMNS` and the parameters of the subject, with a running index. ``compared`` names the
        one thing that differs. ``settings`` is the number of settings: 1, or those of a pooled row,
        which has no ``value``, and no ``experiment`` if it pools the whole dataset. ``low`` and
        ``high`` are missing where there is no interval. ``verdict`` is above, below, equal or
        inconclusive. ``doubts`` are codes of warnings, with spaces between.
    """
    shown = [each for each in experiments if not each.is_simulated]
    rows = [row for experiment in shown for row in _of_experiment(experiment, estimates)]
    rows += _of_dataset(shown, estimates)
    sizes = [p.name for p in experiments[0].benchmark.parameters]
    table = pd.DataFrame(rows, columns=[*COLUMNS, *sizes])
    integers = ["value", "reference_value", "settings", "pairs", "samples"]
    integers += [p.name for p in experiments[0].benchmark.parameters if p.kind is int]
    return table.astype(dict.fromkeys(integers, "Int64"))


def pooled_alike(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Rows of comparisons pooled over the settings that agree in the columns `by`.

    The two sides of these rows cannot be paired, and an influence on all settings of one side, such
    as its clock, does not average out. So the interval is as wide as if the settings' errors were
    the same: from the geometric mean of the low ends to that of the high ones.

    Returns:
        The columns `by`, ``settings``, ``ratio``, ``low``, ``high`` (missing where any is), and
        ``verdict``, a row for each group in the order of its first.
    """
    ends = ["ratio", "low", "high"]
    logs = table.assign(**{each: np.log(table[each].astype(float)) for each in ends})
    groups = logs.groupby([*by], sort=False)[ends]
    # A group without an interval at some setting has none.
    mean = groups.mean().where(groups.count().eq(groups.size(), axis="index"))
    pooled = mean.transform(np.exp)
    pooled["settings"] = groups.size()
    known = pooled.astype(object).where(pooled.notna(), None)
    pooled["verdict"] = list(map(verdict_of, known.low, known.high))
    return pooled.reset_index()


def comparisons_csv(table: pd.DataFrame) -> str:
    """The table as CSV, with numbers of `EVIDENCE_DIGITS` digits."""
    text: str = table.to_csv(index=False, float_format=f"%.{EVIDENCE_DIGITS}g", lineterminator="\n")
    return text


def read_comparisons(file: Path) -> pd.DataFrame:
    """The table from its CSV; missing numbers are NaN, missing words empty."""
    words = {"variant": "", "doubts": ""}
    return pd.read_csv(file, dtype=dict.fromkeys(words, str)).fillna(words)
