"""Two sides as one table of comparisons, and what else differs between them.

Each side is read and estimated as a report's dataset is: a run's estimate is that of its report.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab import statistics
from flashlab.analysis.ceilings import COPY, Ceilings, read_ceilings
from flashlab.analysis.comparison_rows import DATASET, IMPLEMENTATIONS, variant_words
from flashlab.analysis.comparisons import COLUMNS
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Key, run_keys
from flashlab.analysis.ratios import Ratio, ratio
from flashlab.analysis.tables import metric_rows, read_runs
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.sides import Side, SideError
from flashlab.files import read_json
from flashlab.plan.identity import deciding
from flashlab.records import Record
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

KERNEL = "kernel"
"""The circumstance that is each implementation's own."""

FIELDS = {
    **{"device_name": "{}", "memory_clock": "{:g} MHz", "power_limit": "{:g} W", "driver": "{}"},
    **{"torch": "{}", "cpu_count": "{:g}", "protocol": "{}", "measuring": "digest {:.12}"},
    **{"measured": "{}", "commits": "{}", "gpus": "{}", "processes": "{}"},
    KERNEL: "digest {:.12}",
}
"""The circumstances of both sides, as they are printed."""

STATED = {
    **{"gpu.memory_clock_MHz": "memory_clock", "gpu.power_limit_W": "power_limit"},
    **{"packages.torch": "torch", "measuring_digest": "measuring"},
    "implementation_digest": KERNEL,
}
"""What a record calls some of them."""


class _Read:
    """The runs of a side that both sides have, as the estimators of a report see them.

    RecordError for a record that is missing or damaged.
    """

    def __init__(self, side: Side, shared: set[Run]) -> None:
        self.name, benchmark = side["name"], find_benchmark(side["benchmark"])
        entries = [each for each in side["records"] if Run.of(benchmark, each["run"]) in shared]
        file = side["ceilings"]
        self.ceilings = read_ceilings(read_json(Path(file))) if file else None
        of = read_runs({**side, "records": entries}, side, self.ceilings)
        self.estimates, self.records = Estimates([of]), [*of.records]
        self.runs = {each.key: each for each in of.runs}
        keys, ok = run_keys(benchmark), (row for row in metric_rows(of) if row["status"] == "ok")
        self.values = {(*(row[key] for key in keys), row["metric"]): row for row in ok}

    @property
    def about(self) -> dict[str, Any]:
        """Its name, its devices, and when its last record was measured."""
        devices = {record.environment.get("device_name") for record in self.records}
        ended = max(record.started for record in self.records)
        return {"name": self.name, "devices": sorted(filter(None, devices)), "ended": ended}

    def status(self, run: Run) -> str:
        """What became of a run."""
        return self.runs[tuple(run.to_row().values())].status

    def hashes(self, key: Key) -> list[str]:
        """Those of a run's records."""
        run = self.runs[key]
        return [process.sha256 for process in run.processes if process.status == run.status]


# The table


def _ratio(metric: Metric, sides: Sequence[_Read], key: Key) -> Ratio:
    """The second side's value of a metric of a run over the first's, with its interval."""
    if sides[0].hashes(key) == sides[1].hashes(key):
        return Ratio(0, 1.0, 1.0, 1.0, 0)  # as of a kernel that a revision did not change
    if not metric.exact:
        first, second = (side.estimates.of(metric)[key] for side in sides)
        return ratio(0, second, first)
    # The same at every measurement; where processes differ, the largest.
    rows = [side.values[(*key, metric.name)] for side in sides]
    one, other = (row["value"] for row in rows)
    (least, low), (most, high) = (
        [row["value"] if row[end] is None else row[end] for row in rows] for end in ("low", "high")
    )
    return Ratio(0, other / one, low / most, high / least, 0)


