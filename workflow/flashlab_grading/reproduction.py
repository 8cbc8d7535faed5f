"""Check 8, reproduction: a sample of the declared runs, measured here with the ``lab5`` protocol.

On the device that a submission names, times must agree within `TOLERANCE`; those of other devices
are not compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.lab5.assigning import stated
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result
from flashlab.lab5.said import described
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Verdict, is_same_device

TOLERANCE = 0.25
DISTURBANCES = ("cpu_load", "shared_device")
"""Warnings in a record that mean that other processes were using the machine."""


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


def declared_run(result: Result) -> Option | None:
    """The run that a result is declared to be, by a row, its record, or its name."""
    return stated({**result.hinted, **result.said})


def _compared(result: Result, measured: Measured) -> Line:
    """A line for a file, whose run was measured on the same device."""
    named = described({**result.hinted, **result.said})
    params = {"run": named, "tolerance": f"{TOLERANCE:.0%}", "status": measured.status}
    if measured.status != "ok":
        return Line("not_checked", "reproduction.not_measured", result.name, params)
    worst, texts = 0.0, ("", "")
    for name in PASSES:
        mine, theirs = measured.seconds[name], result.seconds[name]
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
    results: Iterable[Result], measured: Sequence[Measured], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs measured on the device `here`."""
    by_run = {(m.run.implementation, Shape.of(m.run)): m for m in measured}
    lines = [
        _compared(result, by_run[run])
        for result in results
        if (run := declared_run(result)) in by_run
        and is_same_device(here, result.said.get("device"))
    ]
    code = "reproduction.none_sampled" if measured else "reproduction.not_asked"
    return lines or [Line("not_checked", code)]


def choose(groups: Sequence[Iterable[Result]], here: str, count: int, seed: int) -> list[Option]:
    """A sample of `count` runs declared to be of the device `here`, alike for a seed and class.

    `groups` are the files of the most suspicious submissions, of the next ones, and so on; runs of
    an earlier group come first, and within one the seed decides. Runs that are mostly launches and
    kernels that are not here are left out.
    """
    known = find_implementations()
    places: dict[Option, int] = {}
    for place, result in ((i, result) for i, group in enumerate(groups) for result in group):
        run, device = declared_run(result), result.said.get("device")
        is_long = max(result.seconds[name] for name in PASSES) >= LAUNCH_SECONDS
        if run and run[0] in known and is_long and is_same_device(here, device):
            places.setdefault(run, place)
    order = sorted(places)
    random.Random(seed).shuffle(order)
    return sorted(order, key=places.__getitem__)[:count]
