"""The table of a comparison of two datasets or revisions, as its story reads it.

Times are told as the speed of the second side over the first: above 1 the second is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from flashlab.analysis.comparison_rows import DATASET, inverse_of
from flashlab.analysis.comparisons import pooled_alike
from flashlab.analysis.experiment import chosen_metrics
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric, Parameter
from flashlab.story import words
from flashlab.story.tables import EQUAL, FASTER, SLOWER, SPEED_WORDS, UNDECIDED

TIMES = ("s", "ms", "us", "ns")
"""Units of the metrics that are told as speeds."""

NAIVE, FUSED = "naive", "fused"
"""The groups of implementations: those that store the N × N scores, and those that do not. In
neither is one whose memory does not tell, or where there is no naive one to tell by."""

STORED = 0.5
"""From which share of the naive implementation's memory on, at the longest sequence that both have,
an implementation stores the scores too."""

SHORT = 256
"""The sequence length up to which sizes are a class of their own, as long ones are."""


def _groups(benchmark: Benchmark, table: pd.DataFrame) -> dict[str, str]:
    """The group of each implementation whose exact memory tells it."""
    exact = next((m.name for m in benchmark.measured if m.exact), None)
    if benchmark.naive not in {*table.implementation} or "seq_len" not in table or not exact:
        return {}
    memory = table[table.metric == exact].set_index(["seq_len", "shape"])
    naive = memory[memory.implementation == benchmark.naive].reference_median
    groups = {str(benchmark.naive): NAIVE}
    for name, rows in memory.groupby("implementation", sort=False):
        share = (rows.reference_median / naive).dropna()
        if len(share) and name != benchmark.naive:
            lengths = share.index.get_level_values("seq_len")
            longest = share[lengths == lengths.max()].min()
            groups[str(name)] = NAIVE if longest >= STORED else FUSED
    return groups


def _size_classes(table: pd.DataFrame) -> pd.Series[str]:
    """The class of each row's sequence, named by the sequences that it holds: ``N ≤ 256``."""
    if "seq_len" not in table:
        return pd.Series("", table.index)
    of = pd.cut(table.seq_len.astype(int), [0, SHORT, words.LONG - 1, float("inf")], labels=False)
    names = {}
    for place, values in table.seq_len.groupby(of):
        low, high = values.min(), values.max()
        between = f"N = {low}–{high}" if low < high else f"N = {low}"
        names[place] = {0: f"N ≤ {high}", 2: f"N ≥ {low}"}.get(place, between)
    return of.map(names)


