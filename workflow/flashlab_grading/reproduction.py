"""Check 8, reproduction: a sample of the declared runs, measured here with the ``lab5`` protocol.

On the device that a submission names, times must agree within `TOLERANCE`; those of other devices
are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.declaration import is_same_device
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Result, Verdict

TOLERANCE = 0.25
DISTURBANCES = ("cpu_load", "shared_device")
"""Warnings in a record that mean that other processes were using the machine."""

Declared = tuple[str, Shape]


@dataclass(frozen=True)
class Measured:
    """A run measured here: the seconds of each pass, or the status that explains their absence.

    `disturbed`: the record warns of other processes on the machine.
    """

    run: Run
    status: str
    seconds: Mapping[str, float]
    disturbed: bool = False


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """The measurements made for an order; RecordError if one is missing or of another run."""
    found = []
    for entry in order["measured"]:
        run = Run.of(ATTENTION, entry["run"])
        record = read_record(Path(entry["path"]), run)
        times = {name: f"{name}_time" for name in PASSES if record.status == "ok"}
        seconds = {name: record.metrics[key].value / 1e3 for name, key in times.items()}
        disturbed = any(warning["code"] in DISTURBANCES for warning in record.warnings)
        found.append(Measured(run, record.status, seconds, disturbed))
    return found


def _compared(result: Result, measured: Measured) -> Line:
    """A line for a file, whose run was measured on the same device."""
    params = {"run": result.declaration.describe(), "tolerance": f"{TOLERANCE:.0%}"}
    if measured.status != "ok":
        params["status"] = measured.status
        return Line("not_checked", "reproduction.not_measured", result.name, params)
    worst, texts = 0.0, ("", "")
    for name in PASSES:
        mine, theirs = measured.seconds[name], result.numbers.seconds[name]
        off = abs(theirs / mine - 1)
        if max(mine, theirs) >= LAUNCH_SECONDS and off >= worst:
            worst, texts = off, (f"{mine * 1e3:.4g} ms", f"{theirs * 1e3:.4g} ms")
            params["pass"] = name
    code: tuple[Verdict, str] = ("pass", "reproduction.pass")
    if "pass" not in params:
        code = ("not_checked", "reproduction.too_short")
    elif worst > TOLERANCE and measured.disturbed:
        code = ("not_checked", "reproduction.disturbed")
    elif worst > TOLERANCE:
        code = ("fail", "reproduction.fail")
    return Line(*code, result.name, params, *texts)


def check_reproduction(
    results: Sequence[Result], measured: Sequence[Measured], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs measured on the device `here`."""
    by_run: dict[Declared | None, Measured] = {
        (m.run.implementation, Shape.of(m.run)): m for m in measured
    }
    lines = [
        _compared(result, by_run[result.declaration.run])
        for result in results
        if result.declaration.run in by_run and is_same_device(here, result.declaration.device_name)
    ]
    code = "reproduction.none_sampled" if measured else "reproduction.not_asked"
    return lines or [Line("not_checked", code)]
