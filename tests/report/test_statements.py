"""What to know about a finding, and the numbers of the figures that show it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from flashlab.analysis.finding import read_findings
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.report import statements
from flashlab.report.evidence import statement_lines
from flashlab.report.statements import number_figures
from flashlab.telling.teller import Teller

# The numbers of the figures: none is missing on paper, whatever the HTML page has besides


def experiment(name: str, *figures: str, supplements: tuple[str, ...] = ()) -> Any:
    declared = [(figure, False) for figure in figures] + [(s, True) for s in supplements]
    plan = {"figures": [{"id": each, "supplement": extra} for each, extra in declared]}
    return SimpleNamespace(name=name, plan=plan, has_alternatives=False)


@pytest.fixture(autouse=True)
def every_experiment_is_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        statements, "sections_of", lambda experiments: [[each] for each in experiments]
    )


def data(*experiments: Any, implementations: str, runs: int = 4) -> Any:
    return SimpleNamespace(
        experiments=experiments,
        implementations=set(implementations),
        headline={"A", "B"},
        runs=range(runs),
    )


EXPERIMENTS = (
    experiment("size", "time", "memory", "rate"),
    experiment("batch", "time", supplements=("rate",)),
)


def test_figures_of_the_headlines_implementations_are_numbered_in_order() -> None:
    numbers = number_figures(data(*EXPERIMENTS, implementations="AB"))
    assert list(numbers.items()) == [
        *((("size", name), str(n)) for n, name in enumerate(("time", "memory", "rate"), start=1)),
        *((("batch", "time"), "4"), (("batch", "rate"), "S1")),
    ]


def test_what_only_the_page_has_is_numbered_among_the_supplements() -> None:
    numbers = number_figures(data(*EXPERIMENTS, implementations="ABC"))
    assert [numbers["size", name] for name in ("time", "memory", "rate")] == ["1", "2", "S2"]
    assert [numbers["batch", name] for name in ("time", "rate")] == ["3", "S1"]


def test_of_thousands_of_runs_each_section_has_one_figure_on_paper() -> None:
    one = experiment("size", "time", "memory")
    numbers = number_figures(data(one, implementations="AB", runs=statements.MOST_RUNS + 1))
    assert numbers == {("size", "time"): "1", ("size", "memory"): "S1"}


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
