"""Findings as plain rows: what is decided about what, and by which estimate.

A row is a statement, ``experiment | subject | verdict | estimate``, in alphabetical order. Each
finding that has sentences or is of the whole dataset has one; one that is told also has one for
each place in its evidence with an estimate of its own, to three digits. Further rows count how
often each verdict was reached, told or not. Sentences may change without a change here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flashlab.analysis.finding import Finding
from flashlab.files import canonical

NOT_A_PLACE = frozenset(
    {"verdict", "estimate", "exponent", "n", "pairs", "bytes_counted", "message"}
)
"""What an entry of the evidence says in text or whole numbers, other than what it is about."""


def _words(subject: Mapping[str, Any]) -> str:
    """What something is about, in words; nested entries as ``name=value``."""
    return " ".join(
        _pairs(value) if isinstance(value, Mapping) else str(value) for value in subject.values()
    ).strip()


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={canonical(value)}" for name, value in values.items())


def _estimates(entry: Mapping[str, Any], about: str = "") -> Iterator[tuple[str, str, str]]:
    """The place, the verdict and the estimate in an entry of the evidence, and in what is in it."""
    place = {
        name: value
        for name, value in entry.items()
        if name not in NOT_A_PLACE and (isinstance(value, str | int) or name == "setting")
    }
    words = f"{about} {_words(place)}".strip()
    estimate = entry.get("estimate", entry.get("exponent"))
    if estimate is not None:
        digits = estimate if isinstance(estimate, str) else f"{estimate:.3g}"
        yield words, entry.get("verdict", ""), digits
    for name, inner in entry.items():
        if isinstance(inner, Mapping) and name != "setting":
            yield from _estimates(inner, f"{words} {name}")


def rows_of(finding: Finding, experiment: str, with_places: bool) -> Iterator[str]:
    """The rows of a finding, in the experiment of that name."""
    about = f"{experiment} | {finding.kind} {_words(finding.subject)}".strip()
    yield f"{about} | {finding.verdict} |"
    for entry in finding.estimates if with_places else ():
        for words, verdict, estimate in _estimates(entry):
            yield f"{about}, {words} | {verdict} | {estimate}"


def verdicts_of(findings: Iterable[Finding]) -> str:
    """All rows of a dataset's findings."""
    rows: list[str] = []
    counts: Counter[str] = Counter()
    for finding in findings:
        experiment = finding.experiment or "all"
        counts[f"{experiment} | {finding.kind} | {finding.verdict}"] += 1
        if finding.statements or finding.experiment is None:
            is_told = finding.told or finding.rank is not None
            rows += rows_of(finding, experiment, with_places=is_told)
    return in_order([*rows, *(f"{about} | {count} in all" for about, count in counts.items())])


def in_order(rows: Iterable[str]) -> str:
    """Rows as a text: in alphabetical order, each once."""
    return "".join(f"{row}\n" for row in sorted(set(rows)))
