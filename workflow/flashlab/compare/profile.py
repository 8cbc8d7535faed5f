"""``profile NAME``: the counters of each pass, and its longest kernels or operators.

On a GPU these are Nsight Compute's hardware counters, on a CPU the operators that PyTorch's
profiler saw.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.implementations import Implementation
from flashlab.compare.targets import DTYPE, opened_targets, shapes_of
from flashlab.compare.words import as_text
from flashlab.measuring.supervise import measure_run
from flashlab.numbers import measured, percent, short
from flashlab.records import COUNTERS, Record
from flashlab.runs import Run

LONGEST = 12
"""Kernels or operators of a pass that are listed, the longest first."""


def _count(run: Run, kernel: Implementation, timeout_s: float) -> Record:
    """Count a run's passes; a failure is a record too."""
    protocol = {"name": COUNTERS, "timeout_s": timeout_s}
    with (
        tempfile.TemporaryDirectory() as folder,
        redirect_stderr(io.StringIO()) as said,  # profilers say much that is no error
    ):
        record = measure_run(ATTENTION, run, protocol, kernel, {}, Path(folder, "record.json"))
    if record.status == "error":
        sys.stderr.write(said.getvalue())
    return record


def _number(value: float, unit: str) -> str:
    """A counter in print: bytes in MB, counts as whole numbers."""
    if unit == "B":
        return f"{measured(value / 1e6)} MB"
    return short(value) if unit == "1" else f"{measured(value)} {unit}"


def counters_text(record: Record) -> str:
    """The counters of a record: a row for each quantity, a column for each pass."""
    declared = ATTENTION.counters_on(record.run.device)
    rows = [
        [
            metrics[0].quantity.name.replace("_", " "),
            *(_number(record.metrics[metric.name].value, metric.unit) for metric in metrics),
        ]
        for metrics in zip(*declared.values(), strict=True)
    ]
    return as_text(rows, ["", *(f">{name.removesuffix('_time')}" for name in declared)])


def _parts(details: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[tuple[str, str, float]]]]:
    """The kernels or operators of each pass: name, kind or share, and ms, the longest first.

    Kernels are launched once each; operators of one name are together.
    """
    for name, kernels in details.get("kernels", {}).items():
        busy = ((k["name"], k["matrix_activity"] / 100, k["busy_time"]) for k in kernels)
        rows = [(name, f"{percent(share)} matrix units", ms) for name, share, ms in busy]
        yield name, sorted(rows, key=lambda row: -row[2])
    for name, operators in details.get("operators", {}).items():
        about = ((o["name"], f"{o['calls']}× {o['class']}", o["milliseconds"]) for o in operators)
        yield name, [*about]


def _parts_text(parts: Sequence[tuple[str, str, float]]) -> str:
    """The kernels or operators of a pass."""
    rows = [(part, kind, measured(ms)) for part, kind, ms in parts[:LONGEST]]
    if rest := parts[LONGEST:]:
        rows.append((f"{len(rest)} more", "", measured(sum(ms for *_, ms in rest))))
    return as_text(rows, ["kernel or operator", "", ">ms"])


def profile(text: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> bool:
    """Count the passes of one implementation at each shape and print it; whether all could be.

    Raises:
        ImplementationError: the text names no implementation.
        ShapeError: a shape is malformed.
    """
    device, statuses = machine.detect_device("auto"), set[str]()
    with opened_targets([text]) as (target,):
        for shape in shapes_of(shapes, device):
            kernel = target.implementation
            record = _count(
                attention_run(kernel.name, shape, dtype or DTYPE[device], device), kernel, timeout_s
            )
            statuses.add(record.status)
            print(f"{record.run} on {record.environment.get('device_name', device)}")
            if record.status == "ok":
                print(counters_text(record))
                for name, parts in _parts(record.details or {}):
                    print(f"\n{name.removesuffix('_time')} pass", _parts_text(parts), sep="\n")
            else:
                print(f"{record.status}: {record.message}")
    return statuses == {"ok"}
