"""All checks over all submissions: from what they hold to lines, verdicts and badges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from flashlab.lab5.assigning import assign
from flashlab.lab5.checks import check_results
from flashlab.lab5.results import Result
from flashlab_grading.copies import check_own_copies, copies_between, times_of
from flashlab_grading.coverage import check_coverage
from flashlab_grading.model import BADGES, CHECKS, VERDICTS, Line, Submission, Verdict
from flashlab_grading.physics import check_physics
from flashlab_grading.plausibility import check_plausibility, check_samples, class_outliers


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
