"""The story of two datasets or revisions: a function a kind of sentence, on the table of both.

Times are told as the speed of the second side over the first: above 1 the second is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from flashlab.analysis.comparisons import pooled_alike
from flashlab.analysis.experiment import DATASET, IMPLEMENTATIONS, chosen_metrics
from flashlab.analysis.frames import WORDS
from flashlab.analysis.ratios import OPPOSITE, inverse_of
from flashlab.analysis.replication import UNREPLICATED
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.devices import find_device
from flashlab.labels import LANGUAGES, message
from flashlab.statistics import MARGIN
from flashlab.story.observation import Observation, clause
from flashlab.story.speeds import EQUAL, FASTER, SLOWER, UNDECIDED

MACHINES = "machines"
"""The section about the two machines."""

TIMES = ("s", "ms", "us", "ns")
"""Units of the metrics that are told as speeds."""

NAIVE, FUSED = "naive", "fused"
"""The groups of implementations: those that store the N × N scores, and those that do not. In
neither is one whose memory does not tell, or where there is no naive one to tell by."""

STORED = 0.5
"""From which share of the naive implementation's memory on, at the longest sequence that both have,
an implementation stores the scores too."""

SHORT, LONG = 256, 4096
"""The sequence length up to which, and that from which on, sizes are a class of their own."""

NEAR = 0.02
"""How near a speed is to a ratio of ceilings that it is said to be near."""

APART = 1.1
"""From which ratio of two ceilings' ratios on devices differ in one more than in the other."""

NORMAL = 1.96
"""Standard deviations that a 95% interval reaches."""

SHOWN = 3
"""The most names in a list."""

FIELDS = (
    *("memory_clock", "power_limit", "driver", "torch", "cpu_count", "gpus", "processes"),
    *("protocol", "measuring"),
)
"""The circumstances that a sentence names, besides the device and the kernels."""


# The table


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
    of = pd.cut(table.seq_len.astype(int), [0, SHORT, LONG - 1, float("inf")], labels=False)
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
    pooled = []
    for rows, by in ((plain, ["implementation", "group"]), (plain[plain.group != ""], ["group"])):
        pooled += [pooled_alike(rows, ["metric", *by, *sizes]) for sizes in (["sizes"], [])]
    return pd.concat([table, *(rows.assign(compared=DATASET) for rows in pooled)])


