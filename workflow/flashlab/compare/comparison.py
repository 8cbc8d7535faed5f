"""Two sides as one table of comparisons, and what else differs between them.

Each side is read and estimated as a report's dataset is: a run's estimate is that of its report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab import statistics
from flashlab.analysis.ceilings import COPY, Ceilings, read_ceilings
from flashlab.analysis.comparisons import COLUMNS
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import DATASET, DIRTY, IMPLEMENTATIONS, run_keys, variant_words
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.analysis.tables import metric_rows, read_runs
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.sides import Side, SideError
from flashlab.files import read_json
from flashlab.plan.identity import deciding
from flashlab.runs import Run
from flashlab.story.compare import Compared, ranked_by, records_of, story, with_pooled
from flashlab.story.observation import as_json

ABOUT = ["implementation", "group", "sizes", "shape", "dtype", "device", "reference_median"]
ABOUT += ["subject_median", "unit", "processes"]
"""Columns besides those of comparisons.csv: the implementation (none of a row that pools several),
its group, its class of sizes (`flashlab.story.compare`), the shape in short; and of a single run
the metric on both sides, and the processes of each."""

FIELDS = {
    **{"device_name": ("device_name", "{}"), "memory_clock": ("gpu.memory_clock_MHz", "{:g} MHz")},
    **{"power_limit": ("gpu.power_limit_W", "{:g} W"), "driver": ("driver", "{}")},
    **{"torch": ("packages.torch", "{}"), "cpu_count": ("cpu_count", "{:g}")},
    **{"protocol": ("protocol.name", "{}"), "measuring": ("measuring_digest", "digest {:.12}")},
    **{"measured": ("measured", "{}"), "commits": ("commits", "{}"), "gpus": ("gpus", "{}")},
    **{"processes": ("processes", "{}"), "kernel": ("implementation_digest", "digest {:.12}")},
}
"""The circumstances of both sides: what a record calls each, and how it is printed."""


class _Read:
    """The runs of a side that both sides have, as the estimators of a report see them.

    `values` are the rows of the metric table of runs that are ok, with what comparisons take of
    each: its estimate (of an exact metric the ends in place of it), the hashes of its records, and
    the codes of its warnings. RecordError for a record that is missing or damaged.
    """

    def __init__(self, side: Side, entries: Iterable[Mapping[str, Any]]) -> None:
        self.name, benchmark = side["name"], find_benchmark(side["benchmark"])
        file = side["ceilings"]
        self.ceilings = read_ceilings(read_json(Path(file))) if file else None
        of = read_runs({**side, "records": [*entries]}, side, self.ceilings)
        self.records, self.status = [*of.records], {each.run: each.status for each in of.runs}
        devices = {str(d) for r in self.records if (d := r.environment.get("device_name"))}
        ended = max(record.started for record in self.records)
        self.about = {"name": self.name, "devices": sorted(devices), "ended": ended}
        metrics = {metric.name: metric for metric in (*benchmark.measured, *benchmark.totals)}
        estimates, runs, rows = Estimates([of]), {each.run: each for each in of.runs}, []
        for row in metric_rows(of):
            if row["status"] != "ok" or row["metric"] not in metrics:
                continue
            metric, each = metrics[row["metric"]], runs[Run.of(benchmark, row)]
            about = () if metric.exact else (None, *benchmark.measured_behind(metric.name))
            facts = {
                **{end: row["value"] for end in ("low", "high") if row[end] is None},
                "estimate": None if metric.exact else estimates.of(metric)[each.key],
                "hashes": [p.sha256 for p in each.processes if p.status == each.status],
                "codes": {w["code"] for w in each.warnings if w.get("metric") in about},
                "variant": variant_words((v.name, each.run[v.name]) for v in benchmark.variants),
                "shape": " ".join(each.run.words),
            }
            rows.append({**row, **benchmark.all_parameters(each.run), **facts})
        self.values = pd.DataFrame(rows)


# The table


def _ratio(both: Any) -> Ratio:
    """The other one's value of a metric over the first one's, with its interval."""
    if both.hashes_one == both.hashes_other:
        return Ratio(0, 1.0, 1.0, 1.0, 0)  # as of a kernel that a revision did not change
    if both.estimate_one is not None:
        return ratio(0, both.estimate_other, both.estimate_one)
    # The same at every measurement; where processes differ, the largest.
    ends = both.low_other / both.high_one, both.high_other / both.low_one
    return Ratio(0, both.value_other / both.value_one, *ends, 0)


def _with_ratios(both: pd.DataFrame, metrics: Sequence[Metric], by: Sequence[str]) -> pd.DataFrame:
    """Pairs of rows of `_Read.values`, of some metrics and sorted, with the ratio of each."""
    ranks = {metric.name: rank for rank, metric in enumerate(metrics)}
    both = both.assign(rank=both.metric.map(ranks)).dropna(subset="rank")
    both = both.sort_values([*by], ignore_index=True)
    pairs: list[Any] = [*both.itertuples()]
    ratios = [*map(_ratio, pairs)]
    return both.join(pd.DataFrame(map(vars, ratios))).assign(
        verdict=[each.verdict for each in ratios],
        samples=pd.array([each.samples or None for each in ratios], "Int64"),
        doubts=[" ".join(sorted(each.codes_one | each.codes_other)) for each in pairs],
        processes=[f"{len(each.hashes_one)} {len(each.hashes_other)}" for each in pairs],
        **{"settings": 1, "value": None},
    )


def _table(benchmark: Benchmark, sides: Sequence[_Read]) -> pd.DataFrame:
    """Every comparison of two sides that have the same runs.

    It has the columns of comparisons.csv, the benchmark's parameters, and `ABOUT`. ``compared`` is
    ``dataset`` where a run of the second side, the subject, is compared with that of the first, or
    several pooled (`story.compare.with_pooled`), and ``implementations`` where two of one side
    (``experiment``) are.
    """
    parameters = {parameter.name: parameter.kind for parameter in benchmark.parameters}
    (name, *keys), suffixes = run_keys(benchmark), ("_one", "_other")
    on = [*dict.fromkeys(["metric", "unit", "variant", "shape", *keys, *parameters])]
    one, other = (side.values for side in sides)
    table = pd.DataFrame()
    if len(one) and len(other) and len(both := one.merge(other, on=[name, *on], suffixes=suffixes)):
        metrics = (*benchmark.measured, *benchmark.totals)
        across = _with_ratios(both, metrics, [name, "rank", *keys])
        medians = {"value_one": "reference_median", "value_other": "subject_median"}
        across = with_pooled(across.rename(columns=medians).assign(compared=DATASET), benchmark)
        table = across.assign(reference=sides[0].name, subject=sides[1].name)
    for side in sides if len(table) else ():
        plain = side.values[~side.values[name].str.endswith(PACKED_TWIN)]
        both = plain.merge(plain, on=on, suffixes=suffixes)
        both = both[both.implementation_one < both.implementation_other]
        names = {"implementation_one": "reference", "implementation_other": "subject"}
        within = _with_ratios(both, ranked_by(benchmark), ["rank", *keys, *names])
        within = within.rename(columns=names).drop(columns=["variant", "doubts", "processes"])
        table = pd.concat([table, within.assign(compared=IMPLEMENTATIONS, experiment=side.name)])
    whole = [parameter for parameter, kind in parameters.items() if kind is int]
    numbers = dict.fromkeys([*whole, "settings", "pairs", "samples"], "Int64")
    table = table.reindex(columns=[*COLUMNS, *parameters, *ABOUT])
    return table.astype(object).astype(numbers).reset_index(drop=True)


# Around it


def _circumstances(sides: Sequence[_Read]) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's kernel, with its verdict.

    Each has the values that occur on each side: ``agrees`` where they are the same, ``unstated``
    where one side states none; what neither states is left out. Of a protocol these are its name
    and what of it is not the same.
    """
    facts = pd.json_normalize(
        {
            **{"boot": "", "gpu_uuid": None, **record.environment, **record.sources},
            **{"side": at, "implementation": record.run.implementation, "run": str(record.run)},
            **{"protocol": deciding(record.protocol), "measured": record.started[:10]},
            "commits": (commit := record.environment.get("commit"))
            and commit[:12] + DIRTY * bool(record.environment.get("dirty")),
        }
        for at, side in enumerate(sides)
        for record in side.records
    )
    facts["gpus"] = facts.groupby(["side", "boot"]).gpu_uuid.transform("nunique")
    facts["processes"] = facts.groupby(["side", "run"]).run.transform("size")
    parts = facts.filter(regex=r"^protocol\.(?!name)").astype(str)
    for part in parts.columns[parts.nunique() > 1]:
        facts["protocol.name"] += f", {part.removeprefix('protocol.')} " + parts[part]
    found = []
    for field, (column, form) in FIELDS.items():
        told = facts.reindex(columns=[column])[column].replace("", None).dropna().map(form.format)
        by = facts.implementation if field == "kernel" else pd.Series("", facts.index)
        for name, of in told.groupby(by):
            one, other = (sorted({*of[facts.side[of.index] == at]}) for at in (0, 1))
            verdict = "agrees" if one == other else "differs" if one and other else "unstated"
            row = {"field": field, "implementation": name or None, "one": one, "other": other}
            found.append({**row, "verdict": verdict})
    return found


