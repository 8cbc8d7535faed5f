"""The table of a bench: a row for each implementation and pass, renewed while it measures."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from flashlab.analysis.ceilings import is_implausible, read_ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.analysis.replication import combine_processes
from flashlab.benchmarks.model import Benchmark
from flashlab.compare.interleave import ENDING, Batches, Candidate, Progress
from flashlab.compare.looks import ASSUMED_SPREAD, MIN_PAIRS, PROCESSES
from flashlab.compare.printing import Block, Cell, renderable, show, table_of, verdict_cell
from flashlab.compare.words import NO_VALUE, say
from flashlab.devices import find_device
from flashlab.files import read_json
from flashlab.plan.identity import ceilings_name
from flashlab.statistics import estimate_median, function_interval

REFRESH_SECONDS = 0.5
"""Seconds after which the table is renewed on a terminal where only its numbers change."""


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
    measured = RECORDS / ceilings_name(device, device_name)
    if measured.is_file():
        product = read_ceilings(read_json(measured)).matrix.get(dtype)
        return Ceiling(product.rate / 1e12, "of ceiling", device) if product else None
    known = find_device(device_name)
    peak = known and known.peak_tflops.get("float16" if dtype == "bfloat16" else dtype)
    return Ceiling(peak, "of peak", device) if peak else None


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
    benchmark: Benchmark, candidate: Candidate, name: str, margin: float, ceiling: Ceiling | None
) -> dict[str, Any]:
    """The measured values of a pass, by name; those that are not measured yet are left out."""
    metric = benchmark.metric(name)
    described: dict[str, Any] = {"pass": name.removesuffix("_time")}
    timed = _time(candidate.batches.get(name, []))
    if timed is not None:
        assert metric.work is not None  # a pass is a timed metric
        rate = metric.work.operations(candidate.run) / timed["milliseconds"] / 1e9
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
    disturbed = sum(map(bool, processes))
    return {"codes": codes, "in": disturbed, "of": len(processes)} if codes else None


def describe(
    benchmark: Benchmark,
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    margin: float,
    ceiling: Ceiling | None,
) -> list[dict[str, Any]]:
    """The content of the table as JSON values: an entry for each implementation.

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
                _describe_pass(benchmark, candidate, name, margin, ceiling)
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


def _cells(timed: Mapping[str, Any], memory: str) -> list[Cell]:
    """The cells of a pass, from its name to its verdict; the time has its interval's half-width."""
    cells: list[Cell] = [timed["pass"], *[NO_VALUE] * 3, memory]
    if "milliseconds" in timed:
        time_cell = f"{timed['milliseconds']:.4g}"
        if timed["low"] is not None:
            half = (timed["high"] - timed["low"]) / 2 / timed["milliseconds"]
            time_cell += f" ± {half:.1%}" if half < 1 else f" ± {NO_VALUE}"
        share = NO_VALUE if timed["share"] is None else f"{timed['share']:.0%}"
        cells[1:4] = [time_cell, f"{timed['rate']:.4g}", share]
    if "ratio" in timed:
        ratio, mark = timed["ratio"], "" if timed["final"] else "?"
        cells += [
            f"{ratio['value']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]",
            verdict_cell(say(timed["verdict"], "en") + mark, timed["verdict"]),
        ]
    return cells


def blocks(described: Sequence[Mapping[str, Any]], ceiling: Ceiling | None) -> list[Block]:
    """The table, and below it the reasons for missing times, and the warnings."""
    headings = ["implementation", "pass", "ms", "TFLOP/s"]
    headings += [ceiling.heading if ceiling else "ceiling", "MiB"]
    if len(described) > 1:
        headings += [f"time / that of {described[0]['implementation']}", "verdict"]
    rows: list[list[Cell]] = []
    below = []
    for entry in described:
        name, memory = entry["implementation"], entry["peak_memory"]
        if entry["status"] != "ok":
            rows.append([name, entry["status"]])
            below.append(f"{name}: {entry['message']}")
        for position, timed in enumerate(entry["passes"]):
            shown = f"{memory:.1f}" if memory and not position else ""
            rows.append([name, *_cells(timed, shown)])
        beyond = [timed for timed in entry["passes"] if timed.get(IMPLAUSIBLE)]
        if beyond and ceiling:
            named = ", ".join(f"{timed['pass']} at {timed['share']:.0%}" for timed in beyond)
            below.append(
                f"{name}: {named} {ceiling.heading}, which this device cannot do: a time is wrong, "
                "or the ceiling was measured too low; no verdict rests on it"
            )
        if warned := entry["warnings"]:
            codes = ", ".join(warned["codes"])
            below.append(f"{name}: {codes} in {warned['in']} of {warned['of']} processes")
    table = table_of(headings, rows, numeric=range(2, 7))
    return [table, [*below]] if below else [table]


def show_progress(
    console: Console, measuring: Iterable[Progress], content: Callable[[], list[Block]]
) -> None:
    """Show the table while it is measured, and at the end.

    On a terminal it is renewed in place, between batches: a thread of its own would disturb the
    measurement. Elsewhere it is printed after the first process, and at the end.
    """
    begun = refreshed = time.monotonic()
    doing = ""
    with (
        Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live
    ):
        for progress in measuring:
            now = time.monotonic()
            if live is None:
                if progress == Progress(ENDING, 0):
                    show(console, *content(), f"provisional, after {now - begun:.1f} s")
                    console.print()
            elif progress.doing != doing or now - refreshed >= REFRESH_SECONDS:
                status = f"{progress.doing} (process {progress.process + 1} of {PROCESSES})"
                live.update(renderable(*content(), status), refresh=True)
                doing, refreshed = progress.doing, now
        if live is not None:
            live.update(renderable(*content()), refresh=True)
    if live is None:
        show(console, *content())
    console.print(f"after {time.monotonic() - begun:.1f} s\n")
