"""All ratios between the experiments' runs, as one plain table: comparisons.csv.

A row compares two runs that differ in one thing, or pools such pairs over the values of the sweep.
The ratio is that of the subject to the reference in the metric's own unit, and never inverted:
``above`` means a larger value, better or worse.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    ALTERNATIVES,
    CARDS_DIFFER,
    FIRST,
    IMPLEMENTATIONS,
    INPUTS_DIFFER,
    PREVIOUS,
    SITTINGS_DIFFER,
    Key,
    Measured,
    Runs,
    Variant,
    Warnings,
    chosen_metrics,
    is_imported,
    variant_words,
)
from flashlab.analysis.ratios import EVIDENCE_DIGITS, Ratio, ratio, verdict_of
from flashlab.benchmarks.model import Benchmark, Metric

COLUMNS = (
    *("experiment", "compared", "variant", "metric", "subject", "reference"),
    *("parameter", "value", "reference_value", "settings"),
    *("ratio", "low", "high", "verdict", "pairs", "samples", "doubts"),
)

SEVERAL = {"value": None, "reference_value": None}
"""The cells of a row that pools several settings."""

GAP = 3600
"""From one process's start to the next, the seconds that end a sitting, a span of time on one
device between two boots. What a device does in it is comparable run by run. From one to another its
temperature, clocks, neighbours or driver state may differ, without a sign in any record."""

BOOT = ["device_name", "gpu_uuid", "boot"]
"""What tells devices and their boots apart."""


def sittings(records: pd.DataFrame) -> pd.Series[int]:
    """The number of each record's sitting.

    `records` have `BOOT` and ``started`` (ISO 8601), and were not imported: of those no time is
    known.
    """
    boots = records[BOOT].fillna("").groupby(BOOT).ngroup()
    times = records.started.map(lambda each: datetime.fromisoformat(each).timestamp())
    gaps = times.sort_values().groupby(boots).diff() >= GAP
    both = pd.DataFrame({"boot": boots, "span": gaps.groupby(boots).cumsum()})
    found: pd.Series[int] = both.groupby(["boot", "span"]).ngroup()
    return found


def sittings_of(runs: Iterable[Measured]) -> dict[Key, tuple[frozenset[int], frozenset[str]]]:
    """The sittings of each run's processes, and their GPUs; none of either that is not known."""
    every = [(each.key, process.record) for each in runs for process in each.processes]
    known = [(key, record) for key, record in every if not is_imported(record)]
    columns = {name: [record.environment.get(name) for _, record in known] for name in BOOT}
    columns["started"] = [record.started for _, record in known]
    numbers = sittings(pd.DataFrame(columns, dtype=object)).sort_index()
    found: dict[Key, tuple[list[int], list[Any]]] = {}
    for (key, _), number, card in zip(known, numbers, columns["gpu_uuid"], strict=True):
        own, cards = found.setdefault(key, ([], []))
        own.append(number)
        cards.append(card)
    return {
        key: (frozenset(own), frozenset(() if None in cards else cards))
        for key, (own, cards) in found.items()
    }