def _across(benchmark: Benchmark, sides: Sequence[_Read]) -> Iterator[dict[str, Any]]:
    """Each metric of each run that has it on both sides, by implementation and metric."""
    order = [metric.name for metric in (*benchmark.measured, *benchmark.totals)]
    shared = [key for key in sides[0].values.keys() & sides[1].values.keys() if key[-1] in order]
    for key in sorted(shared, key=lambda key: (key[0], order.index(key[-1]), key)):
        metric, runs = benchmark.metric(key[-1]), [side.runs[key[:-1]] for side in sides]
        about = (None, *benchmark.measured_behind(metric.name))
        warnings = (w for run in runs for w in run.warnings if w.get("metric") in about)
        doubts = set[str]() if metric.exact else {warning["code"] for warning in warnings}
        medians = (side.values[key]["value"] for side in sides)
        yield {
            **{"compared": DATASET, "implementation": key[0]},
            "variant": variant_words((v.name, runs[1].run[v.name]) for v in benchmark.variants),
            **_row(benchmark, metric, runs[1].run, _ratio(metric, sides, key[:-1])),
            **dict(zip(("reference_median", "subject_median"), medians, strict=True)),
            "doubts": " ".join(sorted(doubts)),
            "processes": " ".join(str(len(side.hashes(key[:-1]))) for side in sides),
        }


def _among(benchmark: Benchmark, side: _Read) -> Iterator[dict[str, Any]]:
    """The implementations of one side against each other at each setting, by the usual pairing."""
    keys = sorted(side.runs, key=lambda key: (key[1:], key[0]))
    alike = itertools.combinations((k for k in keys if not k[0].endswith(PACKED_TWIN)), 2)
    pairs = [(one, other) for one, other in alike if one[1:] == other[1:]]
    for metric, (one, other) in itertools.product(ranked_by(benchmark), pairs):
        of = side.estimates.of(metric)
        if {one, other} <= of.keys():
            named = {"experiment": side.name, "subject": other[0], "reference": one[0]}
            found = _row(benchmark, metric, side.runs[other].run, ratio(0, of[other], of[one]))
            yield {**named, "compared": IMPLEMENTATIONS, **found}


def _row(benchmark: Benchmark, metric: Metric, run: Run, found: Ratio) -> dict[str, Any]:
    """A ratio by a metric at the setting of a run."""
    return {
        **{"metric": metric.name, "unit": metric.unit, "settings": 1, "pairs": found.pairs},
        **{"shape": " ".join(run.words), "dtype": run.dtype, "device": run.device},
        **{"ratio": found.ratio, "low": found.low, "high": found.high, "verdict": found.verdict},
        **{"samples": found.samples or None, **benchmark.all_parameters(run)},
    }


def _table(benchmark: Benchmark, sides: Sequence[_Read]) -> pd.DataFrame:
    """Every comparison of two sides that have the same runs.

    Returns:
        The columns of comparisons.csv, the benchmark's parameters, and `ABOUT`. ``compared`` is
        ``dataset`` where a run of the second side, the subject, is compared with that of the first,
        or several pooled (`story.compare.with_pooled`), and ``implementations`` where two of one
        side (``experiment``) are.
    """
    table = pd.DataFrame(_across(benchmark, sides))
    if len(table):
        one, other = (side.name for side in sides)
        across = with_pooled(table, benchmark).assign(subject=other, reference=one)
        within = (row for side in sides for row in _among(benchmark, side))
        table = pd.concat([across, pd.DataFrame(within)])
    parameters = benchmark.parameters
    columns = [*COLUMNS, *(parameter.name for parameter in parameters), *ABOUT]
    whole = [parameter.name for parameter in parameters if parameter.kind is int]
    numbers = dict.fromkeys([*whole, "settings", "pairs", "samples"], "Int64")
    return table.reindex(columns=columns).astype(object).astype(numbers).reset_index(drop=True)


# Around it


def _facts(record: Record) -> dict[str, Any]:
    """What a record states, and what follows from it."""
    commit, dirty = record.environment.get("commit"), record.environment.get("dirty")
    return {
        **{"boot": "", "gpu_uuid": None, **record.environment, **record.sources},
        **{"implementation": record.run.implementation, "run": str(record.run)},
        **{"protocol": deciding(record.protocol), "measured": record.started[:10]},
        "commits": commit and commit[:12] + ("-dirty" if dirty else ""),
    }


