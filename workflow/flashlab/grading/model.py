"""Grades as data: a line for each check of a file, with its verdict and its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from flashlab.records import Shape

CHECKS = (
    *("form", "arithmetic", "identity", "physics", "plausibility", "coverage", "copies"),
    "reproduction",
)
Verdict = Literal["pass", "warn", "fail", "not_checked"]
VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "pass", "not_checked")
"""From the worst to the least; the first that any line has is a whole check's verdict."""

BADGES = ("available", "functional", "reproduced")
"""In the sense of the ACM's artifact badges: results available, functional, reproduced."""


class GradingError(Exception):
    """Grading that cannot be done at all: no folder of submissions, an order that is unsound."""


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission where `file` is empty.

    `code` is the message's key in the catalogs (domain ``grades``), `params` what is set into it.
    Names in `file` and `params` are as the submission has them: whoever shows them escapes them.
    """

    submission: str
    file: str
    check: str
    verdict: Verdict
    code: str
    params: Mapping[str, str] = field(default_factory=dict)
    expected: str = ""
    found: str = ""


@dataclass(frozen=True)
class Numbers:
    """The seven numbers of the course's JSON: seconds, TFLOP/s, and MiB (1024² bytes)."""

    seconds: Mapping[str, float]
    rates: Mapping[str, float]
    peak_mib: float

    @property
    def forward_flops(self) -> float:
        """Operations of the forward pass: its rate times its time."""
        return self.rates["forward"] * self.seconds["forward"] * 1e12


@dataclass(frozen=True)
class Declaration:
    """What a file is said to be, as far as it is said; None for what is not.

    `source` is ``runs.csv``, ``record`` or ``name``. `gpu` is False where the run is said to be
    one of a CPU or of another number format than float16.
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

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None where a part of it is not said."""
        b, n, h, e, causal = (
            *(self.batch_size, self.seq_len, self.num_heads, self.emb_dim),
            self.causal,
        )
        if b is None or n is None or h is None or e is None or causal is None:
            return None
        return Shape(b, n, h, e, causal)

    @property
    def says_something(self) -> bool:
        """Whether anything is said of the run itself."""
        said = (self.implementation, self.batch_size, self.seq_len, self.num_heads, self.emb_dim)
        return any(part is not None for part in (*said, self.causal))

    def said(self) -> str:
        """The declaration in one line: ``Flash2 B16 N1024 H32 E2048 full``."""
        parts = [self.implementation or ""]
        for symbol, value in zip(
            "BNHE", (self.batch_size, self.seq_len, self.num_heads, self.emb_dim), strict=True
        ):
            parts.append("" if value is None else f"{symbol}{value}")
        if self.causal is not None:
            parts.append("causal" if self.causal else "full")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Result:
    """One result file of a submission that has sound form, and what it is said to be.

    `recorded` is what a ``record`` block claims, `samples` the seconds it holds for each pass,
    and `declared_again` the further rows that ``runs.csv`` has for the file.
    """

    name: str
    numbers: Numbers
    declaration: Declaration
    recorded: Declaration | None = None
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    declared_again: tuple[Declaration, ...] = ()


@dataclass(frozen=True)
class Submission:
    """One subfolder: its results, and the lines that reading it gave."""

    name: str
    results: tuple[Result, ...]
    lines: tuple[Line, ...]
    device_name: str | None = None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole check: fail before warn before pass before not_checked."""
    found = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in found), "not_checked")
