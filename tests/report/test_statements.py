"""How many figures paper has of thousands of runs, and what a statement rests on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from report.reading import en

from flashlab.analysis.finding import read_findings
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.report import data
from flashlab.report.evidence import statement_lines
from flashlab.telling.teller import Teller


def test_of_thousands_of_runs_each_section_has_one_figure_on_paper(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_RUNS", 0)
    chapters = results.compose().chapters
    printed = [en(figure.label) for chapter in chapters for figure in chapter.figures]
    assert printed == [f"Figure {n}" for n in range(1, len(chapters) + 1)]


def test_each_statement_is_printed_above_the_rows_that_it_rests_on(results: Any) -> None:
    findings = read_findings(results.local / "findings.json")
    lines = list(statement_lines(findings, Teller("en", ATTENTION)))
    conclusion, quoted, row, *_ = lines
    assert conclusion.startswith("[all: conclusion")
    assert quoted.startswith("  [all: choice")
    found = json.loads(row)
    choice = next(f for f in findings if f.kind == "choice" and f.experiment is None)
    assert found == choice.estimates[0]
    assert {"setting", "forward_backward_time"} <= found.keys()
    assert {"estimate", "low", "high"} <= found["forward_backward_time"].keys()
    told = [finding for finding in findings if finding.statements]
    assert sum(line.startswith("[") for line in lines) == len(told)
