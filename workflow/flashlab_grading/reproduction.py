"""Check 8, reproduction: a sample of the declared runs, measured here with the ``lab5`` protocol.

On the device that a submission names, times must agree within `TOLERANCE`. On another device only
the ratio of the two implementations can be compared, which is weak evidence and reported as such.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.course.declaration import device_is_gpu, is_same_device
from flashlab.course.words import FLASH2, NAIVE
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Result, Verdict

TOLERANCE = 0.25
START_SECONDS = 5.0
"""Overhead of a run besides its calls: the process, importing torch, the float64 reference."""

EXTRA_CALLS = 5
"""Untimed calls of a run: warm-up, peak memory, comparison with the reference."""

DISTURBANCES = ("cpu_load", "shared_device")
"""Warnings in a record that mean that other processes were using the machine."""

OTHER_DEVICE_FACTOR = 3.0
"""By what factor the ratio of the two implementations may differ between two devices."""


@dataclass(frozen=True)
class Measured:
    """A run measured here: the seconds of each pass, or the status that explains their absence.

    `disturbed` is whether the record warns of other processes on the machine.
    """

    run: Run
    status: str
    seconds: Mapping[str, float]
    disturbed: bool = False


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """What was measured here for an order; RecordError if a record is missing or of another run."""
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


def choose(groups: Sequence[Iterable[Result]], here: str, count: int, seed: int) -> list[Declared]:
    """A sample of `count` declared runs, the same for the same seed and submissions.

    `groups` are the files of the most suspicious submissions, of the next ones, and so on; runs of
    an earlier group come first, and within one the seed decides. Runs shorter than
    `LAUNCH_SECONDS` come last. If a run was on another device, the other implementation is
    measured at that shape too.
    """
    longest: dict[Declared, float] = {}
    places: dict[Declared, int] = {}
    elsewhere: set[Declared] = set()
    for place, result in ((i, result) for i, group in enumerate(groups) for result in group):
        run = result.declaration.run
        if run is None or run[0] not in known_kernels():
            continue
        seconds = min(result.numbers.seconds[name] for name in PASSES)
        longest[run] = max(seconds, longest.get(run, 0.0))
        places.setdefault(run, place)
        if not is_same_device(here, result.declaration.device_name):
            elsewhere.add(run)
    order = sorted(longest)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda run: (longest[run] < LAUNCH_SECONDS, places[run]))
    chosen = dict.fromkeys(order[:count])
    for implementation, shape in order[:count]:
        other = {NAIVE: FLASH2, FLASH2: NAIVE}.get(implementation)
        if (implementation, shape) in elsewhere and other is not None:
            chosen[other, shape] = None
    return list(chosen)


def is_from_gpu(result: Result) -> bool:
    """Whether a file can be sampled and is from a GPU, as the course's are if none is named."""
    run, device_name = result.declaration.run, result.declaration.device_name
    sampled = run is not None and run[0] in known_kernels()
    return sampled and (device_name is None or device_is_gpu(device_name))


def estimated_seconds(
    chosen: Iterable[Declared], results: Iterable[Result], protocol: Mapping[str, Any]
) -> float:
    """An estimate of how long measuring these runs takes, from the longest time of their shapes.

    No run takes longer than the protocol's time-out.
    """
    longest: dict[Shape, float] = {}
    for result in results:
        if (run := result.declaration.run) is not None:
            seconds = sum(result.numbers.seconds[name] for name in PASSES)
            longest[run[1]] = max(seconds, longest.get(run[1], 0.0))
    calls = EXTRA_CALLS + int(protocol.get("repeats", 0))
    sampling = START_SECONDS + len(PASSES) * float(protocol.get("max_seconds", 0))
    times = (sampling + longest[shape] * calls for _, shape in chosen)
    return sum(min(seconds, float(protocol["timeout_s"])) for seconds in times)


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

    def nothing(code: str, **params: str) -> list[Line]:
        return [Line("not_checked", code, params=params)]

    known = known_kernels()
    unknown = dict.fromkeys(
        run[0] for r in results if (run := r.declaration.run) and run[0] not in known
    )
    said = nothing("reproduction.unknown", others="\0".join(unknown)) if unknown else []
    if not measured:
        return said or nothing("reproduction.not_asked")
    by_run: dict[Declared, Measured] = {
        (m.run.implementation, Shape.of(m.run)): m for m in measured
    }
    lines, elsewhere = [], []
    for result in results:
        run = result.declaration.run
        found = by_run.get(run) if run else None
        if found is None:
            continue
        if not is_same_device(here, result.declaration.device_name):
            elsewhere.append(result)
        elif found.status != "ok":
            params = {"run": result.declaration.describe(), "status": found.status}
            code = "reproduction.not_measured"
            lines.append(Line("not_checked", code, result.name, params))
        else:
            lines.append(_compare_times(result, found))
    lines += _compare_ratios(elsewhere, by_run)
    return [*said, *lines] or nothing("reproduction.none_sampled")
