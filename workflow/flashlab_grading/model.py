"""Findings of grading as data: a line for each check of a file, with its verdict and reason."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flashlab.course.declaration import Declaration, DeclaredFile
from flashlab.course.results import Claim, CourseResult

CHECKS = (
    *("form", "arithmetic", "identity", "physics", "plausibility", "coverage", "copies"),
    "reproduction",
)
PASSES = ("forward", "backward")
"""The passes that are timed; the third time is their sum."""

LAUNCH_SECONDS = 0.3e-3
"""Shorter times are mostly kernel launches: they have no order, and vary between sessions."""

Samples = Mapping[str, tuple[float, ...]]
Verdict = Literal["pass", "warn", "fail", "not_checked"]
VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "not_checked", "pass")
"""From the worst on; a whole check's verdict is the worst of its lines. What was not checked has
not passed, so it outweighs a pass."""

Confidence = Literal["certain", "likely", "ask"]
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "ask")  # which accuses of nothing

LIKELY = (
    "copies.likely",
    "identity.cuda_memory",
    "identity.workspace_of_another",
    "identity.workspace",
    "plausibility.identical",
    "plausibility.one_noise",
)
"""Codes of what is no proof, but has few innocent reasons."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

BADGES = ("available", "functional", "reproduced")  # in the sense of the ACM's


class GradingError(Exception):
    """Grading is impossible."""


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission if `file` is empty.

    `code` is the key of its message in the labels and begins with its check, `params` are that
    message's parameters. Names are verbatim: they are escaped where they are shown.
    """

    verdict: Verdict
    code: str
    file: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    expected: str = ""
    found: str = ""
    submission: str = ""

    @property
    def check(self) -> str:
        """The one of `CHECKS` that it belongs to."""
        return self.code.partition(".")[0]

    @property
    def confidence(self) -> Confidence:
        """The certainty of its accusation."""
        if self.code in LIKELY:
            return "likely"
        return "certain" if self.verdict == "fail" else "ask"

    @property
    def is_note(self) -> bool:
        """True for what passed in an unusual form, of which a reader should know."""
        return self.verdict == "pass" and not self.code.startswith(f"{self.check}.pass")


@dataclass(frozen=True)
class Result(DeclaredFile):
    """One well-formed result file of a submission, and what it is declared to be.

    `recorded` is what a ``record`` block claims of the run, `claim` the block itself, and
    `declared_again` are the further rows of ``runs.csv`` for the file. The `fingerprint` of its
    samples is empty where there are too few different ones to tell records apart.
    """

    recorded: Declaration | None = None
    declared_again: tuple[Declaration, ...] = ()
    claim: Claim | None = None
    is_sampled: bool = False
    fingerprint: str = ""

    @classmethod
    def of(cls, name: str, read: CourseResult, declaration: Declaration, **more: Any) -> Result:
        """The result that was read from a file."""
        samples = read.samples.values()
        telling = samples and all(len(set(values)) >= TELLING for values in samples)
        digest = hashlib.sha256(repr([*samples]).encode()).hexdigest() if telling else ""
        more |= {"claim": read.claim, "is_sampled": any(samples), "fingerprint": digest}
        return cls(name, read.numbers, declaration, **more)


@dataclass(frozen=True)
class Submission:
    """One subfolder: its results, and the lines from reading it.

    `samples` are the seconds of each call of a record, by file and pass.
    """

    name: str
    results: tuple[Result, ...]
    lines: tuple[Line, ...]
    device_name: str | None = None
    samples: Mapping[str, Samples] = field(default_factory=dict)
