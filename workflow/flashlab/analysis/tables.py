"""Records to tidy CSV: for each experiment a row a record, a metric, a sample, a step of a curve.

The columns are those that the benchmark declares. A run has a record for each process that
measured it, and its metrics are those of all processes together (`flashlab.analysis.replication`).
Each row of the metric table states its unit, which is also that of the metric's samples; after a
run's metrics come its counters, if they were read. A run that is not ``ok`` has its status and
empty cells, never a zero; one whose rate is more than the device's measured ceiling allows is
``implausible``, with its numbers. Numbers are rounded to `EXACT_DIGITS`, samples and curves to
`SAMPLE_DIGITS`, before they are written.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flashlab.analysis.ceilings import Ceilings, is_implausible
from flashlab.analysis.estimates import bases_of
from flashlab.analysis.experiment import (
    ABSENT,
    DIRTY,
    EXACT_DIGITS,
    IMPLAUSIBLE,
    MEAN,
    METRIC_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    SAMPLE_DIGITS,
    Measured,
    Process,
    Runs,
    operations_of,
    run_keys,
)
from flashlab.analysis.ratios import rounded
from flashlab.analysis.replication import agreed_value
from flashlab.anonymity import anonymous
from flashlab.benchmarks.counters import kernels_cell
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, json_text, open_atomically, read_json
from flashlab.plan.plan_files import process_files
from flashlab.records import Record, parse_record, read_record
from flashlab.runs import Run
from flashlab.statistics import (
    Interval,
    estimate_median,
    function_estimate,
    interval_of,
    median_interval,
)

STATED = ("device_name", "provider", "driver", "gpu_uuid", "boot")
"""The fields that the run table takes from a record's environment as they are."""

GATED = ("errors", "plain_errors", "tolerance", "again")
"""Those that it takes of what the correctness gate compared."""

NEGLIGIBLE = 1e-4
"""Share of an exact value up to which processes agree: an allocator's block more or less."""


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{EXACT_DIGITS}g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV, atomically."""
    with open_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


Values = tuple[Record, str, Sequence[float]]
"""The samples of a metric in one process, or the steps of a curve: by far the most rows."""


def _write_values(path: Path, keys: Sequence[str], every: Iterable[Values]) -> None:
    """Write a row for each value as CSV, atomically."""
    with open_atomically(path) as file:
        csv.writer(file, lineterminator="\n").writerow((*keys, *SAMPLE_COLUMNS))
        for record, name, values in every:
            run = record.run.to_row()
            start = io.StringIO()
            cells = [_cell(each) for each in (*map(run.get, keys), record.process, name)]
            csv.writer(start, lineterminator=",").writerow(cells)
            before = start.getvalue()
            file.writelines(
                f"{before}{index},{value:.{SAMPLE_DIGITS}g}\n" for index, value in enumerate(values)
            )


def _estimate(benchmark: Benchmark, metric: Metric, measured: Measured) -> dict[str, Any]:
    """A metric of a run that is ok, by its own records alone, as cells of the metric table.

    Of samples it is the geometric mean of the processes' medians, with the span of the intervals of
    their calls: that is no interval of the mean, as one run alone cannot tell how much processes
    differ. Where processes differ in an exact value, it is the worst; where by more than
    `NEGLIGIBLE`, all lie between low and high. Means have no interval. ``deviation`` is the
    standard deviation of the logarithm between processes.
    """
    records, derived = measured.with_numbers, metric.derived
    if derived is not None and len(derived.of) == 1:
        base = _estimate(benchmark, benchmark.metric(derived.of[0]), measured)
        compute = partial(derived.compute, measured.run)
        # Monotonic, so that the ends of its interval are those of the base's, in either order.
        known = [base[end] for end in ("low", "high") if base.get(end) is not None]
        ends = zip(("low", "high"), sorted(float(compute(end)) for end in known), strict=False)
        return {"value": float(compute(base["value"])), "samples": base["samples"], **dict(ends)}
    reasons = set() if derived else {record.metrics[metric.name].stopped for record in records}
    stopped = reasons.pop() if len(reasons) == 1 else None
    found: dict[str, Any] = {"stopped": stopped, "samples": 0}
    bases = bases_of(metric)
    if metric.exact or not all(r.metrics[base].samples for r in records for base in bases):
        values = [_value(metric, record) for record in records]
        if not metric.exact:
            return found | {"value": agreed_value(values), "deviation": _deviation(values)}
        least, most = min(values), max(values)
        if most - least > NEGLIGIBLE * abs(most):
            found |= {"low": least, "high": most}
        return found | {"value": least if metric.higher_is_better else most}
    samples = [[[*record.metrics[base].samples] for base in bases] for record in records]
    alone = [_of_process(metric, measured.run, each) for each in samples]
    medians, lows, highs = zip(*((x.median, x.low, x.high) for x in alone), strict=True)
    if None not in lows:
        found |= {"low": min(lows), "high": max(highs)}
    found |= {"value": agreed_value(medians), "deviation": _deviation(medians)}
    return found | {"samples": sum(min(map(len, each)) for each in samples)}


def _of_process(metric: Metric, run: Run, samples: Sequence[Sequence[float]]) -> Interval:
    """A metric in one process, by the samples of each of its bases."""
    if metric.derived is None:
        return median_interval(samples[0])  # even of few samples
    compute = partial(metric.derived.compute, run)
    found = function_estimate(compute, list(map(estimate_median, samples)))
    return Interval(found.median, *(interval_of(found) or (None, None)))


def _value(metric: Metric, record: Record) -> float:
    """A metric's value in a record, in the metric's unit, without interval."""
    values = (record.metrics[base].value for base in bases_of(metric))
    return float(metric.derived.compute(record.run, *values)) if metric.derived else next(values)


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of the logarithm between processes; None of one process."""
    return float(np.std(np.log(values), ddof=1)) if len(values) > 1 else None


