"""All checks over all submissions: from the order to the lines and the summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flashlab.grading.arithmetic import check_arithmetic
from flashlab.grading.copies import copies_between, copies_within
from flashlab.grading.coverage import check_coverage
from flashlab.grading.identity import Candidate, check_identity
from flashlab.grading.model import BADGES, CHECKS, Line, Result, Submission, Verdict, worst
from flashlab.grading.physics import check_physics
from flashlab.grading.plausibility import check_plausibility, class_outliers
from flashlab.grading.points import Point, settled_points
from flashlab.grading.reproduction import Measured, check_reproduction


@dataclass(frozen=True)
class Summary:
    """One submission in a row: the worst verdict of each check, counts, and badges."""

    submission: str
    device: str
    files: int
    verdicts: Mapping[str, Verdict]
    counts: Mapping[Verdict, int]
    badges: tuple[str, ...]


@dataclass(frozen=True)
class Grades:
    """Everything that grading found."""

    lines: tuple[Line, ...]
    summaries: tuple[Summary, ...]


@dataclass(frozen=True)
class _Own:
    """A submission's own checks, and what the class's checks need of it."""

    submission: Submission
    lines: list[Line]
    sound: list[Result]
    points: list[Point]

    @property
    def unsuspected(self) -> list[Point]:
        """The points that the submission's own do not speak against."""
        failed = {line.file for line in self.lines if line.verdict == "fail"}
        return [point for point in self.points if point.result.name not in failed]


def _own_checks(submission: Submission) -> _Own:
    """Everything that needs no other submission.

    What fails a check is left out of those after it, so that one fault is told once.
    """
    name = submission.name
    lines = list(submission.lines)
    arithmetic = {r.name: check_arithmetic(name, r) for r in submission.results}
    lines += arithmetic.values()
    computed = [r for r in submission.results if arithmetic[r.name].verdict == "pass"]
    for result in submission.results:
        if arithmetic[result.name].verdict != "pass":
            lines += [
                Line(name, result.name, check, "not_checked", "no_arithmetic")
                for check in ("identity", "physics")
            ]
    identified = check_identity(name, computed)
    lines += identified.lines
    false = {line.file for line in identified.lines if line.verdict == "fail"}
    no_candidates: tuple[Candidate, ...] = ()
    impossible = set()
    for result in computed:
        families = no_candidates if result.name in false else identified.candidates[result.name]
        line = check_physics(name, result, families)
        lines.append(line)
        if line.verdict == "fail":
            impossible.add(result.name)
    identifiable = [r for r in computed if r.name not in false]
    sound = [r for r in identifiable if r.name not in impossible]
    points = list(settled_points(sound, identified.candidates))
    lines += check_plausibility(name, points)
    lines += check_coverage(name, identifiable, identified.candidates)
    lines += copies_within(name, identifiable)
    return _Own(submission, lines, sound, points)


def _badges(verdicts: Mapping[str, Verdict], lines: Sequence[Line]) -> tuple[str, ...]:
    """Which badges a submission has earned; each stands on those before it.

    What was not checked has not passed, but for copies, which a submission alone cannot be.
    """

    def holds(check: str) -> bool:
        return verdicts[check] in ("pass", "warn")

    there = verdicts["form"] == "pass" and holds("coverage")
    sound = there and all(map(holds, ("arithmetic", "identity", "physics", "plausibility")))
    sound = sound and verdicts["copies"] != "fail"
    again = verdicts["reproduction"] == "pass" and any(
        line.code == "reproduction.pass" for line in lines
    )
    earned = (there, sound, sound and again)
    return tuple(badge for badge, has in zip(BADGES, earned, strict=True) if has)


def _summary(own: _Own) -> Summary:
    by_check: dict[str, list[Verdict]] = defaultdict(list)
    for line in own.lines:
        by_check[line.check].append(line.verdict)
    verdicts = {check: worst(by_check[check]) for check in CHECKS}
    return Summary(
        own.submission.name,
        own.submission.device_name or "",
        len(own.submission.results),
        verdicts,
        Counter(line.verdict for line in own.lines),
        _badges(verdicts, own.lines),
    )


def grade(
    submissions: Mapping[str, Submission], measured: Sequence[Measured] = (), here: str = ""
) -> Grades:
    """Every check over every submission.

    Args:
        submissions: what was read, by name.
        measured: the sample measured on this machine, empty where none was asked for.
        here: the name of this machine's device.
    """
    owns = {name: _own_checks(submission) for name, submission in submissions.items()}
    for line in class_outliers({name: own.unsuspected for name, own in owns.items()}):
        owns[line.submission].lines.append(line)
    for line in copies_between({name: own.submission.results for name, own in owns.items()}):
        owns[line.submission].lines.append(line)
    for name, own in owns.items():
        if not any(line.check == "copies" for line in own.lines):
            own.lines.append(Line(name, "", "copies", *_no_copies(len(submissions), own)))
        own.lines.extend(check_reproduction(name, own.sound, measured, here))
        own.lines.sort(key=lambda line: (line.file, CHECKS.index(line.check)))
    return Grades(
        tuple(line for own in owns.values() for line in own.lines),
        tuple(_summary(own) for own in owns.values()),
    )


def _no_copies(count: int, own: _Own) -> tuple[Verdict, str]:
    if count < 2 or not own.submission.results:
        return "not_checked", "copies.alone"
    return "pass", "copies.pass"
