"""Check 8, reproduction: a sample of the declared runs, measured here with the ``lab5`` protocol.

On the device that a submission names, times must agree within `TOLERANCE`; those of other devices
are not compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.lab5.assigning import stated
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result
from flashlab.lab5.said import described
from flashlab.records import Record, read_record
from flashlab.runs import Run
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Verdict, is_same_device

TOLERANCE = 0.25
DISTURBANCES = ("cpu_load", "shared_device")
"""Warnings in a record that mean that other processes were using the machine."""


Measured = tuple[Option, Record]
"""A run that was measured here, and its record."""


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """The measurements made for an order; RecordError if one is missing or of another run."""
    runs = [(Run.of(ATTENTION, each["run"]), Path(each["path"])) for each in order["measured"]]
    return [((run.implementation, Shape.of(run)), read_record(path, run)) for run, path in runs]


def _compared(result: Result, record: Record) -> Line:
    """A line for a file, whose run was measured on the same device, by its passes that are long."""
    off, texts, name = 0.0, ("", ""), ""
    for each in PASSES if record.status == "ok" else ():
        mine, theirs = record.metrics[f"{each}_time"].value / 1e3, result.seconds[each]
        if max(mine, theirs) >= LAUNCH_SECONDS and abs(theirs / mine - 1) >= off:
            off, name = abs(theirs / mine - 1), each
            texts = f"{mine * 1e3:.4g} ms", f"{theirs * 1e3:.4g} ms"
    code: tuple[Verdict, str] = ("pass", "pass")
    if record.status != "ok":
        code = ("not_checked", "not_measured")
    elif not name:
        code = ("not_checked", "too_short")
    elif off > TOLERANCE:
        is_disturbed = any(warning["code"] in DISTURBANCES for warning in record.warnings)
        code = ("not_checked", "disturbed") if is_disturbed else ("fail", "fail")
    params = {"run": described({**result.hinted, **result.said}), "status": record.status}
    params |= {"tolerance": f"{TOLERANCE:.0%}", "pass": name}
    return Line(code[0], f"reproduction.{code[1]}", result.name, params, *texts)


def _declared(results: Iterable[Result], here: str) -> list[tuple[Option, Result]]:
    """The results declared to be of the device `here`, by a row, a record, or their names."""
    runs = ((stated({**r.hinted, **r.said}), r) for r in results)
    return [(run, r) for run, r in runs if run and is_same_device(here, r.said.get("device"))]


def check_reproduction(
    results: Iterable[Result], measured: Sequence[Measured], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs measured on the device `here`."""
    records, declared = dict(measured), _declared(results, here) if measured else []
    lines = [_compared(result, records[run]) for run, result in declared if run in records]
    code = "reproduction.none_sampled" if measured else "reproduction.not_asked"
    return lines or [Line("not_checked", code)]


def choose(
    accused: Iterable[Result], others: Iterable[Result], here: str, count: int, seed: int
) -> list[Option]:
    """A sample of `count` runs declared to be of the device `here`, alike for a seed and class.

    Runs of `accused` submissions come first, and within those and the `others` the seed decides.
    Runs that are mostly launches and kernels that are not here are left out.
    """
    known, chosen = find_implementations(), list[Option]()
    for results in (accused, others):
        runs = sorted({
            run for run, result in _declared(results, here)
            if run[0] in known and max(result.seconds[name] for name in PASSES) >= LAUNCH_SECONDS
        } - {*chosen})  # fmt: skip
        random.Random(seed).shuffle(runs)
        chosen += runs
    return chosen[:count]
