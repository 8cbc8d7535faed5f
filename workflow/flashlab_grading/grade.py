"""All checks over all submissions: from the order to the lines and the summary."""

from __future__ import annotations

from collections import Counter
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


@dataclass(frozen=True)
class Summary:
    """One submission: the worst verdict of each check, counts, and badges.

    `checked` are the numbers of a check's lines that came to a conclusion, and of all.
    """

    submission: str
    device: str
    files: int
    verdicts: Mapping[str, Verdict]
    checked: Mapping[str, tuple[int, int]]
    counts: Mapping[Verdict, int]
    badges: tuple[str, ...]

    def is_part(self, check: str) -> bool:
        """True if a check was made of some files and not of others."""
        done, total = self.checked[check]
        return self.verdicts[check] == "not_checked" and 0 < done < total


@dataclass(frozen=True)
class Grades:
    """All lines of grading, and a summary of each submission."""

    lines: tuple[Line, ...]
    summaries: tuple[Summary, ...]


@dataclass(frozen=True)
class CheckedSubmission:
    """The lines of a submission's own checks, and what is compared with the class.

    `points` are the results that no check refutes and whose run is known.
    """

    name: str
    lines: list[Line]
    device: str | None = None
    compared: Compared = field(default_factory=Compared)
    points: Sequence[Point] = ()


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


def check_alone(submission: Submission) -> CheckedSubmission:
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
    return CheckedSubmission(
        submission.name,
        [replace(line, submission=submission.name) for line in lines],
        submission.device,
        compared,
        [(replace(r, document={}), o) for r, o in settled if r.name not in suspicious],
    )


def _badges(lines: Sequence[Line]) -> tuple[str, ...]:
    """The badges that a submission has earned; each requires those before it."""

    def passed(check: str) -> bool:
        verdicts = {line.verdict for line in lines if line.check == check}
        return bool(verdicts) and verdicts <= {"pass", "warn"}

    form = {line.verdict for line in lines if line.check == "form" and line.file}
    copied = any(line.check == "copies" and line.verdict == "fail" for line in lines)
    earned = (
        form == {"pass"} and passed("coverage"),
        not copied and all(map(passed, ("arithmetic", "identity", "physics", "plausibility"))),
        passed("reproduction") and any(line.code == "reproduction.pass" for line in lines),
    )
    return BADGES[: next((i for i, has in enumerate(earned) if not has), len(BADGES))]


def _summary(own: CheckedSubmission) -> Summary:
    by_check: dict[str, list[Verdict]] = {check: [] for check in CHECKS}
    for line in own.lines:
        by_check[line.check].append(line.verdict)
    return Summary(
        own.name,
        own.device or "",
        len(own.compared.results),
        {c: min(v, key=VERDICTS.index, default="not_checked") for c, v in by_check.items()},
        {c: (sum(v != "not_checked" for v in found), len(found)) for c, found in by_check.items()},
        Counter(line.verdict for line in own.lines),
        _badges(own.lines),
    )


def grade_checked(
    checked: Iterable[CheckedSubmission],
    measured: Sequence[Measured],
    here: str,
    published: Mapping[str, Compared],
) -> Grades:
    """Compare submissions with one another, with the runs `measured` on this device, and sum up.

    `published` are the results of recorded datasets, by the name under which they are reported.
    """
    owns = {own.name: own for own in checked}
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
    lines = tuple(line for own in owns.values() for line in own.lines)
    return Grades(lines, tuple(map(_summary, owns.values())))