def records_of(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as mappings, without what is missing."""
    return [
        {str(k): v for k, v in row.items() if v is not None}
        for row in rows.astype(object).where(rows.notna(), None).to_dict("records")
    ]


@dataclass(frozen=True)
class Compared:
    """Two sides as their story and their tables read them.

    Attributes:
        table: every comparison (`flashlab.compare.comparison.comparison_table`).
        about: the sides, their circumstances and ceilings, and the runs without results.
    """

    benchmark: Benchmark
    table: pd.DataFrame
    about: Mapping[str, Any]

    @cached_property
    def names(self) -> tuple[str, str]:
        """The names of the sides: the reference, and what is judged."""
        one, other = (side["name"] for side in self.about["sides"])
        return one, other

    @cached_property
    def devices(self) -> tuple[str, str] | None:
        """The devices of both sides where each has one and they are not the same."""
        one, other = (side["devices"] for side in self.about["sides"])
        return (one[0], other[0]) if len(one) == len(other) == 1 and one != other else None

    @cached_property
    def times(self) -> list[Metric]:
        """The measured times that comparisons are about, in order."""
        return [m for m in self.benchmark.compared if m.unit in TIMES and not m.higher_is_better]

    @cached_property
    def total(self) -> Metric:
        """The total of the times; the first of them where there is none."""
        totals = [metric for metric in self.benchmark.totals if metric.unit in TIMES]
        return (totals or self.times)[0]

    @cached_property
    def speeds(self) -> pd.DataFrame:
        """All rows of both sides by a time as speeds: ``x``, ``slowest``, ``fastest``, ``word``.

        Those of single runs have a ``shape``; pooled ones have an ``implementation`` or a group,
        and a class of ``sizes`` unless they are over all.
        """
        names = [metric.name for metric in (*self.times, self.total)]
        of = self.table[(self.table.compared == DATASET) & self.table.metric.isin(names)]
        return as_speeds(of[~of.implementation.fillna("").str.endswith(PACKED_TWIN)])

    @cached_property
    def single(self) -> pd.DataFrame:
        """The speeds of each run by each measured time."""
        measured = [metric.name for metric in self.times]
        return self.speeds[self.speeds["shape"].notna() & self.speeds.metric.isin(measured)]

    @cached_property
    def implementations(self) -> list[str]:
        """Those that store the scores first, then the others, each by name."""
        groups = dict(zip(self.single.implementation, self.single.group, strict=True))
        naive = self.benchmark.naive
        return sorted(groups, key=lambda name: (name != naive, groups[name] != NAIVE, name))

    @cached_property
    def classes(self) -> list[str]:
        """The classes of sizes, the smallest first; one without a name where there is none."""
        if "seq_len" not in self.single or self.single.seq_len.isna().any():
            return [""]
        return [str(name) for name in self.single.sort_values("seq_len").sizes.unique()]

    def mean(
        self, metric: str, name: str = "", group: str = "", sizes: str = ""
    ) -> pd.Series | None:
        """A pooled speed of an implementation or of a group, over all sizes or a class of them."""
        rows = self.speeds[self.speeds["shape"].isna() & (self.speeds.metric == metric)]
        rows = rows[rows.implementation.fillna("") == name]
        rows = rows[(rows.group == group) if group else rows.index >= 0]
        rows = rows[rows.sizes.fillna("") == sizes]
        return rows.iloc[0] if len(rows) else None


def as_speeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of times with their speeds beside: ``x`` with its interval, and the ``word``."""
    x, slowest, fastest = inverse_of(*(rows[e].astype(float) for e in ("ratio", "low", "high")))
    word = rows.verdict.replace(OPPOSITE).map(WORDS)
    return rows.assign(x=x, slowest=slowest, fastest=fastest, word=word)


def ranked_by(benchmark: Benchmark) -> list[Metric]:
    """The times that one chooses an implementation by: the totals, and the first time."""
    times = [m for m in chosen_metrics(benchmark) if m.unit in TIMES]
    return [*(total for total in benchmark.totals if total in times), *times[:1]]


# Facts


def _speed(row: pd.Series) -> list[float]:
    """A speed with its interval, as sentences print one."""
    return [float(row.x), float(row.slowest), float(row.fastest)]


def _is_shown(row: pd.Series) -> bool:
    return bool(row.word in (FASTER, SLOWER))


def gain(c: Compared) -> Observation:
    """Who gains: the naive implementation, the fused ones, both alike, or nobody that is shown."""
    counts = c.single.word.value_counts()
    faster, slower, equal, undecided = (
        int(counts.get(word, 0)) for word in (FASTER, SLOWER, EQUAL, UNDECIDED)
    )
    facts: dict[str, Any] = {"one": c.names[0], "other": c.names[1], "of": len(c.single)}
    if c.single.empty:
        return _answer("gain", "empty", facts, c.single)
    if not faster and not slower:
        facts |= {"equal": equal, "undecided": undecided}
        return _answer("gain", "none" if undecided else "equal", facts, c.single)
    counted = {
        "faster": clause("some_faster", count=faster) if faster else clause("none_faster"),
        "slower": clause("some_slower", count=slower) if slower else clause("none_slower"),
        "open": clause("some_open", count=undecided) if undecided else None,
    }
    naive = c.mean(c.total.name, c.benchmark.naive or "")
    fused = c.mean(c.total.name, group=FUSED)
    if naive is None or fused is None:
        return _answer("gain", "counts", facts | counted, c.single)
    pairs = [
        (mine, theirs)
        for sizes in c.classes
        if (mine := c.mean(c.total.name, c.benchmark.naive or "", sizes=sizes)) is not None
        and (theirs := c.mean(c.total.name, group=FUSED, sizes=sizes)) is not None
    ]
    variant = "both" if _is_shown(naive) or _is_shown(fused) else "unshown"
    if naive.word == FASTER and all(mine.slowest > theirs.fastest for mine, theirs in pairs):
        variant = "naive"
    elif fused.word == FASTER and all(theirs.slowest > mine.fastest for mine, theirs in pairs):
        variant = "fused"
    for name, mean in (("naive", naive), ("fused", fused)):
        mark = clause("not_decided") if mean.word == UNDECIDED else None
        facts[name] = {"name": c.benchmark.naive, "x": _speed(mean), "mark": mark}
    return _answer("gain", variant, facts | counted, pd.DataFrame([naive, fused]))


def where(c: Compared) -> Observation | None:
    """By class of sizes and by pass: where the fused ones gain, and where nothing is shown."""
    found = {sizes: c.mean(c.total.name, group=FUSED, sizes=sizes) for sizes in c.classes}
    means = {sizes: mean for sizes, mean in found.items() if mean is not None}
    if len(means) < 2 or len(c.times) != 2:
        return None
    most = max(means, key=lambda sizes: (means[sizes].word == FASTER, float(means[sizes].x)))
    fused = c.single[c.single.group == FUSED]
    shown = {*fused[fused.word.isin([FASTER, SLOWER])].sizes}
    silent = [sizes for sizes in means if sizes not in shown]
    level = [sizes for sizes in means if not _is_shown(means[sizes])]
    is_gain = means[most].word == FASTER
    forward, backward = (c.mean(metric.name, group=FUSED) for metric in c.times)
    more = None
    if forward is not None and backward is not None:
        if backward.slowest > forward.fastest and backward.word == FASTER:
            more = clause("more_backward" if is_gain else "though_backward")
        elif forward.slowest > backward.fastest and forward.word == FASTER:
            more = clause("more_forward" if is_gain else "though_forward")
    quiet = clause("nothing_at", sizes=silent) if silent else None
    if not silent and level and is_gain:
        quiet = clause("level_at", sizes=level)
    facts = {"most": most, "x": _speed(means[most]), "more": more, "quiet": quiet}
    return _answer("where", "gains" if is_gain else "none", facts, pd.DataFrame([*means.values()]))


def why(c: Compared) -> Observation | None:
    """The ratios of the measured ceilings, and whose gain is near which: no cause is stated."""
    rates = {rate["what"]: rate["other"] / rate["one"] for rate in c.about["ceilings"]}
    copy = rates.pop("copy", None)
    if copy is None or not rates:
        return None
    near: dict[str, float] = {"bandwidth": copy, "products": next(iter(rates.values()))}

    def nearest(x: float) -> str | None:
        found = [name for name, ratio in near.items() if abs(x / ratio - 1) <= NEAR]
        return found[0] if len(found) == 1 else None

    names = [metric.name for metric in c.times]
    pooled = c.speeds[c.speeds["shape"].isna() & c.speeds.metric.isin(names)]
    pooled = pooled[pooled.implementation.notna() & pooled.sizes.notna() & (pooled.word == FASTER)]
    found = None
    if len(pooled):
        top, last = pooled.sort_values("x").iloc[-1], c.classes[-1]
        fused = c.mean(c.total.name, group=FUSED, sizes=last)
        beside = None if fused is None else nearest(float(fused.x))
        if of := nearest(float(top.x)):
            also = clause(f"also_{beside}", sizes=last) if beside not in (None, of) else None
            part = clause(f"pass_{top.metric}")
            facts = {"name": top.implementation, "sizes": top.sizes, "x": _speed(top)}
            found = clause(f"near_{of}", **facts, part=part, also=also)
    memory, products = (abs(math.log(ratio)) for ratio in near.values())
    is_alike = abs(memory - products) < math.log(APART)
    variant = "alike" if is_alike else "memory" if memory > products else "products"
    return _answer("why", variant, {"other": c.names[1], **near, "near": found}, pooled.iloc[:0])


def _fits(c: Compared) -> list[Mapping[str, Any]]:
    """The runs that only the device with more memory holds, of two that differ in it."""
    more, _ = _memory(c)
    had, lacked = ("other", "one") if more else ("one", "other")
    fits = [run for run in c.about["ended"] if (run[had], run[lacked]) == ("ok", "oom")]
    return fits if more is not None else []


def changed(c: Compared) -> Iterator[Observation]:
    """Where code on one device became slower or faster, and what it takes more or less of."""
    rows = c.single.iloc[:0] if c.devices else c.single
    for word in (SLOWER, FASTER):
        told, shown = list[dict[str, Any]](), rows[rows.word == word]
        for (name, metric), every in rows.groupby(["implementation", "metric"], sort=False):
            if len(mine := every[every.word == word]):
                label = dict(c.benchmark.metric(str(metric)).labels)
                counted = {"x": [*map(float, mine.x)], "count": len(mine), "of": len(every)}
                shapes = _first("shapes", [*mine["shape"]])
                told.append(clause("place", name=name, label=label, **counted, **shapes))
        if told:
            facts: dict[str, Any] = {"other": c.names[1], **_first("places", told)}
            yield _answer("changed", word, facts, shown)
    for metric in (m for m in c.benchmark.measured if m.exact):
        of_it = c.table[(c.table.metric == metric.name) & c.table["shape"].notna()]
        of_it = of_it[~of_it.implementation.str.endswith(PACKED_TWIN)]
        for name, mine in of_it.groupby("implementation", sort=False):
            moved = mine[mine.verdict.isin(["above", "below"])]
            if len(moved):
                facts = {"name": name, "label": dict(metric.labels), "one": c.names[0]}
                facts |= {"x": [*moved.ratio.astype(float)], "count": len(moved), "of": len(mine)}
                yield _answer("exact", "", facts, moved)


def ended(c: Compared) -> Iterator[Observation]:
    """The runs that have a result on one side alone, by implementation and status.

    Those that one device has no memory for are told with the choice.
    """
    told, sides = _fits(c), dict(zip(("one", "other"), c.names, strict=True))
    for lost, kept, variant in (("other", "one", "lost"), ("one", "other", "mended")):
        rows = [run for run in c.about["ended"] if run[kept] == "ok" and run[lost] != "ok"]
        for facts in _by_status((run for run in rows if run not in told), lost):
            yield Observation("ended", None, {**facts, "side": sides[lost]}, (), variant, "notice")


def _by_status(runs: Iterable[Mapping[str, Any]], side: str) -> Iterator[dict[str, Any]]:
    """The facts on runs without a result on a side: whose, why and where."""
    groups: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        groups.setdefault((run["implementation"], run[side]), []).append(run["shape"])
    for (name, status), shapes in groups.items():
        yield {"name": name, "status": clause(f"status_{status}"), **_first("shapes", shapes)}


def _first(key: str, items: Sequence[Any]) -> dict[str, Any]:
    """The first of some things, and a clause that counts the others."""
    more = len(items) - SHOWN
    return {key: items[:SHOWN], "more": clause("and_more", count=more) if more > 0 else None}


def _winners(c: Compared, side: str, metric: str) -> pd.Series[str]:
    """By shape, the implementation that a side shows to be faster than every other one there."""
    rows = c.table[(c.table.compared == IMPLEMENTATIONS) & (c.table.experiment == side)]
    rows = as_speeds(rows[rows.metric == metric])
    named = {"subject": "reference", "reference": "subject"}
    both = pd.concat(
        [rows, rows.rename(columns=named).replace({"word": {FASTER: SLOWER, SLOWER: FASTER}})]
    )
    alone = (both.word == FASTER).groupby([both["shape"], both.dtype, both.subject]).all()
    return alone[alone].reset_index().set_index(["shape", "dtype"]).subject


def choice(c: Compared) -> Iterator[Observation]:
    """Whether the fastest implementation changes; what only one device has the memory for."""
    if len(c.implementations) >= 3:
        metric = ranked_by(c.benchmark)[0]
        one, other = (_winners(c, side, metric.name) for side in c.names)
        both = pd.DataFrame({"one": one, "other": other}).dropna()
        changed = both[both.one != both.other]
        kept = both[both.one == both.other].one.unique().tolist()
        total = clause("in_total") if c.benchmark.totals else None
        facts = {"count": len(both), "changed": len(changed), "names": kept[:SHOWN], "total": total}
        facts |= {"other": c.names[1], "now": changed.other.unique().tolist()[:SHOWN]}
        variant = "none" if both.empty else "changes" if len(changed) else "stays"
        yield Observation("choice", None, facts, (), variant, "conclusion")
    more, sizes = _memory(c)
    if more is not None:
        lengths = {run["implementation"]: run["seq_len"] for run in _fits(c) if "seq_len" in run}
        less = c.names[1 - more]
        fits = [clause("enough", name=n, seq_len=at, less=less) for n, at in lengths.items()]
        facts = {"name": c.names[more], "more": sizes[more], "less": sizes[1 - more]}
        yield Observation("memory", None, {**facts, "fits": fits[:SHOWN]}, (), "", "conclusion")


def _memory(c: Compared) -> tuple[int | None, list[float]]:
    """Which side's device has more memory (None where that is not known), and both in GB."""
    found = [find_device(name) for name in c.devices or ()]
    sizes = [device.memory_gb for device in found if device is not None]
    differs = len(sizes) == 2 and sizes[0] != sizes[1]
    return int(sizes[1] > sizes[0]) if differs else None, sizes


def field(name: str) -> dict[str, str]:
    """The name of a circumstance (`flashlab.compare.circumstances`), by language."""
    return {language: message(language, "compare", f"field.{name}") for language in LANGUAGES}


def machines(c: Compared) -> Iterator[Observation]:
    """What is alike and what differs between the two machines, and what that puts in doubt."""
    verdicts = {
        row["field"]: row["verdict"]
        for row in c.about["environments"]
        if row["implementation"] is None and row["field"] in FIELDS and (row["one"] or row["other"])
    }
    told = {
        verdict: [clause("label", text=field(name)) for name in FIELDS
                  if verdicts.get(name) == verdict]
        for verdict in ("agrees", "differs")
    }  # fmt: skip
    beside = clause("besides") if c.devices else None
    known = [name for name in ("agrees", "differs") if told[name]]
    if known:
        variant = "both" if len(known) == 2 else known[0]
        yield Observation("machines", MACHINES, {**told, "beside": beside}, (), variant)
    kernels = {
        row["implementation"]: row["verdict"] == "differs"
        for row in c.about["environments"]
        if row["field"] == "kernel" and not row["implementation"].endswith(PACKED_TWIN)
    }
    changed = [name for name, differs in kernels.items() if differs]
    if changed:
        facts = {"count": len(changed), "of": len(kernels), **_first("names", changed)}
        yield Observation("code", MACHINES, facts, (), "machine" if c.devices else "alone")
    if c.devices:
        yield Observation("unpaired", MACHINES, {})
    if {*c.single.processes} == {"1 1"}:
        # Two processes, each with its own offset, and the margin on top.
        least = (1 + MARGIN) * (1 + NORMAL * math.sqrt(2) * UNREPLICATED.deviation) - 1
        facts = {"spread": UNREPLICATED.deviation, "least": least}
        yield Observation("assumed", MACHINES, facts)


def missing(c: Compared) -> Iterator[Observation]:
    """The runs without a result on either side, and those that one side alone has."""
    lost = (run for run in c.about["ended"] if "ok" not in (run["one"], run["other"]))
    for facts in _by_status(lost, "one"):
        yield Observation("failed", None, facts, (), "", "notice")
    for side, alone in zip(c.names, c.about["only"], strict=True):
        if count := len(alone):
            facts = {"side": side, "count": count}
            yield Observation("only", None, facts, (), "one" if count == 1 else "many", "notice")


def _answer(name: str, variant: str, facts: Mapping[str, Any], rows: pd.DataFrame) -> Observation:
    """A sentence of the answer, which rests on some rows of the table."""
    return Observation(name, None, facts, records_of(rows), variant, "answer")


def story(c: Compared) -> list[Observation]:
    """The observations of a comparison, in its order."""
    told = (gain(c), *changed(c), where(c), why(c), *ended(c), *choice(c), *machines(c))
    return [each for each in (*told, *missing(c)) if each is not None]
