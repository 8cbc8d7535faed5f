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
from typing import Any

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.implementations import Implementation
from flashlab.compare.targets import DTYPE, FOLDER, opened_targets, shapes_of
from flashlab.compare.words import as_text
from flashlab.measuring.supervise import measure_run
from flashlab.nsight import METRICS, PROGRAM
from flashlab.numbers import measured, percent, short
from flashlab.plan import identity
from flashlab.records import COUNTERS, Record
from flashlab.runs import Run

LONGEST = 12
"""Kernels or operators of a pass that are listed, the longest first."""


def count_run(run: Run, implementation: Implementation, timeout_s: float) -> Record:
    """Count a run's passes, and write the record into `FOLDER`; a failure is a record too."""
    protocol = {"name": COUNTERS, "timeout_s": timeout_s}
    decided_by = identity.identity(ATTENTION, run, protocol, implementation)
    sources = identity.sources(decided_by, implementation)
    output = FOLDER / identity.record_name(run, decided_by)
    with redirect_stderr(io.StringIO()) as said:  # profilers say much that is no error
        record = measure_run(ATTENTION, run, protocol, implementation, sources, output)
    if record.status == "error":
        sys.stderr.write(said.getvalue())
    return record


def _number(value: float, unit: str) -> str:
    """A counter in print: bytes in MB, counts as whole numbers."""
    if unit == "B":
        return f"{measured(value / 1e6)} MB"
    return short(value) if unit == "1" else f"{measured(value)} {unit}"


def counters_text(counted: Mapping[str, Record], device: str) -> str:
    """The counters: a row for each quantity, a column for each implementation and pass.

    A counter that was not taken, and all of a failure, is –.
    """
    declared = ATTENTION.counters_on(device)
    passes = [name.removesuffix("_time") for name in declared]
    headings = [
        f">{label} {name}" if len(counted) > 1 else f">{name}"
        for label in counted
        for name in passes
    ]
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
    return as_text(rows, ["", *headings])


def _parts(details: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str, float]]]]:
    """The kernels or operators of each pass: name, kind or share, and ms, the longest first.

    Kernels are launched once each; operators of one name are together.
    """
    for name, kernels in details.get("kernels", {}).items():
        busy = ((k["name"], k["matrix_activity"] / 100, k["busy_time"]) for k in kernels)
        rows = [(name, f"{percent(share)} matrix units", ms) for name, share, ms in busy]
        yield name, sorted(rows, key=lambda row: -row[2])
    for name, operators in details.get("operators", {}).items():
        yield (
            name,
            [(o["name"], f"{o['calls']}× {o['class']}", o["milliseconds"]) for o in operators],
        )


def _parts_text(parts: Sequence[tuple[str, str, float]]) -> str:
    """The kernels or operators of a pass."""
    rows = [(part, kind, measured(ms)) for part, kind, ms in parts[:LONGEST]]
    if rest := parts[LONGEST:]:
        rows.append((f"{len(rest)} more", "", measured(sum(ms for *_, ms in rest))))
    return as_text(rows, ["kernel or operator", "", ">ms"])


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


def profile(text: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> bool:
    """Count the passes of one implementation at each shape and print it; whether all could be.

    Raises:
        ImplementationError: the text names no implementation.
        ShapeError: a shape is malformed.
    """
    device, statuses = machine.detect_device("auto"), set[str]()
    with opened_targets([text]) as (target,):
        for shape in shapes_of(shapes, device):
            implementation = target.implementation
            run = attention_run(implementation.name, shape, dtype or DTYPE[device], device)
            record = count_run(run, implementation, timeout_s)
            statuses.add(record.status)
            print(f"{run} on {record.environment.get('device_name', run.device)}")
            if record.status == "ok":
                print(counters_text({run.implementation: record}, device))
                for name, parts in _parts(record.details or {}):
                    print(f"\n{name.removesuffix('_time')} pass", _parts_text(parts), sep="\n")
            else:
                print(f"{record.status}: {record.message}")
            if device == "cuda":
                counted = ", ".join(METRICS.values())
                print(f"\nNsight Compute counted {counted}. All of its sections, and a timeline:")
                print(*_command_lines(run, implementation), sep="\n")
    return statuses == {"ok"}
