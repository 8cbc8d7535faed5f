"""``bench``: implementations measured in turns, each verdict as it is reached, and a table."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.analysis.ceilings import is_implausible, read_ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.analysis.replication import combine_processes
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.checking.command import claimed_with_notice
from flashlab.checking.shapes import shape_text
from flashlab.compare.interleave import Batches, Candidate, measure_in_turns
from flashlab.compare.looks import ASSUMED_SPREAD, MIN_PAIRS
from flashlab.compare.targets import DTYPE, opened_targets, shapes_of
from flashlab.compare.words import as_text, say
from flashlab.devices import find_device
from flashlab.files import read_json, write_json
from flashlab.numbers import in_full, measured, percent, with_ends
from flashlab.plan import identity
from flashlab.statistics import estimate_median, function_interval

PASSES = {m.name.removesuffix("_time"): m.name for m in ATTENTION.measured if m.work}
"""The timed metric of each pass."""

STEP_SECONDS = 60.0
"""How long a step of a process may take by default: some kernels are compiled in it."""

RECORDS = Path("results", "local", "records")
"""The folder in which a report's call keeps the ceilings that it has measured."""


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


@dataclass
class Bench:
    """Implementations that are measured at one shape, and the verdicts that were said of them.

    `passes` are those measured, `margin` is the difference up to which two times are equal.
    """

    candidates: Sequence[Candidate]
    passes: Sequence[str]
    margin: float
    ceiling: Ceiling | None
    begun: float = field(default_factory=time.monotonic)
    said: dict[str, str] = field(default_factory=dict)

    def describe(self) -> list[dict[str, Any]]:
        """What is known of the implementations, as JSON values: an entry for each.

        Times are in ms, rates in TFLOP/s, memory in MiB; a `share` is that of the ceiling, a
        `ratio` of times to the first implementation's. An implausible time, by its rate, has no
        other verdict, and neither has a ratio to one. `warnings` are codes, with the number of
        processes that have any.
        """
        described = []
        for candidate in self.candidates:
            warned, is_ok = candidate.warnings, candidate.status == "ok"
            codes = sorted({each["code"] for warnings in warned for each in warnings})
            about = {"codes": codes, "in": sum(map(bool, warned)), "of": len(warned)}
            passes = [self._describe_pass(candidate, name) for name in self.passes if is_ok]
            entry: dict[str, Any] = {
                **{"implementation": candidate.target.label, "status": candidate.status},
                **{"message": candidate.message, "peak_memory": candidate.peak_memory},
                **{"passes": passes, "warnings": about if codes else None},
            }
            described.append(entry)
            for mine, first in zip(passes, described[0]["passes"], strict=False):
                if "verdict" in mine and (mine.get(IMPLAUSIBLE) or first.get(IMPLAUSIBLE)):
                    mine["verdict"] = IMPLAUSIBLE
        return described

    def _describe_pass(self, candidate: Candidate, name: str) -> dict[str, Any]:
        """The measured values of a pass; those that are not measured yet are left out."""
        metric, ceiling = ATTENTION.metric(PASSES[name]), self.ceiling
        timed = _time(candidate.batches.get(metric.name, []))
        described: dict[str, Any] = {"pass": name}
        if timed is not None:
            assert metric.work is not None  # a pass is a timed metric
            rate = metric.work(candidate.run) / timed["milliseconds"] / 1e9
            share = rate / ceiling.rate if ceiling else None
            beyond = bool(ceiling and share and is_implausible(share, ceiling.device))
            described |= {**timed, "rate": rate, "share": share, IMPLAUSIBLE: beyond}
        if look := candidate.looks.get(metric.name):
            described["ratio"] = {"value": look.ratio, "low": look.low, "high": look.high}
            described |= {"verdict": look.verdict(metric, self.margin), "final": look.is_final}
        return described

    def say(self) -> None:
        """Print each verdict that is another one than was said."""
        for entry in self.describe():
            for timed in entry["passes"]:
                which = f"{entry['implementation']} {timed['pass']}"
                ratio, verdict = _compared(timed) if "ratio" in timed else ("", "")
                if verdict != self.said.setdefault(which, ""):
                    passed = time.monotonic() - self.begun
                    print(f"after {passed:.1f} s: {which} {verdict} {ratio}", flush=True)
                self.said[which] = verdict


