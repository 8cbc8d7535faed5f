"""Two sides as one table of comparisons, which its readers share.

Each side is read and estimated as a report's dataset is: a run's estimate is that of its report.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab import statistics
from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS, variant_words
from flashlab.analysis.comparisons import COLUMNS
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Key, Runs, run_keys
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.analysis.tables import metric_rows, read_runs
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.circumstances import compare_ceilings, compare_circumstances
from flashlab.compare.sides import Side, SideError
from flashlab.files import read_json
from flashlab.runs import Run
from flashlab.story.compare import Compared, ranked_by, records_of, story, with_pooled
from flashlab.story.observation import as_json

ABOUT = (
    *("implementation", "group", "sizes", "shape", "dtype", "device"),
    *("reference_median", "subject_median", "unit", "processes"),
)
"""Columns besides those of comparisons.csv: the implementation (none of a row that pools several),
its group, its class of sizes (`flashlab.story.compare`), the shape in short; and of a single run
the metric on both sides, and the processes of each."""


class _Read:
    """A side that was read: its runs as the estimators of a report see them."""

    def __init__(self, runs: Runs) -> None:
        self.name = runs.name
        self.estimates = Estimates([runs])
        self.records = [*runs.records]
        self.runs = {each.key: each for each in runs.runs}
        keys, ok = run_keys(runs.benchmark), (r for r in metric_rows(runs) if r["status"] == "ok")
        self.values = {(*(row[key] for key in keys), row["metric"]): row for row in ok}

    def hashes(self, key: Key) -> list[str]:
        """Those of a run's records."""
        run = self.runs[key]
        return [process.sha256 for process in run.processes if process.status == run.status]


def _read(side: Side, shared: Sequence[Run]) -> _Read:
    """The shared runs of a side; RecordError for a record that is missing or damaged."""
    benchmark = find_benchmark(side["benchmark"])
    entries = [e for e in side["records"] if Run.of(benchmark, e["run"]) in {*shared}]
    plan = {"benchmark": benchmark.name, "records": entries}
    ceilings = read_ceilings(read_json(Path(side["ceilings"]))) if side["ceilings"] else None
    return _Read(read_runs(plan, side, ceilings))


def _ratio(metric: Metric, sides: Sequence[_Read], key: Key) -> Ratio:
    """The second side's value of a metric of a run over the first's, with its interval."""
    if sides[0].hashes(key) == sides[1].hashes(key):
        return Ratio(0, 1.0, 1.0, 1.0, 0)  # as of a kernel that a revision did not change
    if metric.exact:  # the same at every measurement; where processes differ, the largest
        rows = [side.values[(*key, metric.name)] for side in sides]
        one, other = (row["value"] for row in rows)
        (least, most), (low, high) = (
            [row["value"] if row[end] is None else row[end] for end in ("low", "high")]
            for row in rows
        )
        return Ratio(0, other / one, low / most, high / least, 0)
    first, second = (side.estimates.of(metric)[key] for side in sides)
    return ratio(0, second, first)


def _across(benchmark: Benchmark, sides: Sequence[_Read]) -> Iterator[dict[str, Any]]:
    """Each metric of each run that has it on both sides, by implementation and metric."""
    order = [metric.name for metric in (*benchmark.measured, *benchmark.totals)]
    shared = [key for key in sides[0].values.keys() & sides[1].values.keys() if key[-1] in order]
    for key in sorted(shared, key=lambda key: (key[0], order.index(key[-1]), key)):
        metric, rows = benchmark.metric(key[-1]), [side.values[key] for side in sides]
        runs = [side.runs[key[:-1]] for side in sides]
        about = (None, *benchmark.measured_behind(metric.name))
        warnings = (w for run in runs for w in run.warnings if w.get("metric") in about)
        doubts = set[str]() if metric.exact else {warning["code"] for warning in warnings}
        variants = [(v.name, runs[1].run[v.name]) for v in benchmark.variants]
        yield {
            **{"compared": DATASET, "implementation": key[0]},
            "variant": variant_words(variants),
            **_described(benchmark, metric, runs[1].run, _ratio(metric, sides, key[:-1])),
            **{"reference_median": rows[0]["value"], "subject_median": rows[1]["value"]},
            "doubts": " ".join(sorted(doubts)),
            "processes": " ".join(str(len(side.hashes(key[:-1]))) for side in sides),
        }


def _among(benchmark: Benchmark, side: _Read) -> Iterator[dict[str, Any]]:
    """The implementations of one side against each other at each setting, by the usual pairing."""
    keys = sorted(side.runs, key=lambda key: (key[1:], key[0]))
    settings = [
        [key for key in own if not key[0].endswith(PACKED_TWIN)]
        for _, own in itertools.groupby(keys, key=lambda key: key[1:])
    ]
    for metric, setting in itertools.product(ranked_by(benchmark), settings):
        of = side.estimates.of(metric)
        for reference, subject in itertools.combinations((k for k in setting if k in of), 2):
            found = ratio(0, of[subject], of[reference])
            yield {
                **{"experiment": side.name, "compared": IMPLEMENTATIONS},
                **{"subject": subject[0], "reference": reference[0]},
                **_described(benchmark, metric, side.runs[subject].run, found),
            }


