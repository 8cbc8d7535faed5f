"""All checks over all submissions: from what they hold to lines, verdicts and badges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flashlab.lab5.assigning import File, assign, matching, stated
from flashlab.lab5.checks import check_results
from flashlab.lab5.results import FolderError
from flashlab_grading.copies import Compared, check_own_copies, compared_of, copies_between
from flashlab_grading.coverage import check_coverage
from flashlab_grading.model import BADGES, CHECKS, VERDICTS, Line, Submission, Verdict, family
from flashlab_grading.physics import check_physics
from flashlab_grading.plausibility import (
    Point,
    check_plausibility,
    check_samples,
    class_outliers,
)
from flashlab_grading.reproduction import Measured, check_reproduction


@dataclass
class Graded:
    """A submission: the lines on it, and what of it is compared with the class.

    `points` are the results that no check of its own refutes and whose run is known.
    """

    submission: str
    lines: list[Line]
    device: str | None = None
    compared: Compared = field(default_factory=Compared)
    points: Sequence[Point] = ()

    @property
    def files(self) -> int:
        """The number of its results."""
        return len(self.compared.results)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The worst verdict of each check, ``not_checked`` where there is no line."""
        found: dict[str, Verdict] = {}
        for line in sorted(self.lines, key=lambda line: VERDICTS.index(line.verdict)):
            found.setdefault(line.check, line.verdict)
        return {check: found.get(check, "not_checked") for check in CHECKS}

    def part(self, check: str) -> tuple[int, int] | None:
        """How many lines of a check came to a conclusion, of how many; None if all or none did."""
        done = [line.verdict != "not_checked" for line in self.lines if line.check == check]
        is_part = self.verdicts[check] == "not_checked" and any(done)
        return (sum(done), len(done)) if is_part else None

    @property
    def badges(self) -> tuple[str, ...]:
        """The badges that it has earned; each requires those before it."""
        found = {c: {line.verdict for line in self.lines if line.check == c} for c in CHECKS}
        passed = {check for check, own in found.items() if own and own <= {"pass", "warn"}}
        form = {line.verdict for line in self.lines if line.check == "form" and line.file}
        sound = {"arithmetic", "identity", "physics", "plausibility"} <= passed
        earned = (
            form == {"pass"} and "coverage" in passed,
            sound and "fail" not in found["copies"],
            "reproduction" in passed,
        )
        return BADGES[: (*earned, False).index(False)]


@dataclass(frozen=True)
class Grades:
    """All lines of grading, and each submission with its own."""

    lines: Sequence[Line]
    submissions: Sequence[Graded]


def _assigned(files: list[File]) -> list[File]:
    """The files, each with the runs that it can be for all that the folder says."""
    try:
        return assign([file.result for file in files])
    except FolderError:  # of numbers that are no file's fault, such as a setting of cuBLAS
        for file in files:
            said = file.result.said
            option, every = stated(said), matching(file.possible, {**file.result.hinted, **said})
            file.options = [option] if option else every or matching(file.possible, said)
        return files


def check_alone(submission: Submission) -> Graded:
    """Run every check that needs no other submission."""
    results, doubted = submission.results, submission.contradicted
    own, files = check_results(result for result in results if result.name not in doubted)
    files = _assigned(files)
    compared = compared_of(results, files)
    physics = [check_physics(file, compared.step) for file in files]
    refuted = {line.file for line in physics if line.verdict == "fail"}
    sound = [file for file in files if file.result.name not in refuted]
    plausible = check_plausibility(sound, compared.step)
    known = {file.result.name for file in files}
    coverage = check_coverage(files, (result for result in results if result.name not in known))
    settled = [(f.result, f.options[0]) for f in files if len({*map(family, f.options)}) == 1]
    copied = [] if compared.step else check_own_copies(file.result for file in files)
    of_samples = [*check_samples(results)]
    suspicious = {line.file for line in (*physics, *of_samples, *copied) if line.verdict == "fail"}
    suspicious |= {line.file for line in plausible}
    lines = [*submission.lines, *own, *physics, *plausible, *of_samples, *coverage, *copied]
    return Graded(
        submission.name,
        [replace(line, submission=submission.name) for line in lines],
        submission.device,
        compared,
        [(replace(r, document={}), o) for r, o in settled if r.name not in suspicious],
    )


def grade_checked(
    checked: Iterable[Graded],
    measured: Sequence[Measured],
    here: str,
    published: Mapping[str, Compared],
) -> Grades:
    """Compare submissions with one another, and with the runs `measured` on this device, `here`.

    `published` are the results of recorded datasets, by the name under which they are reported.
    """
    owns = {own.submission: own for own in checked}
    classmates = {name: (own.points, own.compared.step) for name, own in owns.items()}
    compared = {name: own.compared for name, own in owns.items()}
    for line in (*class_outliers(classmates), *copies_between(compared, published)):
        owns[line.submission].lines.append(line)
    for name, own in owns.items():
        refuted = {line.file for line in own.lines if line.verdict == "fail"}
        sound = (result for result in own.compared.results if result.name not in refuted)
        again = check_reproduction(sound, measured, here)
        own.lines.extend(replace(line, submission=name) for line in again)
        own.lines.sort(key=lambda line: (line.file, CHECKS.index(line.check)))
    return Grades([line for own in owns.values() for line in own.lines], [*owns.values()])
