"""All checks over all submissions: from the order to the lines and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flashlab_grading.arithmetic import check_arithmetic
from flashlab_grading.claims import check_proofs, check_samples
from flashlab_grading.coverage import check_coverage
from flashlab_grading.fabrication import check_fabrication
from flashlab_grading.identity import Point, check_identity, settled_points
from flashlab_grading.model import BADGES, CHECKS, VERDICTS, Line, Result, Submission, Verdict
from flashlab_grading.physics import check_physics
from flashlab_grading.plausibility import check_plausibility, class_outliers
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
    """The lines of a submission's own checks, and the files for checks against the class.

    `sound` are the files that no check refutes, and `points` those of them whose run is settled.
    The samples are left out.
    """

    submission: Submission
    lines: list[Line]
    sound: list[Result]
    points: list[Point]


def _unrefuted(results: Iterable[Result], lines: Iterable[Line]) -> list[Result]:
    failed = {line.file for line in lines if line.verdict == "fail"}
    return [result for result in results if result.name not in failed]


def check_alone(submission: Submission, nonce: str | None = None) -> CheckedSubmission:
    """Run every check that needs no other submission; `nonce` is the grader's word, if any."""
    lines = list(submission.lines)
    if nonce is not None:
        lines += check_proofs(submission.results, nonce)
    computed = []  # a file that fails is left out of later checks, so that a fault is told once
    for result in submission.results:
        line = check_arithmetic(result, submission.samples.get(result.name, {}))
        lines.append(line)
        if line.verdict == "pass":
            computed.append(result)
        else:
            codes = ("identity.no_flops", "physics.no_flops")
            lines += [Line("not_checked", code, result.name) for code in codes]
    of_identity, computed, candidates = check_identity(computed)
    lines += of_identity
    physics = [check_physics(result, candidates[result.name]) for result in computed]
    lines += physics
    identified = _unrefuted(computed, of_identity)
    sound = _unrefuted(identified, physics)
    points = list(settled_points(sound, candidates))
    lines += check_plausibility(sound, candidates)
    lines += check_samples(submission)
    sure = {result.name for result in identified}
    doubted = [result for result in submission.results if result.name not in sure]
    lines += check_coverage(identified, candidates, doubted)
    lines += check_fabrication(identified, points)
    results = {result.name: result for result in (*submission.results, *computed)}
    return CheckedSubmission(
        replace(submission, results=tuple(results.values()), samples={}),
        [replace(line, submission=submission.name) for line in lines],
        sound,
        points,
    )


def _badges(own: CheckedSubmission) -> tuple[str, ...]:
    """The badges that a submission has earned; each requires those before it."""
    lines = own.lines

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
        own.submission.name,
        own.submission.device_name or "",
        len(own.submission.results),
        {c: min(v, key=VERDICTS.index, default="not_checked") for c, v in by_check.items()},
        {c: (sum(v != "not_checked" for v in found), len(found)) for c, found in by_check.items()},
        Counter(line.verdict for line in own.lines),
        _badges(own),
    )


def grade_checked(
    checked: Iterable[CheckedSubmission],
    measured: Sequence[Measured],
    here: str,
    published: Mapping[str, Sequence[Result]],
) -> Grades:
    """Compare submissions with one another, with the runs `measured` on this device, and sum up.

    `published` are the results of recorded datasets, by the name under which they are reported.
    """
    owns = {own.submission.name: own for own in checked}
    # Imported after the submissions' processes were forked, which need no copy of NumPy and SciPy.
    from flashlab_grading.copies import copies_between

    results = {name: own.submission.results for name, own in owns.items()}
    unsuspected = {}
    for name, own in owns.items():
        suspicious = {
            line.file
            for line in own.lines
            if line.verdict == "fail" or (line.verdict, line.check) == ("warn", "plausibility")
        }
        unsuspected[name] = [p for p in own.points if p.result.name not in suspicious]
    for line in (*class_outliers(unsuspected), *copies_between(results, published)):
        owns[line.submission].lines.append(line)
    for name, own in owns.items():
        again = check_reproduction(own.sound, measured, here)
        own.lines.extend(replace(line, submission=name) for line in again)
        own.lines.sort(key=lambda line: (line.file, CHECKS.index(line.check)))
    return Grades(
        tuple(line for own in owns.values() for line in own.lines),
        tuple(_summary(own) for own in owns.values()),
    )
