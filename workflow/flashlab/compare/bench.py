"""``bench``: implementations measured in turns, each verdict as it is reached, and a table."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.analysis.ceilings import is_implausible, read_ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.analysis.replication import combine_processes
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.command import claimed_with_notice
from flashlab.checking.shapes import shape_text
from flashlab.compare.interleave import Batches, Candidate, measure_in_turns
from flashlab.compare.looks import ASSUMED_SPREAD, MIN_PAIRS
from flashlab.compare.profile import count_run, counters_text
from flashlab.compare.targets import DTYPE, FOLDER, Target, opened_targets, shapes_of
from flashlab.compare.words import as_text, say
from flashlab.devices import find_device
from flashlab.files import read_json, write_json
from flashlab.numbers import in_full, measured, percent, with_ends
from flashlab.plan import identity
from flashlab.records import INTERLEAVED, Measurement, Record, read_metrics, write_record
from flashlab.statistics import estimate_median, function_interval

PASSES = tuple(metric.name for metric in ATTENTION.measured if metric.work)
"""The timed metrics of the passes."""

STEP_SECONDS = 60.0
"""How long a step of a process may take by default: some kernels are compiled in it."""

COUNTERS_SECONDS = 300.0

RECORDS = Path("results", "local", "records")
"""The folder in which a report's call keeps the ceilings that it has measured."""


@dataclass(frozen=True)
class Order:
    """The arguments of a bench, in the order of the command line's options.

    `shapes` are texts such as ``B16,N1024,H32,D64,causal``. `asked` are the passes to measure, all
    where none is. `seconds` is how long each shape is measured, `timeout_s` how long a step of a
    process may take. `output` is a JSON file to write.
    """

    implementations: Sequence[str]
    shapes: Sequence[str]
    dtype: str | None
    asked: Sequence[str] | None
    seconds: float
    margin: float
    counters: bool
    timeout_s: float | None
    output: Path | None

    @property
    def passes(self) -> tuple[str, ...]:
        """The timed metrics of the passes to measure."""
        return tuple(p for p in PASSES if not self.asked or p.removesuffix("_time") in self.asked)


@dataclass(frozen=True)
class Ceiling:
    """A rate in TFLOP/s that no implementation is expected to exceed, and the column's heading.

    `device` is the kind of device (cuda or cpu) that it is of.
    """

    rate: float
    heading: str
    device: str


def find_ceiling(device: str, device_name: str, dtype: str) -> Ceiling | None:
    """The device's ceiling for a dtype; None where none was measured and none is stated.

    That measured by a large matrix product (``./run report``), or the vendor's peak rate.
    """
    file = RECORDS / identity.ceilings_name(device, device_name)
    if file.is_file():
        product = read_ceilings(read_json(file)).matrix.get(dtype)
        return Ceiling(product.rate / 1e12, "of ceiling", device) if product else None
    known = find_device(device_name)
    peak = known and known.peak_tflops.get("float16" if dtype == "bfloat16" else dtype)
    return Ceiling(peak, "of peak", device) if peak else None


# What is known, as JSON values


def _time(processes: Sequence[Batches]) -> dict[str, Any] | None:
    """The time of a call in ms with its 95% interval, from all batches so far; None for too few."""
    samples = [[*itertools.chain.from_iterable(batches)] for batches in processes]
    estimates = [estimate_median(calls) for calls in samples if len(calls) >= MIN_PAIRS]
    if not estimates:
        return None
    estimate = combine_processes([estimates], ASSUMED_SPREAD)[0].estimate
    low, high = function_interval(lambda median: median * 1e3, [estimate]) or (None, None)
    return {"milliseconds": estimate.median * 1e3, "low": low, "high": high}


def _describe_pass(
    candidate: Candidate, name: str, margin: float, ceiling: Ceiling | None
) -> dict[str, Any]:
    """The measured values of a pass, by name; those that are not measured yet are left out."""
    metric, timed = ATTENTION.metric(name), _time(candidate.batches.get(name, []))
    described: dict[str, Any] = {"pass": name.removesuffix("_time")}
    if timed is not None:
        assert metric.work is not None  # a pass is a timed metric
        rate = metric.work(candidate.run) / timed["milliseconds"] / 1e9
        share = rate / ceiling.rate if ceiling else None
        beyond = bool(ceiling and share and is_implausible(share, ceiling.device))
        described |= {**timed, "rate": rate, "share": share, IMPLAUSIBLE: beyond}
    if look := candidate.looks.get(name):
        described["ratio"] = {"value": look.ratio, "low": look.low, "high": look.high}
        described |= {"verdict": look.verdict(metric, margin), "final": look.is_final}
    return described


