"""Check 8, reproduction: a sample of the declared runs, measured here with the ``lab5`` protocol.

On the device that a submission names, times must agree within `TOLERANCE`. On another device only
the ratio of the two implementations can be compared, which is weak evidence and reported as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.course.declaration import is_same_device
from flashlab.course.words import FLASH2, NAIVE
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Result, Verdict

TOLERANCE = 0.25
DISTURBANCES = ("cpu_load", "shared_device")
"""Warnings in a record that mean that other processes were using the machine."""

OTHER_DEVICE_FACTOR = 3.0
"""Largest factor between the ratios of the two implementations on two devices."""


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


@cache
def known_kernels() -> frozenset[str]:
    """The implementations that can be measured here."""
    return frozenset(find_implementations())


Declared = tuple[str, Shape]


def _compare_times(result: Result, measured: Measured) -> Line:
    """One file from the same device, compared with the measurement."""
    params = {"run": result.declaration.describe(), "tolerance": f"{TOLERANCE:.0%}"}
    worst, texts = 0.0, ("", "")
    for name in PASSES:
        mine, theirs = measured.seconds[name], result.numbers.seconds[name]
        off = abs(theirs / mine - 1)
        if max(mine, theirs) >= LAUNCH_SECONDS and off >= worst:
            worst, texts = off, (f"{mine * 1e3:.4g} ms", f"{theirs * 1e3:.4g} ms")
            params["pass"] = name
    if "pass" not in params:
        code: tuple[Verdict, str] = ("not_checked", "reproduction.too_short")
    elif worst > TOLERANCE and measured.disturbed:
        code = ("not_checked", "reproduction.disturbed")
    elif worst > TOLERANCE:
        code = ("fail", "reproduction.fail")
    else:
        code = ("pass", "reproduction.pass")
    return Line(*code, result.name, params, *texts)


def _compare_ratios(
    results: Sequence[Result], measured: Mapping[Declared, Measured]
) -> Iterator[Line]:
    """Naive over Flash2, here and in the submission, at the shapes that both have."""
    own = {run: result for result in results if (run := result.declaration.run) is not None}
    for implementation, shape in sorted(own):
        pair = ((NAIVE, shape), (FLASH2, shape))
        if implementation != NAIVE or not all(run in own and run in measured for run in pair):
            continue
        naive, flash2 = (measured[run] for run in pair)
        if (naive.status, flash2.status) != ("ok", "ok"):
            continue
        totals = [sum(m.seconds.values()) for m in (naive, flash2)]
        theirs = [sum(own[run].numbers.seconds[name] for name in PASSES) for run in pair]
        here, there = totals[0] / totals[1], theirs[0] / theirs[1]
        agree = 1 / OTHER_DEVICE_FACTOR <= there / here <= OTHER_DEVICE_FACTOR
        verdict: Verdict = "not_checked" if agree else "warn"
        code = "reproduction.ratio_agrees" if agree else "reproduction.ratio_differs"
        params = {"run": own[pair[1]].declaration.describe(), "factor": f"{OTHER_DEVICE_FACTOR:g}"}
        yield Line(verdict, code, own[pair[1]].name, params, f"{here:.3g}", f"{there:.3g}")


def check_reproduction(
    results: Sequence[Result], measured: Sequence[Measured], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs measured on the device `here`."""
    declared = [run[0] for result in results if (run := result.declaration.run)]
    unknown = [name for name in dict.fromkeys(declared) if name not in known_kernels()]
    params = {"others": "\0".join(unknown)}
    lines = [Line("not_checked", "reproduction.unknown", params=params)] if unknown else []
    if not measured:
        return lines or [Line("not_checked", "reproduction.not_asked")]
    by_run: dict[Declared, Measured] = {
        (m.run.implementation, Shape.of(m.run)): m for m in measured
    }
    elsewhere = []
    for result in results:
        run = result.declaration.run
        found = by_run.get(run) if run else None
        if found is None:
            continue
        if not is_same_device(here, result.declaration.device_name):
            elsewhere.append(result)
        elif found.status != "ok":
            params = {"run": result.declaration.describe(), "status": found.status}
            lines.append(Line("not_checked", "reproduction.not_measured", result.name, params))
        else:
            lines.append(_compare_times(result, found))
    lines += _compare_ratios(elsewhere, by_run)
    return lines or [Line("not_checked", "reproduction.none_sampled")]
