"""All checks over all submissions, each in a process of its own with bounded memory and time.

A submission that takes all memory or time gets a line about that; the others are graded.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import pandas as pd
import psutil

from flashlab.forks import forked
from flashlab.lab5.assigning import assign
from flashlab.lab5.checks import check_results
from flashlab.lab5.results import Result
from flashlab_grading.checks import (
    BADGES,
    CHECKS,
    LAUNCH_SECONDS,
    STEPS,
    VERDICTS,
    GradingError,
    Line,
    Submission,
    Verdict,
    check_coverage,
    check_physics,
    check_plausibility,
    check_samples,
)
from flashlab_grading.copies import check_own_copies, copies_between, shipped, times_of
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


@dataclass
class Graded:
    """A submission: the lines on it, its results without their records, and their times.

    Of its `times` (`copies.times_of`), those `is_sound` whose run is known and that no check of its
    own speaks against.
    """

    submission: str
    lines: list[Line]
    device: str | None
    results: Sequence[Result]
    times: pd.DataFrame

    def of(self, check: str) -> list[Verdict]:
        """The verdicts of a check's lines."""
        return [line.verdict for line in self.lines if line.check == check]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The worst verdict of each check, ``not_checked`` where there is no line."""
        return {x: min(self.of(x), key=VERDICTS.index, default="not_checked") for x in CHECKS}

    def part(self, check: str) -> tuple[int, int] | None:
        """How many lines of a check came to a conclusion, of how many; None if all or none did."""
        done = [verdict != "not_checked" for verdict in self.of(check)]
        is_part = self.verdicts[check] == "not_checked" and any(done)
        return (sum(done), len(done)) if is_part else None

    @property
    def badges(self) -> tuple[str, ...]:
        """The badges that it has earned; each requires those before it."""
        passed = {x for x in CHECKS if self.of(x) and {*self.of(x)} <= {"pass", "warn"}}
        form = {line.verdict for line in self.lines if line.check == "form" and line.file}
        sound = {"arithmetic", "identity", "physics", "plausibility"} <= passed
        earned = (
            form == {"pass"} and "coverage" in passed,
            sound and "fail" not in self.of("copies"),
            "reproduction" in passed,
        )
        return BADGES[: (*earned, False).index(False)]


def check_alone(submission: Submission) -> Graded:
    """Run every check that needs no other submission."""
    results, doubted = submission.results, submission.contradicted
    own, files = check_results(result for result in results if result.name not in doubted)
    assign(files)
    times = times_of(results, files)
    step = float(times["clock"].max()) if len(times) else 0.0
    physics = [check_physics(file, step) for file in files]
    refuted = {line.file for line in physics if line.verdict == "fail"}
    plausible = check_plausibility([f for f in files if f.result.name not in refuted], step)
    known = {file.result.name for file in files}
    coverage = check_coverage(files, (result for result in results if result.name not in known))
    copied = [] if step else check_own_copies(file.result for file in files)
    suspicious = [*physics, *check_samples(results), *copied]
    lines = [*submission.lines, *own, *suspicious, *plausible, *coverage]
    spoken_against = {line.file for line in suspicious if line.verdict == "fail"}
    spoken_against |= {line.file for line in plausible}
    times["is_sound"] &= ~times["file"].isin(spoken_against)
    return Graded(
        submission.name,
        [replace(line, submission=submission.name) for line in lines],
        submission.device,
        [replace(result, document={}) for result in results],
        times,
    )


def _check(folder: str, name: str, device: str | None) -> Graded:
    return check_alone(read_submission(folder, name, device))


def check_apart(folder: str, names: Iterable[str], device: str | None) -> Iterator[Graded]:
    """Each submission of a folder, read and checked apart, in order; `device` is the class's."""
    shipped()  # known to all forks
    for name in names:
        try:
            yield apart(MAX_SECONDS, _check, folder, name, device)
        except LimitError as error:
            line = Line("fail", "form.budget", params={"limit": str(error)})
            yield check_alone(Submission(name, lines=[line]))


def class_outliers(times: pd.DataFrame) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `times` are those of a class (`copies.times_of`), by `owner`. Each is compared relative to its
    submission's level, the median of its ratios to the class. Where no device is named, only levels
    are.
    """
    keys = ["device", "run", "pass"]
    points = times[times["seconds"].ge(STEPS * times["clock"])]
    points = points.drop_duplicates(["owner", *keys])
    of_class = points.groupby(keys)["seconds"]
    points = points.assign(median=of_class.transform("median"), count=of_class.transform("size"))
    is_long = points[["median", "seconds"]].min(axis=1).ge(LAUNCH_SECONDS)
    points = points[is_long & points["count"].ge(CLASS_SIZE)]
    levels = (points["seconds"] / points["median"]).groupby(points["owner"]).transform("median")
    points = points.assign(level=levels, usual=points["median"] * levels)
    low, high = 1 / CLASS_FACTOR, CLASS_FACTOR
    for submission, level in points.groupby("owner")["level"].first().items():
        if not low <= level <= high:
            found = f"{level:.3g}"
            texts = f"{low:.2g} – {high:g}", found, str(submission)
            yield Line("warn", "plausibility.level", "", {"factor": found}, *texts)
    is_off = ~(points["seconds"] / points["usual"]).between(low, high) & points["device"].ne("")
    for point in points[is_off].to_dict("records"):
        params = {"pass": point["pass"], "factor": f"{high:g}"}
        usual, found = (f"{point[key] * 1e3:.4g} ms" for key in ("usual", "seconds"))
        yield Line(
            "warn", "plausibility.class", point["file"], params, usual, found, point["owner"]
        )


def grade_checked(checked: Iterable[Graded], published: pd.DataFrame) -> list[Graded]:
    """Compare submissions with one another, and with recorded datasets (`published_times`)."""
    owns = {own.submission: own for own in checked}
    every = [own.times.assign(owner=name) for name, own in owns.items()]
    times = pd.concat([published, *every], ignore_index=True)
    outliers = class_outliers(times[times["is_sound"]])
    for line in (*outliers, *copies_between(times, owns)):
        owns[line.submission].lines.append(line)
    for own in owns.values():
        own.lines.sort(key=lambda line: (line.file, CHECKS.index(line.check)))
    return [*owns.values()]