def _describe_warnings(processes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any] | None:
    """The warnings on an implementation's processes, and how many of these have any."""
    codes = sorted({warning["code"] for warnings in processes for warning in warnings})
    return (
        {"codes": codes, "in": sum(map(bool, processes)), "of": len(processes)} if codes else None
    )


def describe(
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    margin: float,
    ceiling: Ceiling | None,
) -> list[dict[str, Any]]:
    """What is known of the implementations, as JSON values: an entry for each.

    Times are in ms, rates in TFLOP/s, memory in MiB; a `share` is that of the ceiling, a `ratio` of
    times to the first implementation's. An implausible time, by its rate, has no other verdict,
    and neither has a ratio to one.
    """
    described: list[dict[str, Any]] = [
        {
            "implementation": candidate.target.label,
            "status": candidate.status,
            "message": candidate.message,
            "peak_memory": candidate.metrics.get("peak_memory", {}).get("value"),
            "passes": [
                _describe_pass(candidate, name, margin, ceiling)
                for name in (passes if candidate.status == "ok" else ())
            ],
            "warnings": _describe_warnings(candidate.warnings),
        }
        for candidate in candidates
    ]
    for entry in described:
        for mine, first in zip(entry["passes"], described[0]["passes"], strict=False):
            if "verdict" in mine and (mine.get(IMPLAUSIBLE) or first.get(IMPLAUSIBLE)):
                mine["verdict"] = IMPLAUSIBLE
    return described


# In print


def _interval(numbers: Sequence[str]) -> str:
    """A number, and the ends of its interval in brackets, where it has one."""
    value, *ends = numbers
    return f"{value} [{', '.join(ends)}]" if ends else value


def _verdict(timed: Mapping[str, Any]) -> str:
    """A pass's verdict in words; a provisional one has a question mark."""
    return say(timed["verdict"], "en") + ("" if timed["final"] else "?")


def _ratio(timed: Mapping[str, Any]) -> str:
    ratio = timed["ratio"]
    return _interval(with_ends(ratio["value"], ratio["low"], ratio["high"]))


def table(described: Sequence[Mapping[str, Any]], ceiling: Ceiling | None) -> str:
    """The table, and below it the reasons for missing times, and the warnings."""
    headings = ["implementation", "pass", ">ms", ">TFLOP/s"]
    headings += [f">{ceiling.heading if ceiling else 'ceiling'}", ">MiB"]
    if len(described) > 1:
        headings += [f">time / that of {described[0]['implementation']}", "verdict"]
    rows, below = list[list[str]](), list[str]()
    for entry in described:
        name, memory = entry["implementation"], entry["peak_memory"]
        if entry["status"] != "ok":
            rows.append([name, entry["status"]])
            below.append(f"{name}: {entry['message']}")
        for position, timed in enumerate(entry["passes"]):
            row = [name, timed["pass"], "–", "–", "–"]
            if "milliseconds" in timed:
                triple = (timed["milliseconds"], timed["low"], timed["high"])
                share = "–" if timed["share"] is None else percent(timed["share"])
                row[2:] = [_interval(with_ends(triple, most=4)), measured(timed["rate"]), share]
            row.append(in_full(round(memory, 1), 1) if memory and not position else "")
            rows.append([*row, *([_ratio(timed), _verdict(timed)] if "ratio" in timed else [])])
        beyond = [timed for timed in entry["passes"] if timed.get(IMPLAUSIBLE)]
        if beyond and ceiling:
            named = ", ".join(f"{timed['pass']} at {percent(timed['share'])}" for timed in beyond)
            below.append(
                f"{name}: {named} {ceiling.heading}, which this device cannot do: a time is wrong, "
                "or the ceiling was measured too low; no verdict rests on it"
            )
        if warned := entry["warnings"]:
            codes = ", ".join(warned["codes"])
            below.append(f"{name}: {codes} in {warned['in']} of {warned['of']} processes")
    return "\n".join([as_text(rows, headings), *(["", *below] if below else [])])