def _empty_row(run: Run, metric: Metric, status: str) -> dict[str, Any]:
    named = {"metric": metric.name, "unit": metric.unit, "status": status}
    return {**dict.fromkeys(METRIC_COLUMNS), **run.to_row(), **named}


def _metric_row(benchmark: Benchmark, metric: Metric, measured: Measured) -> dict[str, Any]:
    if (known := measured.rows.get(metric.name)) is not None:
        return known
    measured.rows[metric.name] = row = _empty_row(measured.run, metric, measured.status)
    row["GFLOP"] = metric.work(measured.run) / 1e9 if metric.work else None
    if records := measured.with_numbers:
        behind = benchmark.measured_behind(metric.name)
        if all(name in record.metrics for record in records for name in behind):
            row |= {"processes": len(records), **_estimate(benchmark, metric, measured)}
        else:
            row["status"] = ABSENT
    return row


def _tells_of(counted: Record, record: Record) -> bool:
    """True if counters are of a record's device, provider and form of the inputs."""
    return counted.sources.get("inputs") == record.sources.get("inputs") and all(
        counted.environment.get(key) == record.environment.get(key)
        for key in ("device_name", "provider")
    )


def _counter_rows(record: Record, counted: Record, benchmark: Benchmark) -> list[dict[str, Any]]:
    """A row for each counter; none where they were read, of something else (`_tells_of`)."""
    if counted.status == "ok" and not _tells_of(counted, record):
        return []
    return [
        _empty_row(record.run, metric, counted.status)
        | {"value": counted.metrics[metric.name].value if counted.metrics else None}
        for metric in benchmark.all_counters(record.run.device)
    ]


def _samples(x: Runs) -> Iterator[Values]:
    """The samples of each metric, or the mean of calls that were timed together."""
    measured = {metric.name: metric for metric in x.benchmark.measured}
    for record in x.records:
        for name, found in record.metrics.items():
            if name in measured:
                yield record, name, found.samples
                if not (found.samples or measured[name].exact):
                    yield record, MEAN.format(metric=name), [found.value]


FAULTS_SHARE = 0.1
"""The system's share of a pass's time on a CPU from which on its page faults are told."""


def _told(found: object) -> str | None:
    """As JSON in a cell; None of nothing."""
    return canonical(found) if found else None


def _run_row(
    process: Process, benchmark: Benchmark, source: Mapping[str, str], counted: Record | None
) -> dict[str, Any]:
    record, environment = process.record, process.record.environment
    details, gate, commit = record.details or {}, record.gate or {}, environment.get("commit")
    digests = record.sources.get("implementation_digest"), source.get("digest")
    clocks, faults = details.get("clocks", {}), details.get("page_faults", {})
    told = counted.details if counted and _tells_of(counted, record) else None
    return {
        **record.run.to_row(),
        **benchmark.all_parameters(record.run),
        **{name: environment.get(name) for name in STATED},
        "process": record.process,
        "status": process.status,
        "message": record.message,
        "protocol": record.protocol["name"],
        "torch": environment.get("packages", {}).get("torch"),
        "power_limit_W": (environment.get("gpu") or {}).get("power_limit_W"),
        "commit": f"{commit}{DIRTY}" if commit and environment.get("dirty") else commit,
        "inputs": record.sources.get("inputs"),
        "started": record.started,
        "ended": record.ended,
        "warnings": _told([*record.warnings, *process.implausible]),
        "gate": _told({key: gate[key] for key in GATED if key in gate}),
        "kernels": _told(kernels_cell(told or {})),
        # The largest share of looks at the GPU, over the passes, in which its power limit held it.
        "power_limited": max((each["at_power_limit"] for each in clocks.values()), default=None),
        "page_faults": _told(
            {name: each for name, each in faults.items() if each["system_share"] >= FAULTS_SHARE}
        ),
        "graph_breaks": details.get("compiled", {}).get("graph_breaks"),
        "source_changed": None not in digests and digests[0] != digests[1],
        "record": process.path.as_posix(),
        "sha256": process.sha256,
    }


