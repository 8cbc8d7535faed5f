"""Two sides as one table of comparisons, and the document that its readers share.

The spread between processes of identical code is estimated from both sides together.
Where no run was measured in several, `UNREPLICATED` takes its place: identical code must not look
different.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab import statistics
from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS, variant_words
from flashlab.analysis.comparisons import COLUMNS
from flashlab.analysis.estimates import Estimates, bases_of
from flashlab.analysis.experiment import Measured, Process, Runs, status_of
from flashlab.analysis.ratios import ratio, verdict_of
from flashlab.analysis.replication import UNREPLICATED, agreed_value, combine_processes
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.circumstances import compare_ceilings, compare_circumstances, describe_side
from flashlab.compare.sides import Records, Side, SideError
from flashlab.files import read_json, write_json
from flashlab.records import Record
from flashlab.runs import Run
from flashlab.statistics import Estimate, estimate_median, function_estimate
from flashlab.story.compare import Compared, ranked_by, records_of, story, with_pooled
from flashlab.story.observation import as_json

ABOUT = ("implementation", "group", "sizes", "shape", "dtype", "device")
"""Columns besides those of comparisons.csv: the implementation (none of a row that pools several),
its group, its class of sizes (`flashlab.story.compare`), and the shape in short."""

VALUES = ("reference_median", "subject_median", "unit", "processes")
"""Columns of a single run's row: the metric on both sides, and the processes of each that have it.
"""

Both = tuple[Sequence[Record], Sequence[Record]]
"""The processes of a run on the first and on the second side."""


def status_in(processes: Sequence[Record]) -> str:
    """The status of a run in these processes."""
    return status_of([record.status for record in processes])


def _having(processes: Sequence[Record], metric: Metric) -> list[Record]:
    """The processes that measured a metric; an optional one may be missing."""
    ok = (record for record in processes if record.status == "ok")
    return [record for record in ok if record.metrics.keys() >= {*bases_of(metric)}]


def _value(record: Record, metric: Metric) -> float:
    values = [record.metrics[base].value for base in bases_of(metric)]
    return float(metric.derived.compute(record.run, *values)) if metric.derived else values[0]


def _estimates(processes: Sequence[Record], metric: Metric) -> list[Estimate]:
    """A sampled metric's estimate in each process; empty where one kept no samples."""
    kept = [[r.metrics[base].samples for base in bases_of(metric)] for r in processes]
    if not all(itertools.chain(*kept)):
        return []
    estimates = [[estimate_median(samples) for samples in each] for each in kept]
    if metric.derived is None:
        return [one for (one,) in estimates]
    compute = functools.partial(metric.derived.compute, processes[0].run)
    return [function_estimate(compute, each) for each in estimates]


def _doubts(both: Both, metric: Metric) -> str:
    """The codes of the warnings that concern a metric; an exact one is the same whatever runs."""
    concerned = () if metric.exact else (None, *bases_of(metric))
    every = (warning for record in itertools.chain(*both) for warning in record.warnings)
    return " ".join(sorted({w["code"] for w in every if w.get("metric") in concerned}))