# In print


def _interval(numbers: Sequence[str]) -> str:
    """A number, and the ends of its interval in brackets, where it has one."""
    value, *ends = numbers
    return f"{value} [{', '.join(ends)}]" if ends else value


def _compared(timed: Mapping[str, Any]) -> tuple[str, str]:
    """A pass's ratio, and its verdict in words; a provisional one has a question mark."""
    ratio = timed["ratio"]
    verdict = say(timed["verdict"], "en") + ("" if timed["final"] else "?")
    return _interval(with_ends(ratio["value"], ratio["low"], ratio["high"])), verdict


def table(described: Sequence[Mapping[str, Any]], ceiling: Ceiling | None) -> str:
    """The table, and below it the reasons for missing times, and the warnings."""
    heading = ceiling.heading if ceiling else "of ceiling"
    headings = ["implementation", "pass", ">ms", ">TFLOP/s", f">{heading}", ">MiB"]
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
            rows.append([*row, *(_compared(timed) if "ratio" in timed else ())])
            if timed.get(IMPLAUSIBLE):
                below.append(
                    f"{name}: {timed['pass']} at {percent(timed['share'])} {heading}, which this "
                    "device cannot do: a time is wrong, or the ceiling was measured too low; no "
                    "verdict rests on it"
                )
        if warned := entry["warnings"]:
            codes = ", ".join(warned["codes"])
            below.append(f"{name}: {codes} in {warned['in']} of {warned['of']} processes")
    return "\n".join([as_text(rows, headings), *(["", *below] if below else [])])


# Measuring


def run_bench(
    implementations: Sequence[str],
    shapes: Sequence[str],
    dtype: str | None,
    asked: Sequence[str],
    seconds: float,
    margin: float,
    timeout_s: float | None,
    output: Path | None,
) -> bool:
    """Measure and print; whether every one was right, could be measured, and is plausible.

    Args:
        implementations: as `targets.opened_targets` takes them.
        shapes: such as ``B16,N1024,H32,D64,causal``; the device's usual one where none is.
        dtype: of the inputs; the device's usual one where it is None.
        asked: the passes to measure, all where none is.
        seconds: how long each shape is measured.
        margin: difference up to which two times are equal.
        timeout_s: how long a step of a process may take.
        output: JSON file to write.

    Raises:
        UsageError: an argument names no implementation, or a shape is malformed.
        SavedError: an implementation's file was saved while it was measured.
    """
    device = machine.detect_device("auto")
    dtype, name = dtype or DTYPE[device], machine.device_name(device)
    passes = [each for each in PASSES if not asked or each in asked]
    ceiling, limit = find_ceiling(device, name, dtype), timeout_s or STEP_SECONDS
    documents, entries = list[dict[str, Any]](), list[dict[str, Any]]()
    with opened_targets(implementations) as targets:
        for shape in shapes_of(shapes, device):
            labels = " against ".join(target.label for target in targets)
            print(f"{labels}: {shape_text(shape)} {dtype} on {name}", flush=True)
            runs = [attention_run(t.implementation.name, shape, dtype, device) for t in targets]
            candidates = [Candidate(*each, limit) for each in zip(targets, runs, strict=True)]
            bench, of = Bench(candidates, passes, margin, ceiling), [PASSES[p] for p in passes]
            with claimed_with_notice(device) as variables:
                measure_in_turns(ATTENTION, candidates, of, seconds, variables, bench.say)
            entries += (described := bench.describe())
            print("", table(described, ceiling), sep="\n")
            print(f"after {time.monotonic() - bench.begun:.1f} s\n", flush=True)
            about = {"shape": shape_text(shape), "dtype": dtype, "device": name, "margin": margin}
            about["ceiling"] = asdict(ceiling) if ceiling else None
            documents.append({**about, "implementations": described})
    if output:
        write_json(output, {"benchmark": ATTENTION.name, "shapes": documents})
    implausible = any(timed.get(IMPLAUSIBLE) for entry in entries for timed in entry["passes"])
    return {entry["status"] for entry in entries} <= {"ok", "unsupported"} and not implausible
