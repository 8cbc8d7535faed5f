"""The tables of a dataset as a story reads them: medians, comparisons, counters and ceilings.

A story decides nothing anew: verdicts are those of comparisons.csv. There the ratio is that of a
metric; a story tells times as speeds, of which more is better (`Speed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.comparison_rows import (
    FIRST,
    IMPLEMENTATIONS,
    PREVIOUS,
    inverse_of,
    variant_words,
)
from flashlab.analysis.doubts import DIPS
from flashlab.analysis.experiment import Experiment, Row, Variant, chosen_metrics
from flashlab.analysis.run_estimates import RunEstimates
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Benchmark, Metric

FASTER, SLOWER, EQUAL, UNDECIDED = "faster", "slower", "equal", "undecided"

SPEED_WORDS = {"below": FASTER, "above": SLOWER, "equal": EQUAL, "inconclusive": UNDECIDED}
"""The word for a verdict on times, of which less is better."""

_SWAPPED = {FASTER: SLOWER, SLOWER: FASTER}


@dataclass(frozen=True)
class Speed:
    """The speed of one thing over another: the inverse of the ratio of their times.

    Attributes:
        x: the speed-up; below 1 where it is slower.
        low, high: its 95% interval; None where there is none.
        verdict: ``faster``, ``slower``, ``equal`` or ``undecided``, by the margin.
        row: the row of comparisons.csv that it is read from.
    """

    x: float
    low: float | None
    high: float | None
    verdict: str
    row: dict[str, Any] = field(compare=False, repr=False)

    @property
    def is_decided(self) -> bool:
        """True if it is decidedly faster or slower."""
        return self.verdict in (FASTER, SLOWER)

    @property
    def is_odd(self) -> bool:
        """True if one of its runs is slower than the sizes beside it leave room for."""
        return DIPS in str(self.row.get("doubts") or "").split()

    @property
    def facts(self) -> dict[str, Any]:
        """The speed-up with its interval and verdict, as facts hold it."""
        return {"x": self.x, "low": self.low, "high": self.high, "verdict": self.verdict}

    @property
    def inverse(self) -> Speed:
        """The speed of the other thing over this one."""
        verdict = _SWAPPED.get(self.verdict, self.verdict)
        return Speed(*inverse_of(self.x, self.low, self.high), verdict, self.row)


def _speed(row: dict[str, Any]) -> Speed:
    numbers = (None if _is_missing(row[n]) else float(row[n]) for n in ("ratio", "low", "high"))
    return Speed(*inverse_of(*numbers), SPEED_WORDS[row["verdict"]], row)


def without_odd(speeds: Mapping[int, Speed]) -> dict[int, Speed]:
    """The speeds of a sweep that rest on no odd run; all where these are fewer than two."""
    found = {value: speed for value, speed in speeds.items() if not speed.is_odd}
    return found if len(found) > 1 else dict(speeds)


def evidence(speeds: Iterable[Speed | None]) -> list[dict[str, Any]]:
    """The rows of comparisons.csv that these speeds are read from."""
    rows = [each.row for each in speeds if each is not None]
    return [
        {"table": "comparisons.csv", **{k: v for k, v in row.items() if not _is_missing(v)}}
        for row in rows
    ]


def span(numbers: Sequence[float]) -> list[float] | None:
    """The least and the greatest of some numbers, as a range is printed; None of none."""
    return [min(numbers), max(numbers)] if numbers else None


def speed_span(speeds: Iterable[Speed]) -> list[float] | None:
    """The same of speed-ups."""
    return span([speed.x for speed in speeds])


def _is_missing(value: Any) -> bool:
    return value is pd.NA or value is None or (isinstance(value, float) and pd.isna(value))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, each by the names of its columns."""
    names = list(map(str, table.columns))
    return [dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None)]


_KEY = ("experiment", "compared", "variant", "metric", "subject", "reference", "value")