def compare_ceilings(both: Sequence[Ceilings | None], dtypes: set[str]) -> list[dict[str, Any]]:
    """The rates that both devices were measured to reach at first, or that both sustain.

    `what` is ``copy``, in GB/s, or one of these dtypes of a matrix product, in TFLOP/s; `sustained`
    are the rates after both fell. Where one fell alone the other may have been hot from the first
    call on: then `one` and `other` are what each sustains. Empty where a side has none.
    """
    rates, found = [{COPY: each.copy, **each.matrix} for each in both if each], []
    for what in (COPY, *sorted(dtypes)):
        unit, of = 1e9 if what == COPY else 1e12, [each[what] for each in rates if what in each]
        if len(of) == 2:
            falls = [each.sustained_rate and each.sustained_rate / unit for each in of]
            first = [each.rate / unit for each in of]
            if None in falls:
                first = [fall or rate for fall, rate in zip(falls, first, strict=True)]
                falls = [None, None]
            found.append({"what": what, "one": first[0], "other": first[1], "sustained": falls})
    return found


def compare(one: Side, other: Side) -> Compared:
    """The comparison of two sides of one benchmark, with what its story observes.

    SideError where they have no run in common, RecordError for a record that is missing or damaged.
    """
    benchmark = find_benchmark(one["benchmark"])
    runs = [{Run.of(benchmark, e["run"]): e for e in s["records"]} for s in (one, other)]
    shared = runs[0].keys() & runs[1].keys()
    if not shared:
        kinds = [" and ".join(sorted({f"{r.dtype} on {r.device}" for r in of})) for of in runs]
        raise SideError(
            f"compare: {one['name']} ({kinds[0]}) and {other['name']} ({kinds[1]}) have no run in "
            "common: none has the same implementation, shape, dtype and kind of device. Measure "
            "both with the same configuration."
        )
    both = zip((one, other), runs, strict=True)
    sides = [_Read(side, (of[run] for run in of if run in shared)) for side, of in both]
    about: dict[str, Any] = {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [side.about for side in sides],
        "shared": len(shared),
        "environments": _circumstances(sides),
        "ceilings": compare_ceilings([s.ceilings for s in sides], {run.dtype for run in shared}),
        "ended": [
            {**_named(run), "one": statuses[0], "other": statuses[1], **run}
            for run in sorted(shared)
            if {*(statuses := [side.status[run] for side in sides])} != {"ok"}
        ],
        "only": [[*map(_named, sorted(of.keys() - shared))] for of in runs],
    }
    table = _table(benchmark, sides)
    about["observations"] = [each.to_json() for each in story(Compared(benchmark, table, about))]
    return Compared(benchmark, table, about)


def _named(run: Run) -> dict[str, str]:
    return {"implementation": run.implementation, "shape": " ".join(run.words)}


def to_json(c: Compared) -> dict[str, Any]:
    """A comparison with all rows of its table, as JSON values."""
    return {**c.about, "comparisons": [as_json(row) for row in records_of(c.table)]}