def _circumstances(sides: Sequence[_Read]) -> list[dict[str, Any]]:
    """A row for each field, and for each implementation's kernel, with its verdict.

    Each has the values that occur on each side: ``agrees`` where they are the same, ``unstated``
    where one side states none. Of a protocol these are its name and what of it is not the same.
    """
    stated = [{"side": at, **_facts(each)} for at, s in enumerate(sides) for each in s.records]
    facts = pd.json_normalize(stated).rename(columns=STATED)
    facts["gpus"] = facts.groupby(["side", "boot"]).gpu_uuid.transform("nunique")
    facts["processes"] = facts.groupby(["side", "run"]).run.transform("size")
    parts = facts.filter(regex=r"^protocol\.").astype(str)
    facts["protocol"] = parts.pop("protocol.name")
    for name in parts.columns[parts.nunique() > 1]:
        facts["protocol"] += f", {name.removeprefix('protocol.')} " + parts[name]
    facts = facts.reindex(columns=["side", "implementation", *FIELDS])
    kernels = [(KERNEL, name) for name in sorted(facts.implementation.unique())]
    found = []
    for field, name in [*((field, None) for field in FIELDS if field != KERNEL), *kernels]:
        stating = facts[facts.implementation == name] if name else facts
        one, other = (
            sorted({FIELDS[field].format(value) for value in values.dropna() if value})
            for values in (stating[field][stating.side == at] for at in (0, 1))
        )
        verdict = "agrees" if one == other else "differs" if one and other else "unstated"
        row = {"field": field, "implementation": name, "one": one, "other": other}
        found.append({**row, "verdict": verdict})
    return found


def compare_ceilings(
    both: Sequence[Ceilings | None], dtypes: Iterable[str]
) -> list[dict[str, Any]]:
    """The rates that both devices were measured to reach at first.

    `what` is ``copy``, in GB/s, or one of these dtypes of a matrix product, in TFLOP/s; `sustained`
    are the rates after they fell, None where they did not. Empty where a side has none.
    """
    known = [ceilings for ceilings in both if ceilings]
    rates = [(COPY, 1e9, [ceilings.copy for ceilings in known])]
    for dtype in sorted(dtypes):
        rates.append((dtype, 1e12, [c.matrix[dtype] for c in known if dtype in c.matrix]))
    return [
        {"what": what, "one": of[0].rate / unit, "other": of[1].rate / unit}
        | {"sustained": [each.sustained_rate and each.sustained_rate / unit for each in of]}
        for what, unit, of in rates
        if len(of) == 2
    ]


def compare(one: Side, other: Side) -> Compared:
    """The comparison of two sides of one benchmark, with what its story observes.

    Raises:
        SideError: the sides have no run in common.
        RecordError: a record is missing or damaged.
    """
    benchmark = find_benchmark(one["benchmark"])
    runs = [{Run.of(benchmark, each["run"]) for each in s["records"]} for s in (one, other)]
    shared = sorted(runs[0] & runs[1])
    if not shared:
        kinds = [" and ".join(sorted({f"{r.dtype} on {r.device}" for r in of})) for of in runs]
        raise SideError(
            f"compare: {one['name']} ({kinds[0]}) and {other['name']} ({kinds[1]}) have no run in "
            "common: none has the same implementation, shape, dtype and kind of device. Measure "
            "both with the same configuration."
        )
    sides = [_Read(side, {*shared}) for side in (one, other)]
    about: dict[str, Any] = {
        "benchmark": benchmark.name,
        "margin": statistics.MARGIN,
        "sides": [side.about for side in sides],
        "shared": len(shared),
        "environments": _circumstances(sides),
        "ceilings": compare_ceilings([s.ceilings for s in sides], {run.dtype for run in shared}),
        "ended": [
            {**_named(run), "one": statuses[0], "other": statuses[1], **dict(run.parameters)}
            for run in shared
            if {*(statuses := [side.status(run) for side in sides])} != {"ok"}
        ],
        "only": [[_named(run) for run in sorted(of - {*shared})] for of in runs],
    }
    table = _table(benchmark, sides)
    about["observations"] = [each.to_json() for each in story(Compared(benchmark, table, about))]
    return Compared(benchmark, table, about)


def _named(run: Run) -> dict[str, str]:
    return {"implementation": run.implementation, "shape": " ".join(run.words)}


def to_json(c: Compared) -> dict[str, Any]:
    """A comparison with all rows of its table, as JSON values."""
    return {**c.about, "comparisons": [as_json(row) for row in records_of(c.table)]}
