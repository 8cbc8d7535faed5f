"""Every statement of a report with the numbers that it rests on, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.analysis.finding import Finding, read_findings
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, read_json
from flashlab.telling.teller import Teller
from flashlab.telling.values import in_turn


def print_statements(results: Path, language: str) -> None:
    """Print the statements of a dataset's findings, those of page one first."""
    benchmark = find_benchmark(read_json(results / "plan" / "config.json")["benchmark"])
    for line in statement_lines(
        read_findings(results / "findings.json"), Teller(language, benchmark)
    ):
        print(line)


def statement_lines(findings: Sequence[Finding], teller: Teller) -> Iterator[str]:
    """A line for what each finding tells, and below it an indented one for each row behind it.

    A conclusion rests on the rows of the findings that it quotes.
    """
    every = {_identity(finding.to_json()): finding for finding in findings}
    told = [finding for finding in findings if finding.statements]
    for finding in sorted(
        told, key=lambda f: (f.kind != "conclusion", f.rank is None, f.rank or 0)
    ):
        yield f"{_name(finding)}: {teller.tell(in_turn(finding.statements))}"
        if finding.kind != "conclusion":
            yield from _rows(finding, "  ")
            continue
        for quoted in dict.fromkeys(map(_identity, finding.estimates)):
            yield f"  {_name(every[quoted])}"
            yield from _rows(every[quoted], "    ")


def _identity(document: Mapping[str, Any]) -> str:
    """What a conclusion names of a finding that it quotes."""
    return canonical({key: document.get(key) for key in ("kind", "experiment", "subject")})


def _name(finding: Finding) -> str:
    subject = canonical(finding.subject)
    return f"[{finding.experiment or 'all'}: {finding.kind} {subject}, {finding.verdict}]"


def _rows(finding: Finding, indent: str) -> Iterator[str]:
    """The settings, ratios and intervals of a finding; its facts where it has none."""
    rows = finding.estimates or [finding.to_json()["facts"]]
    return (f"{indent}{canonical(row)}" for row in rows if row)