class _Table:
    """What the rows of the table share: estimates, and what puts comparisons in doubt."""

    def __init__(
        self, experiments: Sequence[Runs], estimates: Estimates, warnings: Warnings
    ) -> None:
        self.estimates, self.warnings = estimates, warnings
        every = {each.key: each for experiment in experiments for each in experiment.runs}
        self.sittings = sittings_of(every.values())

    def row(self, estimate: Ratio, doubts: Iterable[str], /, **columns: Any) -> dict[str, Any]:
        """A row of the table, with further `columns`."""
        return {
            **{"value": estimate.value, "reference_value": estimate.value, "settings": 1},
            **columns,
            **{"ratio": estimate.ratio, "low": estimate.low, "high": estimate.high},
            **{"verdict": estimate.verdict, "pairs": estimate.pairs, "samples": estimate.samples},
            "doubts": " ".join(sorted(doubts)),
        }

    def doubts(self, benchmark: Benchmark, metric: Metric, *runs: Measured) -> set[str]:
        """The codes of warnings on both runs, and of differences: inputs; cards, else sittings."""
        about = {None, *benchmark.measured_behind(metric.name)}
        every = ((*each.warnings, *self.warnings.get(each.key, ())) for each in runs)
        found = {w["code"] for own in every for w in own if w.get("metric") in about}
        if len({each.first.record.sources.get("inputs") for each in runs} - {None}) > 1:
            found.add(INPUTS_DIFFER)
        nothing = frozenset[Any]()
        known = (self.sittings.get(each.key, (nothing, nothing)) for each in runs)
        sittings, cards = (len({*of} - {nothing}) > 1 for of in zip(*known, strict=True))
        return found | ({CARDS_DIFFER} if cards else {SITTINGS_DIFFER} if sittings else set())

    def along(
        self, x: Runs, metric: Metric, both: Sequence[tuple[str, Variant]], /, **columns: Any
    ) -> Iterator[dict[str, Any]]:
        """A row for each value at which subject and reference have numbers, and one pooled."""
        of, runs = self.estimates.of(metric), [x.along(*side) for side in both]
        pairs, every = [], set[str]()
        for value in runs[0].keys() & runs[1].keys():
            if {runs[0][value].key, runs[1][value].key} <= of.keys():
                pairs.append((value, runs[0][value], runs[1][value]))
        pairs.sort(key=itemgetter(0))
        for value, one, other in pairs:
            doubts = self.doubts(x.benchmark, metric, one, other)
            every |= doubts
            sizes = x.benchmark.all_parameters(one.run)
            yield self.row(ratio(value, of[one.key], of[other.key]), doubts, **columns, **sizes)
        keys = [(one.key, other.key) for _, one, other in pairs]
        if pooled := self.estimates.pooled(metric, keys):
            yield self.row(pooled, every, **columns, **SEVERAL, settings=pooled.value)

    def growth(
        self, x: Runs, metric: Metric, name: str, variant: Variant, /, **columns: Any
    ) -> Iterator[dict[str, Any]]:
        """A row for each value over the one before it, and for each over the first one."""
        of = self.estimates.of(metric)
        runs = {value: each for value, each in x.along(name, variant).items() if each.key in of}
        values = [*runs]
        steps = [(PREVIOUS, before, after) for before, after in itertools.pairwise(values)]
        steps += [(FIRST, values[0], value) for value in values[1:]]
        for compared, before, after in steps:
            one, other = runs[after], runs[before]
            doubts = self.doubts(x.benchmark, metric, one, other)
            columns |= {"compared": compared, "reference_value": before}
            grown = ratio(after, of[one.key], of[other.key])
            yield self.row(grown, doubts, **columns, **x.benchmark.all_parameters(one.run))

    def of_experiment(self, x: Runs) -> Iterator[dict[str, Any]]:
        """All comparisons within an experiment."""
        names = x.implementations
        ordered = sorted(names, key=lambda name: name != x.plan["baseline"])
        for metric in compared_metrics(x.benchmark):
            common = {"experiment": x.name, "parameter": x.swept.name, "metric": metric.name}
            for variant in x.variants:
                about = {**common, "variant": variant_words(variant)}
                for one, other in itertools.combinations(ordered, 2):
                    named = {**about, "compared": IMPLEMENTATIONS}
                    named |= {"subject": other, "reference": one}
                    yield from self.along(x, metric, [(other, variant), (one, variant)], **named)
                for name in names if x.is_ordered else ():
                    named = {**about, "subject": name, "reference": name}
                    yield from self.growth(x, metric, name, variant, **named)
            for switched, off, on in _switches(x):
                about = {**common, "variant": variant_words(on)}
                both = [(name, name, switched) for name in names]
                # Alternatives at one setting, which has a name and no size.
                is_named = x.swept.nominal and x.swept.stands_for is None
                if is_named and x.plan["sweep"] and len(x.values) == 1:
                    both += [(*two, ALTERNATIVES) for two in itertools.permutations(names, 2)]
                for one, other, compared in both:
                    named = {**about, "compared": compared, "subject": one, "reference": other}
                    yield from self.along(x, metric, [(one, on), (other, off)], **named)

    def of_dataset(self, experiments: Sequence[Runs]) -> Iterator[dict[str, Any]]:
        """Each implementation against the baseline over all distinct settings of a dataset.

        Twins with packed inputs are left out.
        """
        packed = {
            entry["name"]
            for x in experiments
            for entry in x.plan["implementations"]
            if entry.get("packed_of") in x.implementations
        }
        settings: dict[Key, dict[str, Key]] = {}
        keys = {each.key for x in experiments for each in x.runs if each.status == "ok"}
        for key in sorted(keys, key=lambda key: (key[1:], key[0])):
            if key[0] not in packed:
                settings.setdefault(key[1:], {})[key[0]] = key
        base = experiments[0].plan["baseline"]
        names = dict.fromkeys(name for runs in settings.values() for name in runs if name != base)
        for metric in chosen_metrics(experiments[0].benchmark):
            for name in names:
                at = [runs for runs in settings.values() if {name, base} <= runs.keys()]
                pooled = self.estimates.pooled(metric, [(runs[name], runs[base]) for runs in at])
                if pooled:
                    about = {"compared": IMPLEMENTATIONS, "metric": metric.name}
                    about |= {"subject": name, "reference": base}
                    yield self.row(pooled, (), **about, **SEVERAL, settings=pooled.value)