def _described(benchmark: Benchmark, metric: Metric, run: Run, found: Ratio) -> dict[str, Any]:
    """A ratio by a metric at the setting of a run."""
    return {
        **{"metric": metric.name, "unit": metric.unit, "settings": 1, "pairs": found.pairs},
        **{"shape": " ".join(run.words), "dtype": run.dtype, "device": run.device},
        **{"ratio": found.ratio, "low": found.low, "high": found.high, "verdict": found.verdict},
        **{"samples": found.samples or None, **benchmark.all_parameters(run)},
    }


def _typed(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Rows with all columns of the table, whole numbers as such."""
    whole = [p.name for p in benchmark.parameters if p.kind is int]
    table = rows.reindex(columns=[*COLUMNS, *(p.name for p in benchmark.parameters), *ABOUT])
    table = table.astype(object) if rows.empty else table
    numbers = dict.fromkeys([*whole, "settings", "pairs", "samples"], "Int64")
    return table.astype(numbers).reset_index(drop=True)


def _comparison_table(
    benchmark: Benchmark, names: Sequence[str], sides: Sequence[_Read]
) -> pd.DataFrame:
    """Every comparison of two sides that have the same runs.

    Returns:
        The columns of comparisons.csv, the benchmark's parameters, and `ABOUT`. ``compared`` is
        ``dataset`` where a run of the second side, the subject, is compared with that of the first,
        or several pooled (`story.compare.with_pooled`), and ``implementations`` where two of one
        side (``experiment``) are.
    """
    table = pd.DataFrame(_across(benchmark, sides))
    if table.empty:
        return _typed(table, benchmark)
    across = with_pooled(table, benchmark).assign(subject=names[1], reference=names[0])
    within = [row for side in sides for row in _among(benchmark, side)]
    return _typed(pd.concat([across, pd.DataFrame(within)]), benchmark)


def _ended(shared: Sequence[Run], sides: Sequence[_Read]) -> Iterator[dict[str, Any]]:
    """The runs without a result on one side or both, with their statuses."""
    for run in shared:
        one, other = (side.runs[tuple(run.to_row().values())].status for side in sides)
        if {one, other} != {"ok"}:
            about = {"implementation": run.implementation, "shape": " ".join(run.words)}
            yield {**about, "one": one, "other": other, **dict(run.parameters)}


def _described_side(name: str, side: _Read) -> dict[str, Any]:
    """A side's name, devices, and when its last record was measured."""
    devices = {record.environment.get("device_name") for record in side.records}
    ended = max(record.started for record in side.records)
    return {"name": name, "devices": sorted(filter(None, devices)), "ended": ended}


def compare(one: Side, other: Side) -> Compared:
    """The comparison of two sides of one benchmark, with what its story observes.

    Raises:
        SideError: the sides have no run in common.
        RecordError: a record is missing or damaged.
    """
    benchmark, names = find_benchmark(one["benchmark"]), (one["name"], other["name"])
    runs = [{Run.of(benchmark, each["run"]) for each in s["records"]} for s in (one, other)]
    shared = sorted(runs[0] & runs[1])
    if not shared:
        kinds = [" and ".join(sorted({f"{r.dtype} on {r.device}" for r in of})) for of in runs]
        raise SideError(
            f"compare: {names[0]} ({kinds[0]}) and {names[1]} ({kinds[1]}) have no run in common: "
            "none has the same implementation, shape, dtype and kind of device. Measure both with "
            "the same configuration."
        )
    sides = [_read(side, shared) for side in (one, other)]
    table = _comparison_table(benchmark, names, sides)
    alone = [
        itertools.groupby(sorted(of - {*shared}), lambda run: run.implementation) for of in runs
    ]
    ceilings = [one["ceilings"], other["ceilings"]]
    about: dict[str, Any] = {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [_described_side(*each) for each in zip(names, sides, strict=True)],
        "shared": len(shared),
        "environments": compare_circumstances([side.records for side in sides]),
        "ceilings": compare_ceilings(ceilings, {run.dtype for run in shared}),
        "ended": list(_ended(shared, sides)),
        "only": [
            [{"implementation": n, "shapes": [" ".join(r.words) for r in mine]} for n, mine in each]
            for each in alone
        ],
    }
    about["observations"] = [each.to_json() for each in story(Compared(benchmark, table, about))]
    return Compared(benchmark, table, about)


def to_json(c: Compared) -> dict[str, Any]:
    """A comparison with all rows of its table, as JSON values."""
    return {**c.about, "comparisons": [as_json(row) for row in records_of(c.table)]}