class Tables:
    """All tables of a dataset.

    Args:
        experiments: the headline's and the sections', in the report's order.
        comparisons: the frame of `flashlab.analysis.comparisons`.
        estimates: what is known of each run by itself.
        ceilings: those of the device, None where none were measured.
    """

    def __init__(
        self,
        experiments: Sequence[Experiment],
        comparisons: pd.DataFrame,
        estimates: RunEstimates,
        ceilings: Ceilings | None,
    ) -> None:
        self.experiments = experiments
        self.comparisons = comparisons
        self.estimates = estimates
        self.ceilings = ceilings
        self.benchmark: Benchmark = experiments[0].benchmark
        self.baseline: str = experiments[0].baseline

    @cached_property
    def sections(self) -> list[Section]:
        """The experiments that have a section of their own."""
        return [Section(self, each) for each in self.experiments if not each.is_summary]

    @cached_property
    def device(self) -> str:
        """``cuda``, ``cpu`` or a kind of simulator."""
        return str(next(run["device"] for each in self.experiments for run in each.runs))

    @cached_property
    def implementations(self) -> list[str]:
        """All of them in the order of the sections, the baseline first, packed twins left out."""
        packed = {name for each in self.experiments for name in each.packed}
        shown = [e for e in self.experiments if not e.is_summary] or self.experiments
        names = dict.fromkeys(name for each in shown for name in each.implementations)
        others = [name for name in names if name not in packed and name != self.baseline]
        return [*([self.baseline] if self.baseline in names else []), *others]

    @cached_property
    def _rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The comparisons by what they are of; those along a sweep by the value before, too."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in _records(self.comparisons):
            value = None if _is_missing(row["value"]) else int(row["value"])
            experiment = None if _is_missing(row["experiment"]) else row["experiment"]
            variant = "" if _is_missing(row["variant"]) else row["variant"]
            key = (experiment, row["compared"], variant, *(row[name] for name in _KEY[3:6]))
            found[(*key, value)] = row
        return found

    def find(self, *key: Any) -> Speed | None:
        """The comparison of times of this key (`_KEY`); None where there is none."""
        row = self._rows.get(key)
        return _speed(row) if row else None

    def speed(
        self, experiment: str | None, variant: str, metric: str, name: str, over: str, value: Any
    ) -> Speed | None:
        """The speed of one implementation over another at a value; None: pooled over all."""
        key = (experiment, IMPLEMENTATIONS, variant, metric)
        if found := self.find(*key, name, over, value):
            return found
        found = self.find(*key, over, name, value)
        return found.inverse if found else None

    @cached_property
    def usual(self) -> pd.DataFrame:
        """The comparisons at usual settings.

        What is chosen by other parameters alone is chosen from these.
        """
        return self.at_usual(self.comparisons)

    def at_usual(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows at settings whose parameters with a default all have it."""
        for parameter in self.benchmark.given:
            if parameter.default is not None:
                usual: Any = parameter.default
                table = table[table[parameter.name] == usual(table)]
        return table

    @cached_property
    def settings(self) -> pd.DataFrame:
        """Every distinct setting at which two implementations are compared, both ways round.

        Index: running. Columns: the parameters, ``metric``, ``subject``, ``reference``, and the
        ``speed`` of the subject over the reference. A setting of several experiments is there once.
        """
        table = self.comparisons
        single = table[(table.compared == IMPLEMENTATIONS) & table.value.notna()]
        sizes = [p.name for p in self.benchmark.parameters]
        distinct = single.drop_duplicates([*sizes, "metric", "subject", "reference"])
        speeds = pd.Series(
            [_speed(row) for row in _records(distinct)], distinct.index, dtype=object
        )
        found = distinct[[*sizes, "metric", "subject", "reference"]].assign(speed=speeds)
        swapped = found.assign(
            subject=found.reference,
            reference=found.subject,
            speed=[speed.inverse for speed in speeds],
        )
        return pd.concat([found, swapped], ignore_index=True)

    def against(self, name: str, reference: str, metric: str) -> pd.DataFrame:
        """The rows of `settings` that compare one with another, with a running index."""
        table = self.settings[self.settings.metric == metric]
        mine = (table.subject == name) & (table.reference == reference)
        return table[mine].reset_index(drop=True)

    def over(self, name: str, reference: str, metric: str) -> list[Speed]:
        """The speeds of one over another at each distinct setting of the dataset."""
        return [*self.against(name, reference, metric).speed]

    @property
    def times(self) -> list[Metric]:
        """The sampled times that one compares by, totals last."""
        return [m for m in chosen_metrics(self.benchmark) if not m.higher_is_better]


@dataclass(frozen=True)
class Section:
    """An experiment as its story reads it."""

    tables: Tables
    experiment: Experiment

    @property
    def name(self) -> str:
        """The experiment's name in the configuration."""
        return self.experiment.name

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the dataset."""
        return self.experiment.benchmark

    @property
    def symbol(self) -> str:
        """The symbol of the swept parameter, such as N."""
        return self.experiment.parameter.symbol

    @property
    def baseline(self) -> str:
        """The implementation that the others are compared with."""
        return self.tables.baseline

    @cached_property
    def implementations(self) -> list[str]:
        """Those of the section in the order of the report, packed twins left out."""
        mine = set(self.experiment.implementations)
        return [name for name in self.tables.implementations if name in mine]

    @cached_property
    def variants(self) -> list[str]:
        """The variants as comparisons.csv has them, in order."""
        return [variant_words(variant) for variant in self.experiment.variants]

    def _variant(self, words: str) -> Variant:
        return next(v for v in self.experiment.variants if variant_words(v) == words)

    def run(self, name: str, variant: str, value: int) -> Row | None:
        """A row of the run table; None where none was asked for."""
        return self.experiment.run_at(name, self._variant(variant), value)

    @cached_property
    def _medians(self) -> dict[tuple[str, str, str], dict[int, float]]:
        return {}

    def medians(self, metric: str, name: str, variant: str) -> dict[int, float]:
        """A metric of an implementation along the sweep, in its unit, where it has numbers."""
        key = (metric, name, variant)
        if key not in self._medians:
            declared = self.benchmark.metric(metric)
            series = Series(self.experiment, name, self._variant(variant), declared)
            self._medians[key] = dict(series.medians)
        return self._medians[key]

    def values(self, names: Sequence[str], variant: str, metric: str) -> list[int]:
        """The values of the sweep at which all of these have a metric."""
        common = [self.medians(metric, name, variant).keys() for name in names]
        return sorted(set.intersection(*map(set, common))) if common else []

    def speeds(
        self, metric: str, name: str, variant: str, over: str | None = None
    ) -> dict[int, Speed]:
        """The speeds of an implementation over another, by value of the sweep."""
        found = {
            value: self.tables.speed(self.name, variant, metric, name, over or self.baseline, value)
            for value in self.experiment.values
        }
        return {value: speed for value, speed in found.items() if speed is not None}

    def pooled(self, metric: str, name: str, variant: str, over: str | None = None) -> Speed | None:
        """The same over the sweep: the geometric mean, process by process."""
        over = over or self.baseline
        return self.tables.speed(self.name, variant, metric, name, over, None)

    def growth(self, metric: str, name: str, variant: str, value: int) -> Speed | None:
        """The speed of an implementation at a value over that at the first one."""
        return self.tables.find(self.name, FIRST, variant, metric, name, name, value)

    def step(self, metric: str, name: str, variant: str, value: int) -> Speed | None:
        """The speed of an implementation at a value over that at the one before it."""
        return self.tables.find(self.name, PREVIOUS, variant, metric, name, name, value)

    def switched(self, parameter: str, metric: str, name: str, on: str) -> dict[int, Speed]:
        """The speeds of an implementation with a switch on over off, by value of the sweep."""
        values = self.experiment.values
        found = {
            v: self.tables.find(self.name, parameter, on, metric, name, name, v) for v in values
        }
        return {value: speed for value, speed in found.items() if speed is not None}

    def switched_pooled(self, parameter: str, metric: str, name: str, on: str) -> Speed | None:
        """The same over the sweep."""
        return self.tables.find(self.name, parameter, on, metric, name, name, None)