def _switches(x: Runs) -> Iterator[tuple[str, Variant, Variant]]:
    """Pairs of variants that differ in one boolean parameter alone: off, and on."""
    for parameter in x.benchmark.variants:
        for off in x.variants if parameter.kind is bool else ():
            on = tuple((key, key == parameter.name or value) for key, value in off)
            if dict(off)[parameter.name] is False and on in x.variants:
                yield parameter.name, off, on


def compared_metrics(benchmark: Benchmark) -> list[Metric]:
    """The metrics that rank implementations, and a time that is split into parts, if any is."""
    whole = [metric for metric in benchmark.metrics if metric.name == benchmark.whole]
    return [*chosen_metrics(benchmark), *whole]


def comparisons(
    experiments: Sequence[Runs], estimates: Estimates, warnings: Warnings | None = None
) -> pd.DataFrame:
    """The table of comparisons of a dataset, in the order of its experiments.

    Args:
        experiments: those of its sections and the headline; simulated ones are left out.
        estimates: the medians with their intervals.
        warnings: those beside the records' (`analysis.doubts`).

    Returns:
        `COLUMNS` and the parameters of the subject, with a running index. ``compared`` names the
        one thing that differs. ``settings`` is the number of settings: 1, or those of a pooled row,
        which has no ``value``, and no ``experiment`` if it pools the whole dataset. ``low`` and
        ``high`` are missing where there is no interval. ``verdict`` is above, below, equal or
        inconclusive. ``doubts`` are codes of warnings, with spaces between.
    """
    shown = [each for each in experiments if not each.is_simulated]
    table = _Table(shown, estimates, warnings or {})
    rows = [row for experiment in shown for row in table.of_experiment(experiment)]
    rows += table.of_dataset(shown) if len(shown) > 1 else ()
    parameters = experiments[0].benchmark.parameters
    found = pd.DataFrame(rows, columns=[*COLUMNS, *(p.name for p in parameters)])
    integers = ["value", "reference_value", "settings", "pairs", "samples"]
    integers += [p.name for p in parameters if p.kind is int]
    return found.astype(dict.fromkeys(integers, "Int64"))


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
    texts = dict.fromkeys(words, str)
    return pd.read_csv(file, dtype=texts, keep_default_na=False, na_values=[""]).fillna(words)
