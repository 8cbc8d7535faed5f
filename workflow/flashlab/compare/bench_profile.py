"""``profile NAME``: the counters of each pass, and the profilers' command lines for more.

On a GPU these are Nsight Compute's hardware counters, on a CPU the operators that PyTorch's
profiler saw.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import Implementation
from flashlab.compare.printing import table_of
from flashlab.measuring.supervise import measure_run
from flashlab.nsight import METRICS, PROGRAM
from flashlab.plan import identity
from flashlab.records import COUNTERS, Record
from flashlab.runs import Run

LONGEST = 12
"""Kernels or operators of a pass that are listed, the longest first."""


def count_run(run: Run, implementation: Implementation, folder: Path, timeout_s: float) -> Record:
    """Count a run's passes, and write the record into a folder; a failure is a record too."""
    protocol = {"name": COUNTERS, "timeout_s": timeout_s}
    decided_by = identity.identity(ATTENTION, run, protocol, implementation)
    sources = identity.sources(decided_by, implementation)
    output = folder / identity.record_name(run, decided_by)
    with redirect_stderr(io.StringIO()) as said:  # profilers say much that is no error
        record = measure_run(ATTENTION, run, protocol, implementation, sources, output)
    if record.status == "error":
        sys.stderr.write(said.getvalue())
    return record


def _number(value: float, unit: str) -> str:
    """A counter in print: bytes in MB, counts as whole numbers."""
    if unit == "B":
        return f"{value / 1e6:.5g} MB"
    return f"{value:.0f}" if unit == "1" else f"{value:.4g} {unit}"


def counters_table(counted: Mapping[str, Record], device: str) -> Table:
    """The counters: a row for each quantity, a column for each implementation and pass."""
    declared = ATTENTION.counters_on(device)
    passes = [name.removesuffix("_time") for name in declared]
    several = len(counted) > 1
    headings = [f"{label}\n{name}" if several else name for label in counted for name in passes]
    rows = [
        [
            metrics[0].quantity.labels["en"],
            *(
                _number(record.metrics[metric.name].value, metric.unit) if record.metrics else "–"
                for record in counted.values()
                for metric in metrics
            ),
        ]
        for metrics in zip(*declared.values(), strict=True)
    ]
    return table_of(["", *headings], rows, range(1, len(headings) + 1))


def _parts(details: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str, float]]]]:
    """The kernels or operators of each pass: name, kind or share, and ms, the longest first.

    Kernels are launched once each; operators of one name are together.
    """
    for name, kernels in details.get("kernels", {}).items():
        rows = [
            (k["name"], f"{k['matrix_activity']:.0f}% matrix units", k["busy_time"])
            for k in kernels
        ]
        yield name, sorted(rows, key=lambda row: -row[2])
    for name, operators in details.get("operators", {}).items():
        yield (
            name,
            [(o["name"], f"{o['calls']}× {o['class']}", o["milliseconds"]) for o in operators],
        )


def _parts_table(name: str, parts: Sequence[tuple[str, str, float]]) -> Table:
    """The kernels or operators of a pass."""
    rows = [(part, kind, f"{milliseconds:.4g}") for part, kind, milliseconds in parts[:LONGEST]]
    if len(parts) > LONGEST:
        rest = sum(milliseconds for *_, milliseconds in parts[LONGEST:])
        rows.append((f"{len(parts) - LONGEST} more", "", f"{rest:.4g}"))
    table = table_of(("kernel or operator", "", "ms"), rows, (1, 2))
    table.title, table.title_justify = f"{name.removesuffix('_time')} pass", "left"
    table.title_style, table.columns[1].justify = "bold", "left"
    return table


def _command_lines(run: Run, implementation: Implementation) -> list[str]:
    """Command lines of Nsight Compute and Nsight Systems that profile just the passes of a run.

    Nsight Compute collects all its sections, Nsight Systems a range for each pass.
    """
    order = {
        "run": {**run.to_row(), "inputs": implementation.form(ATTENTION, COUNTERS)},
        "measure": ATTENTION.measure,
        "kernel": str(implementation.path),
    }
    program = [
        *(sys.executable, "-m", "flashlab.measuring.counters"),
        *(json.dumps(order), f"{run.slug}.json"),
    ]
    ncu = [PROGRAM, "--profile-from-start", "off", "--set", "full", "--export", run.slug, *program]
    nsys = [
        *("nsys", "profile", "--trace", "cuda,nvtx", "--capture-range", "cudaProfilerApi"),
        *("--capture-range-end", f"repeat:{len(ATTENTION.counters_on('cuda'))}"),
        *("--output", run.slug, *program),
    ]
    return [shlex.join(ncu), shlex.join(nsys)]


def print_profile(
    console: Console, run: Run, implementation: Implementation, record: Record
) -> None:
    """Print a run's counters, its kernels or operators, and on a GPU the profilers' commands."""
    console.print(f"{run} on {record.environment.get('device_name', run.device)}")
    if record.status == "ok":
        console.print(counters_table({run.implementation: record}, run.device))
        for name, parts in _parts(record.details or {}):
            console.print(_parts_table(name, parts))
    else:
        console.print(f"{record.status}: {record.message}")
    if run.device == "cuda":
        counted = ", ".join(METRICS.values())
        console.print(f"\nNsight Compute counted {counted}. All of its sections, and a timeline:")
        for line in _command_lines(run, implementation):
            console.print(line, soft_wrap=True)
