"""What grading finds, as data: a line for each check of a file, with its verdict and reason."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import Claim, CourseResult, Numbers

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
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "ask")
"""How sure an accusation is; `ask` accuses of nothing."""

LIKELY = (
    "copies.likely",
    "identity.cuda_memory",
    "identity.workspace_of_another",
    "identity.workspace",
    "physics.capability",
    "plausibility.identical",
    "plausibility.even",
    "plausibility.one_noise",
)
"""Codes of what is no proof, but has few innocent reasons."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

ATTRIBUTES = ("implementation", "batch_size", "seq_len", "num_heads", "emb_dim", "causal")

BADGES = ("available", "functional", "reproduced")
"""In the sense of the ACM's artifact badges: results available, functional, reproduced."""


class GradingError(Exception):
    """Grading is impossible: there are no submissions, or the order is unsound."""


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission if `file` is empty.

    `code` is the key of its message in the catalogs (`wording`) and begins with its check, `params`
    are that message's parameters. Names in `file` and `params` are verbatim: whoever shows them
    escapes them. What checks a submission alone leaves its name to `grade`.
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
        """Which of `CHECKS` it belongs to."""
        return self.code.partition(".")[0]

    @property
    def confidence(self) -> Confidence:
        """How sure its accusation is."""
        if self.code in LIKELY:
            return "likely"
        return "certain" if self.verdict == "fail" else "ask"

    @property
    def is_note(self) -> bool:
        """Whether a reader should know of it: it passed in an unusual form, or nobody can check."""
        passed = self.verdict == "pass" and not self.code.startswith(f"{self.check}.pass")
        return passed or self.code == "reproduction.unknown"


@dataclass(frozen=True)
class Declaration:
    """What a file is declared to be; None for what is not declared.

    `source` is ``runs.csv``, ``record`` or ``name``; `gpu` is False if the run is declared to be
    on a CPU, or in another number format than float16. `hinted` names the attributes that only
    the file's name seems to state; the numbers overrule them.
    """

    source: str
    implementation: str | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    num_heads: int | None = None
    emb_dim: int | None = None
    causal: bool | None = None
    device_name: str | None = None
    gpu: bool = True
    hinted: frozenset[str] = frozenset()

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None if a part of it is not declared."""
        sizes = [getattr(self, name) for name in ATTRIBUTES[1:]]
        return None if None in sizes else Shape(*sizes)

    @property
    def run(self) -> tuple[str, Shape] | None:
        """Implementation and shape, None if they are not fully declared."""
        shape = self.shape
        return (
            None if shape is None or self.implementation is None else (self.implementation, shape)
        )

    @property
    def stated(self) -> dict[str, Any]:
        """What is declared about the run itself, by attribute."""
        values = ((name, getattr(self, name)) for name in ATTRIBUTES)
        return {name: value for name, value in values if value is not None}

    def without(self, attributes: Iterable[str]) -> Declaration:
        """The declaration without some of its hints."""
        gone: dict[str, Any] = dict.fromkeys(attributes)
        return replace(self, **gone, hinted=self.hinted - gone.keys())

    def completed_by(self, other: Declaration) -> Declaration:
        """The declaration, with what it leaves out taken from another."""
        missing: dict[str, Any] = {k: v for k, v in other.stated.items() if k not in self.stated}
        return replace(self, **missing, hinted=self.hinted | (other.hinted & missing.keys()))

    def contradicts(self, other: Declaration) -> bool:
        """Whether the two state different values of an attribute."""
        mine, theirs = self.stated, other.stated
        return any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())

    def describe(self) -> str:
        """The declaration in one line: ``Flash2 B16 N1024 H32 E2048 full``."""
        sizes = (self.batch_size, self.seq_len, self.num_heads, self.emb_dim)
        parts = [f"{symbol}{size}" for symbol, size in zip("BNHE", sizes, strict=True) if size]
        mask = {True: "causal", False: "full", None: ""}[self.causal]
        return " ".join(filter(None, (self.implementation, *parts, mask)))


@dataclass(frozen=True)
class Result:
    """One well-formed result file of a submission, and what it is declared to be.

    `recorded` is what a ``record`` block claims of the run, `claim` the block itself, and
    `declared_again` are the further rows of ``runs.csv`` for the file. `is_sampled` and
    `fingerprint` stand for the samples of each call, of which there may be many; the fingerprint is
    empty where there are too few different ones to tell records apart.
    """

    name: str
    numbers: Numbers
    declaration: Declaration
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
        return cls(
            *(name, read.numbers, declaration),
            claim=read.claim,
            is_sampled=any(samples),
            fingerprint=digest,
            **more,
        )


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