def _compared(metric: Metric, runs: Mapping[Run, Both]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """A metric of an implementation's runs that have it on both sides: values, ratio, interval."""
    sampled: dict[Run, list[list[Estimate]]] = {}
    for run, both in runs.items():
        one, other = ([_value(record, metric) for record in side] for side in both)
        estimates = [_estimates(side, metric) for side in both]
        before, after = agreed_value(one), agreed_value(other)
        if both[0] == both[1]:  # as of a kernel that a revision did not change
            yield run, _row(before, before, 1.0, 1.0)
        elif metric.exact:  # the same at every measurement; where processes differ, the largest
            least, most = min(other) / max(one), max(other) / min(one)
            yield run, _row(max(one), max(other), least, most)
        elif all(estimates):
            sampled[run] = estimates
        else:  # means alone have no interval
            yield run, _row(before, after, None, None)
    processes = [estimates for run in sampled.values() for estimates in run]
    combined = iter(combine_processes(processes, UNREPLICATED))
    for run in sampled:
        first, second = next(combined).estimate, next(combined).estimate
        compared = ratio(0, second, first)
        ends = compared.low, compared.high
        yield run, {**_row(first.median, second.median, *ends), "samples": compared.samples}


def _row(one: float, other: float, low: float | None, high: float | None) -> dict[str, Any]:
    values = {"reference_median": one, "subject_median": other, "ratio": other / one}
    return {**values, "low": low, "high": high, "verdict": verdict_of(low, high)}


def _rows(benchmark: Benchmark, one: Records, other: Records) -> Iterator[dict[str, Any]]:
    """Each metric of each run that is ok on both sides, by implementation and metric."""
    for name, runs in itertools.groupby(sorted(one), key=lambda run: run.implementation):
        ok = {r: b for r in runs if {*map(status_in, b := (one[r], other[r]))} == {"ok"}}
        for metric in (*benchmark.measured, *benchmark.totals):
            both = {r: tuple(_having(side, metric) for side in b) for r, b in ok.items()}
            having = {r: (first, second) for r, (first, second) in both.items() if first and second}
            for run, row in _compared(metric, having):
                variants = {v.name: run[v.name] for v in benchmark.variants}
                yield {
                    **{"compared": DATASET, "implementation": name, "metric": metric.name},
                    **{"variant": variant_words(variants.items()), "shape": " ".join(run.words)},
                    **{"dtype": run.dtype, "device": run.device, "unit": metric.unit},
                    **{"settings": 1, "pairs": 0, "doubts": _doubts(ok[run], metric), **row},
                    "processes": " ".join(str(len(side)) for side in having[run]),
                    **benchmark.all_parameters(run),
                }


def _among(benchmark: Benchmark, name: str, side: Records) -> Iterator[dict[str, Any]]:
    """The implementations of one side against each other at each setting, by the usual pairing.

    Packed twins are left out.
    """
    measured = [Measured(run, [*map(Process, records)]) for run, records in side.items()]
    runs = [each for each in measured if not each.run.implementation.endswith(PACKED_TWIN)]
    estimates = Estimates([Runs({"name": name}, benchmark, runs)])
    by_setting = itertools.groupby(
        sorted(runs, key=lambda each: (each.key[1:], each.key)), key=lambda each: each.key[1:]
    )
    settings = [[each.run for each in own] for _, own in by_setting]
    for metric, setting in itertools.product(ranked_by(benchmark), settings):
        of = estimates.of(metric)
        known = {run: of[key] for run in setting if (key := tuple(run.to_row().values())) in of}
        for reference, subject in itertools.combinations(known, 2):
            pair = ratio(1, known[subject], known[reference])
            yield {
                **{"experiment": name, "compared": IMPLEMENTATIONS, "metric": metric.name},
                **{"subject": subject.implementation, "reference": reference.implementation},
                **{"shape": " ".join(subject.words), "unit": metric.unit, "settings": 1},
                **{"dtype": subject.dtype, "device": subject.device},
                **{"ratio": pair.ratio, "low": pair.low, "high": pair.high},
                **{"verdict": pair.verdict, "pairs": pair.pairs, "samples": pair.samples},
                **benchmark.all_parameters(subject),
            }


def comparison_table(
    benchmark: Benchmark, one: tuple[str, Records], other: tuple[str, Records]
) -> pd.DataFrame:
    """Every comparison of two sides, each with its name, that have the same runs.

    Returns:
        The columns of comparisons.csv, the benchmark's parameters, `ABOUT` and `VALUES`.
        ``compared`` is ``dataset`` where a run of the second side, the subject, is compared with
        that of the first, or several pooled (`story.compare.with_pooled`), and
        ``implementations`` where two of one side (``experiment``) are.
    """
    table = pd.DataFrame(_rows(benchmark, one[1], other[1]))
    if table.empty:
        return _typed(table, benchmark)
    across = with_pooled(table, benchmark).assign(subject=other[0], reference=one[0])
    within = [row for name, side in (one, other) for row in _among(benchmark, name, side)]
    return _typed(pd.concat([across, pd.DataFrame(within)]), benchmark)


def _typed(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Rows with all columns of the table, whole numbers as such."""
    parameters = [p.name for p in benchmark.parameters]
    whole = [p.name for p in benchmark.parameters if p.kind is int]
    whole += ["settings", "pairs", "samples"]
    table = rows.reindex(columns=[*COLUMNS, *parameters, *ABOUT, *VALUES])
    if rows.empty:
        table = table.astype(object)
    return table.astype(dict.fromkeys(whole, "Int64")).reset_index(drop=True)


def _ended(one: Records, other: Records) -> Iterator[dict[str, Any]]:
    """The runs without a result on one side or both, with their statuses."""
    for run in sorted(one):
        statuses = status_in(one[run]), status_in(other[run])
        if statuses != ("ok", "ok"):
            about = {"implementation": run.implementation, "shape": " ".join(run.words)}
            yield {**about, "one": statuses[0], "other": statuses[1], **dict(run.parameters)}


def _only(one: Records, other: Records) -> list[dict[str, Any]]:
    """The runs that the first of two sides alone has, by implementation."""
    lacking = sorted(one.keys() - other.keys())
    return [
        {"implementation": name, "shapes": [" ".join(run.words) for run in runs]}
        for name, runs in itertools.groupby(lacking, key=lambda run: run.implementation)
    ]


def _kinds(records: Records) -> str:
    return " and ".join(sorted({f"{run.dtype} on {run.device}" for run in records}))


def compare_records(
    benchmark: Benchmark,
    one: tuple[str, Records],
    other: tuple[str, Records],
    ceilings: tuple[Path | None, Path | None] = (None, None),
) -> dict[str, Any]:
    """The comparison of two sides of one benchmark, as JSON values.

    Raises:
        SideError: the sides have no run in common.
    """
    first, second = one[1], other[1]
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise SideError(
            f"compare: {one[0]} ({_kinds(first)}) and {other[0]} ({_kinds(second)}) have no run "
            "in common: none has the same implementation, shape, dtype and kind of device. Measure "
            "both with the same configuration."
        )
    compared = [{run: side[run] for run in shared} for side in (first, second)]
    table = comparison_table(benchmark, (one[0], compared[0]), (other[0], compared[1]))
    about = {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [describe_side(one[0], compared[0]), describe_side(other[0], compared[1])],
        "shared": len(shared),
        "environments": compare_circumstances(*compared),
        "ceilings": compare_ceilings(*ceilings, {run.dtype for run in shared}),
        "ended": list(_ended(*compared)),
        "only": [_only(first, second), _only(second, first)],
    }
    rows = [as_json(row) for row in records_of(table)]
    told = story(Compared(benchmark, table, about))
    observations = [observation.to_json() for observation in told]
    return {**about, "observations": observations, "comparisons": rows}


def read_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """The table of a comparison that was written (`comparison_table`)."""
    rows = pd.DataFrame(document["comparisons"])
    return _typed(rows, find_benchmark(document["benchmark"]))


def compare(one: Side, other: Side) -> dict[str, Any]:
    """As `compare_records`; RecordError for a record that is missing or damaged."""
    first, second = ((side.name, side.read()) for side in (one, other))
    return compare_records(one.benchmark, first, second, (one.ceilings, other.ceilings))


def write_comparison(plan_file: Path, output: Path) -> None:
    """Write the comparison that a call has planned; errors as `compare`."""
    plan = read_json(plan_file)
    one, other = (Side.from_json(side) for side in plan["sides"])
    write_json(output, {**compare(one, other), "languages": plan["languages"]})