def with_pooled(table: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Comparisons of single runs with their group and class of sizes, and below them pooled ones.

    These pool each implementation (packed twins left out) and each group, over a class of sizes
    and over all.
    """
    groups = _groups(benchmark, table)
    group = [groups.get(name, "") for name in table.implementation]
    table = table.assign(sizes=_size_classes(table), group=group)
    plain = table[~table.implementation.str.endswith(PACKED_TWIN)]
    each, grouped = ["metric", "implementation", "group"], ["metric", "group"]
    of_group = plain[plain.group != ""]
    pooled = [
        *(pooled_alike(plain, by) for by in ([*each, "sizes"], each)),
        *(pooled_alike(of_group, by) for by in ([*grouped, "sizes"], grouped)),
    ]
    return pd.concat([table, *(rows.assign(compared=DATASET) for rows in pooled)])


def records_of(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as mappings, with None in place of what is missing."""
    known = rows.astype(object).where(rows.notna(), None)
    return [{str(k): v for k, v in row.items()} for row in known.to_dict("records")]


def as_speeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of times with their speeds beside: ``x`` with its interval, and the ``word``."""
    x, slowest, fastest = inverse_of(
        *(rows[each].astype(float) for each in ("ratio", "low", "high"))
    )
    word = rows.verdict.map(SPEED_WORDS)
    return rows.assign(x=x, slowest=slowest, fastest=fastest, word=word)


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """The number of speeds of each verdict."""
    return {w: int((rows.word == w).sum()) for w in (FASTER, SLOWER, EQUAL, UNDECIDED)}


def ranked_by(benchmark: Benchmark) -> list[Metric]:
    """The times that one chooses an implementation by: the totals, and the first time."""
    times = [m for m in chosen_metrics(benchmark) if m.unit in TIMES]
    return [*(total for total in benchmark.totals if total in times), *times[:1]]


@dataclass(frozen=True)
class Compared:
    """Two sides as their story reads them.

    Attributes:
        table: every comparison (`flashlab.compare.comparison.comparison_table`).
        about: the sides, their circumstances and ceilings, and the runs without results.
    """

    benchmark: Benchmark
    table: pd.DataFrame
    about: Mapping[str, Any]

    @property
    def names(self) -> dict[str, str]:
        """The names of the sides, as facts: ``one`` the reference, ``other`` the judged."""
        one, other = (side["name"] for side in self.about["sides"])
        return {"one": one, "other": other}

    @cached_property
    def devices(self) -> tuple[str, str] | None:
        """The devices of both sides where each has one and they are not the same."""
        one, other = (side["devices"] for side in self.about["sides"])
        return (one[0], other[0]) if len(one) == len(other) == 1 and one != other else None

    @cached_property
    def single(self) -> pd.DataFrame:
        """Each run of both sides by each metric, packed twins left out."""
        of_runs = self.table[(self.table.compared == DATASET) & self.table["shape"].notna()]
        return of_runs[~of_runs.implementation.str.endswith(PACKED_TWIN)]

    @cached_property
    def sizes(self) -> list[Parameter]:
        """The given sizes that say something of these runs."""
        stated = self.benchmark.stated(records_of(self.single))
        return [p for p in stated if p.derive is None and p.kind is int]

    @cached_property
    def times(self) -> list[Metric]:
        """The measured times that comparisons are about, in order."""
        return [m for m in self.benchmark.compared if m.unit in TIMES and not m.higher_is_better]

    @cached_property
    def total(self) -> Metric:
        """The total of the times; the only one where there is one."""
        totals = [metric for metric in self.benchmark.totals if metric.unit in TIMES]
        return (totals or self.times)[0]

    @cached_property
    def speeds(self) -> pd.DataFrame:
        """The measured times of `single` as speeds: ``x``, ``slowest``, ``fastest``, ``word``."""
        names = [metric.name for metric in self.times]
        return as_speeds(self.single[self.single.metric.isin(names)])

    @cached_property
    def totals(self) -> pd.DataFrame:
        """The same of the totals."""
        return as_speeds(self.single[self.single.metric == self.total.name])

    @cached_property
    def is_gain(self) -> bool:
        """True if at least as many comparisons are decidedly faster as slower."""
        found = counts(self.speeds)
        return found[FASTER] >= found[SLOWER]

    def farthest(self, rows: pd.DataFrame) -> pd.Series | None:
        """The decided speed that is farthest from 1 in the direction of most; None of none."""
        word = FASTER if self.is_gain else SLOWER
        decided = rows[rows.word == word].sort_values(
            "x", ascending=not self.is_gain, kind="stable"
        )
        return decided.iloc[0] if len(decided) else None

    def pooled(self, metric: str, group: str, sizes: str | None = None) -> pd.Series | None:
        """A group's geometric mean as a speed, over a class of sizes or all; None of none."""
        found = self.table[
            (self.table.compared == DATASET)
            & (self.table.metric == metric)
            & (self.table.group == group)
            & self.table.implementation.isna()
            & (self.table.sizes.isna() if sizes is None else self.table.sizes == sizes)
        ]
        return as_speeds(found).iloc[0] if len(found) else None

    def classes(self, rows: pd.DataFrame) -> list[str]:
        """The classes of sizes that rows are of, the smallest first; one without a name of none."""
        if "seq_len" not in rows:
            return [""]
        return [str(name) for name in rows.sort_values("seq_len").sizes.unique()]

    def what(self, metric: str) -> dict[str, str]:
        """The part of the work that a metric is of, as facts hold a word: ``forward``."""
        declared = self.benchmark.metric(metric)
        part = {language: text.lower() for language, text in declared.part.items()}
        return part or dict(declared.labels)

    @cached_property
    def implementations(self) -> list[str]:
        """Those that store the scores first, then the others, each by name."""
        groups = dict(zip(self.single.implementation, self.single.group, strict=True))
        naive = self.benchmark.naive
        return sorted(groups, key=lambda name: (name != naive, groups[name] != NAIVE, name))