def _verdicts(described: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The verdicts that are known, by implementation and pass, with their ratios."""
    return {
        f"{entry['implementation']} {timed['pass']}": f"{_verdict(timed)} {_ratio(timed)}"
        for entry in described
        for timed in entry["passes"]
        if "ratio" in timed
    }


def _say_doing(what: str) -> None:
    """Say on a terminal what is being done, in a line that the next one takes the place of."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


# Measuring


def write_records(candidates: Sequence[Candidate], seconds: float, started: str) -> None:
    """Write the records of implementations that were measured in turns into `FOLDER`.

    There is one for each process, and a single one of a failure. Measuring the same again replaces
    them.
    """
    labels = [candidate.target.label for candidate in candidates]
    for position, candidate in enumerate(candidates):
        protocol = {"name": INTERLEAVED, "seconds": seconds, "in_turns": labels, "place": position}
        implementation, environments = candidate.target.implementation, candidate.environments
        ok = candidate.status == "ok"
        for process in range(len(environments) if ok else 1):
            # Memory was measured in the first.
            metrics = read_metrics(candidate.metrics) if ok and process == 0 else {}
            for name, processes in candidate.batches.items() if ok else ():
                calls = [s * 1e3 for s in itertools.chain.from_iterable(processes[process])]
                metrics[name] = Measurement(statistics.median(calls), tuple(calls), "time")
            decided_by = identity.identity(
                ATTENTION, candidate.run, protocol, implementation, process
            )
            record = Record(
                benchmark=ATTENTION.name,
                run=candidate.run,
                status=candidate.status,
                message=candidate.message,
                protocol=protocol,
                metrics=metrics,
                gate=None if process else candidate.gate,
                warnings=tuple(candidate.warnings[process]) if ok else (),
                environment=environments[process if ok else -1] if environments else {},
                sources=identity.sources(decided_by, implementation),
                started=started,
            )
            write_record(FOLDER / identity.record_name(candidate.run, decided_by), record)


def _print_counters(candidates: Sequence[Candidate], device: str) -> None:
    """Count the passes of each implementation that was measured, and print the counters."""
    counted = {
        candidate.target.label: count_run(
            candidate.run, candidate.target.implementation, COUNTERS_SECONDS
        )
        for candidate in candidates
        if candidate.status == "ok"
    }
    for label, record in counted.items():
        if record.status != "ok":
            print(f"counters of {label}: {record.status}: {record.message}")
    if any(record.status == "ok" for record in counted.values()):
        print(counters_text(counted, device))


def _bench_shape(
    order: Order, targets: Sequence[Target], shape: Shape, device: str
) -> dict[str, Any]:
    """Measure one shape, print its verdicts and its table; returns what was printed as JSON."""
    dtype, name = order.dtype or DTYPE[device], machine.device_name(device)
    candidates = [
        Candidate(target, attention_run(target.implementation.name, shape, dtype, device))
        for target in targets
    ]
    ceiling, begun, told = find_ceiling(device, name, dtype), time.monotonic(), dict[str, str]()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    labels = " against ".join(target.label for target in targets)
    print(f"{labels}: {shape_text(shape)} {dtype} on {name}", flush=True)

    def known() -> list[dict[str, Any]]:
        return describe(candidates, order.passes, order.margin, ceiling)

    def saying(doing: str) -> None:
        _say_doing("")
        for which, verdict in _verdicts(known()).items():
            if verdict.split()[0] != told.get(which, "-").split()[0]:
                print(f"after {time.monotonic() - begun:.1f} s: {which} {verdict}", flush=True)
            told[which] = verdict
        _say_doing(doing)

    with claimed_with_notice(device) as variables:
        limit = order.timeout_s or STEP_SECONDS
        measure_in_turns(
            ATTENTION, candidates, order.passes, order.seconds, variables, limit, saying
        )
    saying("")
    write_records(candidates, order.seconds, started)
    print("", table(known(), ceiling), f"after {time.monotonic() - begun:.1f} s\n", sep="\n")
    if order.counters:
        _print_counters(candidates, device)
    return {
        "shape": shape_text(shape),
        "dtype": dtype,
        "device": name,
        "ceiling": asdict(ceiling) if ceiling else None,
        "margin": order.margin,
        "implementations": known(),
    }


def run_bench(order: Order) -> bool:
    """Measure and print; whether every one was right, could be measured, and is plausible.

    Raises:
        ImplementationError: an argument names no implementation.
        ShapeError: a shape is malformed.
        SavedError: an implementation's file was saved while it was measured.
    """
    device = machine.detect_device("auto")
    with opened_targets(order.implementations) as targets:
        shapes = shapes_of(order.shapes, device)
        described = [_bench_shape(order, targets, shape, device) for shape in shapes]
    if order.output:
        write_json(order.output, {"benchmark": ATTENTION.name, "shapes": described})
    entries = [entry for shape in described for entry in shape["implementations"]]
    implausible = any(timed.get(IMPLAUSIBLE) for entry in entries for timed in entry["passes"])
    return {entry["status"] for entry in entries} <= {"ok", "unsupported"} and not implausible
