"""A dataset as tidy frames, read once: a value a row, a run a row, a speed a row.

Stories, tables, figures and captions are queries on them. A speed is how many times as good one
thing is as another: the sign of a ratio is turned once, here, and so that both directions of two
implementations are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.doubts import DIPS
from flashlab.analysis.experiment import (
    COMPARISONS,
    ESTIMATES,
    FIRST,
    IMPLAUSIBLE,
    IMPLEMENTATIONS,
    run_keys,
    swept_in,
)
from flashlab.analysis.ratios import OPPOSITE, inverse_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import read_json
from flashlab.plan.plan_files import EXPERIMENTS, FIGURES, TITLES

VALUE = ["experiment", "variant", "metric", "implementation", "at"]
"""The index of values; a variant as in comparisons.csv, the value of the sweep in ``at``."""

RUN = ["experiment", "variant", "implementation", "at"]
"""The index of runs."""

SPEED = ["experiment", "compared", "variant", "metric", "subject", "reference", "at"]
"""The index of speeds; ``experiment`` and ``variant`` are empty over all settings."""

WORDS = {"above": "faster", "below": "slower", "equal": "equal", "inconclusive": "undecided"}
"""The word for a verdict on a speed."""

POOLED = -1
"""In place of a value of the sweep: over all of them."""

_WHOLE = frozenset({"value", "reference_value", "settings", "pairs", "samples"})

Row = dict[str, Any]
"""A row of a table, as evidence of a sentence."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """The tables of a dataset.

    Attributes:
        plans: of the experiments by name, in the report's order, the headline among them.
        values: medians in their metric's unit, and ``operations`` of the forward in GFLOP, of runs
            that are ok, by `VALUE`.
        intervals: ``low`` and ``high`` of values, ``least`` and ``most`` of a run's processes, by
            `VALUE`; those of estimates.csv, of what follows from these as in metrics.csv.
        runs: the run table, a row a run that is ok (the first process that ended so), by `RUN`;
            ``odd``, the pass in which it is slower than the sizes beside it leave room for, or
            empty; ``number`` from 1 in the order of the plans.
        failed: the same of every other run.
        speeds: ``x``, ``low``, ``high``, ``verdict`` (`WORDS`), ``odd`` (a run of it dips), and the
            ``row`` of comparisons.csv, by `SPEED`.
        comparisons: comparisons.csv as it is.
        declared: the plan's entry of each implementation, by name.
        folder: the dataset's results.
    """

    benchmark: Benchmark
    plans: Mapping[str, Mapping[str, Any]]
    values: pd.Series[float]
    intervals: pd.DataFrame
    runs: pd.DataFrame
    failed: pd.DataFrame
    speeds: pd.DataFrame
    comparisons: pd.DataFrame
    ceilings: Ceilings | None
    declared: Mapping[str, Mapping[str, Any]]
    folder: Path

    @cached_property
    def baseline(self) -> str:
        """The implementation that the others are compared with."""
        return str(next(iter(self.plans.values()))["baseline"])

    @cached_property
    def swept(self) -> dict[str, str]:
        """The swept parameter by experiment; the headline, which sweeps nothing, is left out."""
        return {name: plan["sweep"] for name, plan in self.plans.items() if plan["sweep"]}

    @cached_property
    def sweeps(self) -> list[Sweep]:
        """The experiments in the report's order, those without any numbers too."""
        return [Sweep(self, name) for name in self.swept]

    @property
    def is_of_many(self) -> bool:
        """True where an experiment has over two implementations: page one has no dots by lines."""
        return any(len(s.names) > 2 for s in self.sweeps)

    @cached_property
    def beside(self) -> list[Sweep]:
        """What sweeps nothing: the headline, and imported settings that no experiment has."""
        return [Sweep(self, name) for name in self.plans if name not in self.swept]

    @cached_property
    def titles(self) -> dict[str, dict[str, str]]:
        """The title of each experiment, by language."""
        return dict(read_json(self.folder / TITLES))

    @cached_property
    def figures(self) -> dict[str, list[dict[str, Any]]]:
        """The figures that each experiment asks for."""
        return dict(read_json(self.folder / FIGURES))

    @cached_property
    def device(self) -> str:
        """The kind of device: ``cuda``, ``cpu`` or a simulator."""
        return str(next(iter(self.plans.values()))["runs"][0]["device"])

    def rows(self, *speeds: pd.DataFrame) -> list[Row]:
        """The rows of comparisons.csv behind some speeds, as evidence of a sentence."""
        found = sorted({int(row) for each in speeds for row in each["row"]})
        table = self.comparisons.iloc[found]
        sizes = {parameter.name for parameter in self.benchmark.given if not parameter.is_variant}
        whole = _WHOLE | sizes | {p.name for p in self.benchmark.parameters if p.derive}
        table = table.astype({name: "Int64" for name in table if name in whole})
        return [
            {"table": COMPARISONS, **{str(k): v for k, v in row.items() if v not in ("", None)}}
            for row in table.astype(object).where(table.notna(), None).to_dict("records")
        ]

    def pooled(self, metric: str, subject: str, reference: str) -> pd.DataFrame:
        """The speed of one over another over all settings: one row, or none."""
        return _found(self.speeds, ("", IMPLEMENTATIONS, "", metric, subject, reference))