def _as_attached(
    record: Record, path: Path, is_anonymous: bool, warnings: Sequence[Mapping[str, Any]]
) -> Process:
    """A record with its place and its hash, both as a report attaches it, if need be anonymous.

    The place of a recorded dataset elsewhere is told as if it were in this folder.
    """
    document = read_json(path)
    if is_anonymous:
        document = anonymous(document)
        record = parse_record(document, path.name)
        if path.is_absolute() or ".." in path.parts:
            path = Path(*path.parts[-4:])
    digest = hashlib.sha256(json_text(document).encode()).hexdigest()
    return Process(record, path, digest, warnings)


def _implausible_rates(
    benchmark: Benchmark, record: Record, ceilings: Ceilings | None
) -> list[dict[str, Any]]:
    """A warning on each time of a record in which the device cannot do the operations.

    None where its ceiling is not known. The share is that of the matrix product's rate.
    """
    if ceilings is None or record.environment.get("device_name") != ceilings.device_name:
        return []
    if (product := ceilings.matrix.get(record.run.dtype)) is None:
        return []
    found = []
    for name, operations in operations_of(benchmark, record.run).items():
        if name in record.metrics:
            share = operations / record.metrics[name].value * 1e3 / product.rate
            if is_implausible(share, record.run.device):
                found.append({"code": IMPLAUSIBLE, "metric": name, "share": rounded(share)})
    return found


KnownRuns = dict[tuple[Path, Run], Measured]
"""The runs whose records were read already, by the first: experiments share runs."""


def _read(
    benchmark: Benchmark,
    entry: Mapping[str, Any],
    ceilings: Ceilings | None,
    is_anonymous: bool,
    known: KnownRuns,
) -> Measured:
    """The records that an entry of a plan names."""
    run, processes = Run.of(benchmark, entry["run"]), []
    if (Path(entry["path"]), run) in known:
        return known[Path(entry["path"]), run]
    for named in process_files(entry):
        path = Path(named["path"])
        record = read_record(path, run, named["sha256"])
        warnings = _implausible_rates(benchmark, record, ceilings)
        processes.append(_as_attached(record, path, is_anonymous, warnings))
    counters = entry.get("counters")
    counted = read_record(Path(counters["path"]), run, counters["sha256"]) if counters else None
    known[Path(entry["path"]), run] = found = Measured(run, processes, counted)
    return found


def read_runs(
    plan: Mapping[str, Any],
    sweep: Mapping[str, Any],
    ceilings: Ceilings | None = None,
    known: KnownRuns | None = None,
) -> Runs:
    """The runs of an experiment.

    Args:
        plan: which ``records`` it has, and the ``benchmark`` that measured them.
        sweep: what it is, as `plan.plan_files.EXPERIMENTS` has it.
        ceilings: the device's, None where none were measured.
        known: the runs that other experiments have; those read here are added.

    Raises:
        RecordError: a record is missing, malformed, of another run, or not the manifest's.
    """
    declared, known = find_benchmark(plan["benchmark"]), {} if known is None else known
    hidden = plan.get("anonymous", False)
    runs = [_read(declared, entry, ceilings, hidden, known) for entry in plan["records"]]
    held = {name for each in runs for record in each.with_numbers for name in record.metrics}
    return Runs(sweep, declared.having(held).on(runs[0].run.device), runs)


def run_rows(x: Runs, sources: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    """A row for each record; `sources` have the digest of each implementation's file."""
    for each in x.runs:
        for process in each.processes:
            counted = each.counted if process is each.first else None
            yield _run_row(process, x.benchmark, sources[each.run.implementation], counted)


def metric_rows(x: Runs) -> Iterator[dict[str, Any]]:
    """A row for each metric and counter of each run."""
    for each in x.runs:
        for metric in x.benchmark.metrics:
            yield _metric_row(x.benchmark, metric, each)
        if each.counted:
            yield from _counter_rows(each.first.record, each.counted, x.benchmark)


def write_tables(x: Runs, sources: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """Write the CSV files of an experiment into its `folder`."""
    keys = run_keys(x.benchmark)
    _write_values(folder / "samples.csv", keys, _samples(x))
    if x.benchmark.curves:
        curves = ((r, name, of) for r in x.records for name, of in r.curves.items())
        _write_values(folder / "curves.csv", keys, curves)
    write_csv(folder / "metrics.csv", (*keys, *METRIC_COLUMNS), metric_rows(x))
    parameters = (*keys, *(p.name for p in x.benchmark.parameters if p.derive), *RUN_COLUMNS)
    write_csv(folder / "runs.csv", parameters, run_rows(x, sources))
