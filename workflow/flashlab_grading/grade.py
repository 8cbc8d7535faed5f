"""All checks over all submissions, each in a process of its own with bounded memory and time.

A submission that takes all memory or time gets a line about that; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import pandas as pd
import psutil

from flashlab.forks import forked
from flashlab.lab5.assigning import assign
from flashlab.lab5.checks import check_results
from flashlab_grading import checks
from flashlab_grading.checks import GradingError, Line, Submission
from flashlab_grading.copies import check_own_copies, copies_of, shipped, times_of
from flashlab_grading.submissions import read_submission

CLASS_SIZE, CLASS_FACTOR = 5, 1.9
"""Fewest submissions with the same point, of the same device, for its median to count; and the
factor by which a point, relative to the level of its submission, or that level may be off."""

MAX_SECONDS, MAX_MEMORY, POLL_SECONDS = 60.0, 1024**3, 0.05
"""Longest time for one submission, of which forty records take less than a second; and most bytes
that a process may take beyond those it starts with."""

T = TypeVar("T")


class LimitError(Exception):
    """A function took more than the limit that this names, or was killed."""


def _answer(output: Connection, function: Callable[..., object], *arguments: Any) -> None:
    try:
        output.send(function(*arguments))
    except (GradingError, ImportError) as error:
        output.send(error)


def apart(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """A function's result or error, in a fork; LimitError if that took too much or was killed."""
    received, output = multiprocessing.Pipe(duplex=False)
    process = forked(_answer, output, function, *arguments)
    output.close()
    ends, limit = time.monotonic() + seconds, f"{MAX_MEMORY // 1024**2} MiB"
    most = psutil.Process().memory_info().rss + MAX_MEMORY  # a fork starts with as much
    try:
        while not received.poll(POLL_SECONDS):
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > ends:
                    limit = f"{seconds:g} s"
                if time.monotonic() > ends or psutil.Process(process.pid).memory_info().rss > most:
                    process.kill()
        found: T | Exception = received.recv()
    except EOFError:  # also of what ends without an answer
        raise LimitError(limit) from None
    finally:
        process.kill()
        process.join()
        received.close()
    if isinstance(found, Exception):
        raise found
    return found


def check_alone(own: Submission) -> Submission:
    """Run every check on a submission that needs no other, and leave it without its samples."""
    lines, files = check_results(own.results)
    times = times_of(own.results, assign(files))
    step = float(times["clock"].max()) if len(times) else 0.0
    suspicious = [checks.check_physics(file, step) for file in files]
    refuted = {line.file for line in suspicious if line.verdict == "fail"}
    sound = [file for file in files if file.result.name not in refuted]
    plausible = checks.check_plausibility(sound, step)
    known = {file.result.name for file in files}
    doubted = (result for result in own.results if result.name not in known)
    suspicious += checks.check_samples(own.results)
    suspicious += [] if step else check_own_copies(file.result for file in files)
    own.add([*lines, *suspicious, *plausible, *checks.check_coverage(files, doubted)])
    spoken_against = {line.file for line in suspicious if line.verdict == "fail"}
    spoken_against |= {line.file for line in plausible}
    own.times = times.assign(is_sound=times["is_sound"] & ~times["file"].isin(spoken_against))
    own.results = [replace(result, samples={}) for result in own.results]
    return own


def _check(folder: str, name: str, device: str | None) -> Submission:
    return check_alone(read_submission(folder, name, device))


def check_apart(folder: str, names: Iterable[str], device: str | None) -> Iterator[Submission]:
    """Each submission of a folder, read and checked apart, in order; `device` is the class's."""
    shipped()  # known to all forks
    for name in names:
        try:
            yield apart(MAX_SECONDS, _check, folder, name, device)
        except LimitError as error:
            line = Line("fail", "form.budget", params={"limit": str(error)})
            yield check_alone(Submission(name, lines=[replace(line, submission=name)]))


def class_outliers(times: pd.DataFrame) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `times` are those of a class (`copies.times_of`), by `owner`. Each is compared relative to its
    submission's level, the median of its ratios to the class. Where no device is named, only levels
    are.
    """
    keys = ["device", "run", "pass"]
    points = times[times["seconds"].ge(checks.STEPS * times["clock"])]
    points = points.drop_duplicates(["owner", *keys])
    of_class = points.groupby(keys)["seconds"]
    points = points.assign(median=of_class.transform("median"), count=of_class.transform("size"))
    is_long = points[["median", "seconds"]].min(axis=1).ge(checks.LAUNCH_SECONDS)
    points = points[is_long & points["count"].ge(CLASS_SIZE)]
    levels = (points["seconds"] / points["median"]).groupby(points["owner"]).transform("median")
    points = points.assign(level=levels, usual=points["median"] * levels)
    low, high = 1 / CLASS_FACTOR, CLASS_FACTOR
    owners = points.groupby("owner")["level"].first()
    for owner, level in owners[~owners.between(low, high)].items():
        params, texts = {"factor": f"{level:.3g}"}, (f"{low:.2g} – {high:g}", f"{level:.3g}")
        yield Line("warn", "plausibility.level", "", params, *texts, str(owner))
    is_off = ~(points["seconds"] / points["usual"]).between(low, high) & points["device"].ne("")
    for point in points[is_off].to_dict("records"):
        params = {"pass": point["pass"], "factor": f"{high:g}"}
        texts = f"{point['usual'] * 1e3:.4g} ms", f"{point['seconds'] * 1e3:.4g} ms"
        yield Line("warn", "plausibility.class", point["file"], params, *texts, point["owner"])


def grade_checked(checked: Iterable[Submission], published: pd.DataFrame) -> list[Submission]:
    """Compare submissions with one another, and with recorded datasets (`published_times`)."""
    owns = {own.name: own for own in checked}
    every = [own.times.assign(owner=name) for name, own in owns.items()]
    times = pd.concat([published, *every], ignore_index=True)
    outliers = [*class_outliers(times[times["is_sound"]])]
    for name, own in owns.items():
        own.add([line for line in outliers if line.submission == name])
        own.add(copies_of(times, name))
    return [*owns.values()]