@dataclass(frozen=True, eq=False)
class Sweep:
    """An experiment: queries that give a frame by the value of its sweep."""

    data: Dataset
    name: str
    _kept: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict, repr=False)

    @property
    def plan(self) -> Mapping[str, Any]:
        """The experiment's plan."""
        return self.data.plans[self.name]

    @cached_property
    def names(self) -> list[str]:
        """The implementations that have numbers, the baseline first, then as planned."""
        able = {*self.runs.index.unique("implementation")}
        planned = [entry["name"] for entry in self.plan["implementations"]]
        return sorted((n for n in planned if n in able), key=lambda n: n != self.data.baseline)

    @cached_property
    def symbol(self) -> str:
        """The symbol of the parameter that `at` is of: the swept one, such as N, or the first."""
        return swept_in(self.data.benchmark, self.plan).symbol

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The rows of the run table that are ok, by variant, implementation, value."""
        return _found(self.data.runs, (self.name,))

    @cached_property
    def failed(self) -> pd.DataFrame:
        """The rows that are not, likewise."""
        return _found(self.data.failed, (self.name,))

    @cached_property
    def variants(self) -> list[str]:
        """Those with numbers: without the mask, with it, or both."""
        return sorted(self.runs.index.unique("variant"))

    @property
    def is_switch(self) -> bool:
        """True if it has a variant switched off and on."""
        return len(self.variants) > 1

    def medians(self, metric: str, variant: str = "") -> pd.DataFrame:
        """A metric by value of the sweep and implementation (all of `names`); empty for none."""
        key = (self.name, variant or next(iter(self.variants), ""), metric)
        if key not in self._kept:
            found = _found(self.data.values.to_frame(), key)["value"]
            table = found.unstack("implementation").reindex(columns=self.names)
            self._kept[key] = table.sort_index()
        return self._kept[key]

    @cached_property
    def _rows(self) -> dict[tuple[str, str, int], dict[str, Any]]:
        rows = self.runs.to_dict("records")
        return {
            key: {str(k): v for k, v in row.items()}
            for key, row in zip(run_keys_of(self.runs), rows, strict=True)
        }

    def run(self, name: str, at: int, variant: str = "") -> dict[str, Any] | None:
        """The row of a run that is ok; None where there is none."""
        return self._rows.get((variant or next(iter(self.variants), ""), name, at))

    def number_of(self, name: str, at: int, variant: str = "") -> int | None:
        """The number of a run; None where there is none."""
        key = (variant or next(iter(self.variants), ""), name, at)
        numbers = [r.number.loc[[key]].iloc[0] for r in (self.runs, self.failed) if key in r.index]
        return int(numbers[0]) if numbers else None

    def work(self) -> pd.Series[float]:
        """The operations of a forward pass in GFLOP, by value of the sweep."""
        return self.medians("operations").bfill(axis=1).iloc[:, 0]

    def speed(
        self, metric: str, subject: str, reference: str = "", variant: str = ""
    ) -> pd.DataFrame:
        """The speed of one over another (the baseline), by value of the sweep."""
        found = self._of(IMPLEMENTATIONS, variant, metric, subject, reference or self.data.baseline)
        return found[found.index != POOLED]

    def pooled(self, metric: str, subject: str) -> pd.DataFrame:
        """The speed of one over the baseline, over the sweep: one row, or none."""
        found = self._of(IMPLEMENTATIONS, "", metric, subject, self.data.baseline)
        return found[found.index == POOLED]

    def grown(self, metric: str, name: str, since: str = FIRST, variant: str = "") -> pd.DataFrame:
        """The speed of an implementation over that at the first value, or the previous one."""
        return self._of(since, variant, metric, name, name)

    def switched(self, metric: str, name: str, parameter: str = "causal") -> pd.DataFrame:
        """The speed of an implementation with a switch on over off, by value of the sweep."""
        on = next((v for v in self.variants if f"{parameter}=true" in v), "")
        found = self._of(parameter, on, metric, name, name)
        return found[found.index != POOLED]

    def _of(self, compared: str, variant: str, *names: str) -> pd.DataFrame:
        variant = variant or next(iter(self.variants), "")
        key = (self.name, compared, variant, *names)
        if key not in self._kept:
            self._kept[key] = _found(self.data.speeds, key)
        return self._kept[key]

    def rows(
        self, metric: str, names: Iterable[str], at: Iterable[int], variant: str = ""
    ) -> list[Row]:
        """The rows of metrics.csv of some runs, as evidence of a sentence."""
        table, variant = self.medians(metric, variant), variant or self.variants[0]
        about = {"table": "metrics.csv", "experiment": self.name, "variant": variant}
        return [
            {**about, "implementation": name, self.data.swept[self.name]: int(value)}
            | {"metric": metric, "value": number(table, value, name)}
            for name in names
            for value in at
            if number(table, value, name) == number(table, value, name)
        ]


def _found(frame: pd.DataFrame, key: tuple[str, ...]) -> pd.DataFrame:
    """The rows of an index that begin with a key, by the rest of it; none where it is not there."""
    try:
        return cast(pd.DataFrame, frame.xs(key))
    except KeyError:
        return frame.iloc[:0].droplevel([*range(len(key))])


def run_keys_of(runs: pd.DataFrame) -> list[tuple[str, str, int]]:
    """The variant, implementation and value of each run of a sweep, in order."""
    return [(str(v), str(name), int(at)) for v, name, at in runs.index.to_list()]


def number(frame: pd.DataFrame | pd.Series[float], *at: Any) -> float:
    """A number of a frame by value and column; NaN where there is none."""
    try:
        found = frame.loc[at if len(at) > 1 else at[0]]
    except KeyError:
        return float("nan")
    return float(found)


def word(frame: pd.DataFrame, at: Any, column: str) -> str:
    """A word of a frame by value and column; empty where there is none."""
    return str(frame.at[at, column]) if at in frame.index else ""


def read_dataset(results: Path, ceilings_file: Path | None = None) -> Dataset:
    """The tables of a dataset.

    Args:
        results: the dataset's folder, with its plan.
        ceilings_file: the device's ceilings, None where none were measured.
    """
    plans, tables = read_json(results / EXPERIMENTS), results / "tables"
    declared = find_benchmark(next(iter(plans.values()))["benchmark"])
    metrics = _table(declared, plans, tables, "metrics.csv")
    estimates = read_table(tables.with_name(ESTIMATES))
    records = _table(declared, plans, tables, "runs.csv")
    numbers = records.groupby([*run_keys(declared)], sort=False, dropna=False).ngroup() + 1
    runs = _one_a_run(records.assign(number=numbers))
    runs = runs.assign(odd=_odd(declared, runs, estimates))
    benchmark = declared.having(set(metrics.metric)).on(str(runs["device"].iat[0]))
    is_ok = metrics.status == "ok"
    known = metrics[is_ok].drop_duplicates(VALUE).set_index(VALUE)
    values = known["value"].dropna()
    first = benchmark.measured[0].name
    work = known.GFLOP[known.index.get_level_values("metric") == first]
    operations = work.rename({first: "operations"}, level="metric")
    comparisons = read_comparisons(tables.with_name(COMPARISONS))
    return Dataset(
        benchmark,
        plans,
        pd.concat([values, operations.rename("value")]).astype(float).sort_index(),
        _intervals(benchmark, estimates, known),
        runs[runs.status == "ok"].set_index(RUN).sort_index(),
        runs[runs.status != "ok"].set_index(RUN).sort_index(),
        _both_ways(comparisons, benchmark),
        comparisons,
        read_ceilings(read_json(ceilings_file)) if ceilings_file else None,
        {entry["name"]: entry for plan in plans.values() for entry in plan["implementations"]},
        results,
    )


def read_table(path: Path, dtype: Any = None) -> pd.DataFrame:
    """A table from its CSV: only what is empty, or nan, is missing; NA is a name like any other."""
    gone: dict[str, Any] = {"keep_default_na": False, "na_values": ["", "nan"]}
    table: pd.DataFrame = pd.read_csv(path, dtype=dtype, low_memory=False, **gone)
    return table.fillna({"implementation": "nan"})


def _table(
    benchmark: Benchmark, plans: Mapping[str, Mapping[str, Any]], tables: Path, file: str
) -> pd.DataFrame:
    """A table of all experiments, with ``experiment``, ``variant`` and the swept value ``at``."""
    found = []
    for name, plan in plans.items():
        table = read_table(tables / name / file)
        swept = swept_in(benchmark, plan)
        rows: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
        at = [swept.derive(row) for row in rows] if swept.derive else table[swept.name]
        found.append(table.assign(experiment=name, variant=_variants(benchmark, table), at=at))
    return pd.concat(found, ignore_index=True)


def _variants(benchmark: Benchmark, table: pd.DataFrame) -> pd.Series[str]:
    """The variant of each row in the words of comparisons.csv."""
    found = pd.Series("", table.index)
    for parameter in benchmark.variants:
        found += f" {parameter.name}=" + table[parameter.name].astype(str).str.lower()
    return found.str.lstrip()


def _one_a_run(records: pd.DataFrame) -> pd.DataFrame:
    """A row a run, of the first process that ended as the run did (`experiment.status_of`)."""
    decisive = {"incorrect": 0, IMPLAUSIBLE: 1, "ok": 2}
    ranked = records.assign(rank=records.status.map(decisive).fillna(len(decisive)))
    first = ranked.sort_values("rank", kind="stable").drop_duplicates(RUN)
    return first.sort_index().drop(columns="rank")


def _odd(benchmark: Benchmark, runs: pd.DataFrame, estimates: pd.DataFrame) -> list[str]:
    """The first pass in which each run dips, by the warnings that samples give; or empty."""
    keys = [*run_keys(benchmark)]
    dips = estimates[estimates.warnings.astype(str).str.contains(f'"{DIPS}"', regex=False)]
    found = runs[keys].merge(dips.drop_duplicates(keys)[[*keys, "metric"]], on=keys, how="left")
    return [*found.metric.fillna("").str.removesuffix("_time")]


def _intervals(benchmark: Benchmark, estimates: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """The intervals of each value, by `VALUE`."""
    keys, columns = [*run_keys(benchmark), "metric"], ["low", "high", "least", "most"]
    table = estimates.drop_duplicates(keys)[[*keys, *columns]]
    rows = known.drop(columns=columns, errors="ignore").reset_index()
    found = rows.merge(table, on=keys, how="left").set_index(VALUE)[columns].astype(float)
    return found.fillna(known[["low", "high"]].astype(float)).sort_index()


def _both_ways(table: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """The speeds of comparisons.csv; of two implementations each over the other."""
    better = {metric.name: metric.higher_is_better for metric in benchmark.metrics}
    keep = table.metric.map(better).fillna(False).astype(bool)
    numbers = pd.DataFrame({"x": table.ratio, "low": table.low, "high": table.high}).astype(float)
    x, low, high = inverse_of(numbers.x, numbers.low, numbers.high)
    inverse = pd.DataFrame({"x": x, "low": low, "high": high})
    turned = table.verdict.replace(OPPOSITE)
    index = {name: table[name] for name in SPEED[1:-1]}
    index["experiment"] = table.experiment.fillna("").astype(str)
    index["at"] = table["value"].fillna(POOLED).astype(int)
    odd = table.doubts.str.split().map(lambda codes: DIPS in codes)
    sides: list[pd.DataFrame] = []
    for as_it_is in (keep, ~keep):
        side = numbers.where(as_it_is, inverse)
        verdict = table.verdict.where(as_it_is, turned).map(WORDS)
        side = side.assign(verdict=verdict, odd=odd, row=np.arange(len(table)), **index)
        if sides:  # the other direction, of two implementations alone
            names = {"subject": "reference", "reference": "subject"}
            side = side[side.compared == IMPLEMENTATIONS].rename(columns=names)
        sides.append(side)
    return pd.concat(sides).set_index(SPEED).sort_index()
