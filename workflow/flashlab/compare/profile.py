"""``profile NAME``: the counters of each pass, and its longest kernels or operators.

On a GPU these are Nsight Compute's hardware counters, on a CPU the operators that PyTorch's
profiler saw.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

import pandas as pd

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.compare.targets import DTYPE, opened_targets, shapes_of
from flashlab.compare.words import as_text
from flashlab.measuring.supervise import measure_run
from flashlab.numbers import measured, short
from flashlab.records import COUNTERS, Record
from flashlab.usage import require_torch

LONGEST = 12
"""Kernels or operators of a pass that are listed, the longest first."""

TIMES = {"kernels": "busy_time", "operators": "milliseconds"}
"""What a record has beside its counters, and the time of each in ms."""


def _number(value: float, unit: str) -> str:
    """A counter in print: bytes in MB, counts as whole numbers."""
    if unit == "B":
        return f"{measured(value / 1e6)} MB"
    return short(value) if unit == "1" else f"{measured(value)} {unit}"


def counters_text(record: Record) -> str:
    """The counters, a column a pass, and below them what was longest in each."""
    declared = ATTENTION.counters_on(record.run.device)
    rows = [
        [
            metrics[0].quantity.name.replace("_", " "),
            *(_number(record.metrics[metric.name].value, metric.unit) for metric in metrics),
        ]
        for metrics in zip(*declared.values(), strict=True)
    ]
    told = [as_text(rows, ["", *(f">{name.removesuffix('_time')}" for name in declared)])]
    for kind, time in TIMES.items():
        for name, parts in (record.details or {}).get(kind, {}).items():
            longest = pd.DataFrame(parts).nlargest(LONGEST, time)
            of = f"\n{name.removesuffix('_time')} pass: {len(longest)} of {len(parts)} {kind}"
            told += [of, longest.to_string(index=False, float_format="{:.3g}".format)]
    return "\n".join(told)


def profile(text: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> int:
    """Count the passes of one implementation at each shape and print it; 1 if not all could be.

    UsageError where the text names no implementation, or a shape is malformed.
    """
    require_torch()
    device, statuses, protocol = machine.detect_device("auto"), set(), {"name": COUNTERS}
    with opened_targets([text]) as (target,), tempfile.TemporaryDirectory() as folder:
        kernel, output = target.implementation, Path(folder, "record.json")
        for shape in shapes_of(shapes, device):
            run = attention_run(kernel.name, shape, dtype or DTYPE[device], device)
            order = {**protocol, "timeout_s": timeout_s}
            with redirect_stderr(io.StringIO()) as said:  # profilers say much that is no error
                record = measure_run(ATTENTION, run, order, kernel, {}, output)
            statuses.add(record.status)
            sys.stderr.write(said.getvalue() if record.status == "error" else "")
            print(f"{record.run} on {record.environment.get('device_name', device)}")
            is_counted = record.status == "ok"
            print(counters_text(record) if is_counted else f"{record.status}: {record.message}")
    return 0 if statuses == {"ok"} else 1
