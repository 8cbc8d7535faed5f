"""What to know about a finding, and the numbers of the figures that show it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from flashlab.analysis.finding import Reason, read_findings
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.report import statements
from flashlab.report.evidence import statement_lines
from flashlab.report.statements import MOST_NAMED, number_figures, told_reasons
from flashlab.telling.teller import Teller

RUN = {"implementation": "Pytorch", "causal": False, "seq_len": 512}
WHOLE = {**RUN, "batch_size": 16, "num_heads": 32, "emb_dim": 2048}
ON_CUDA = {**WHOLE, "dtype": "float16", "device": "cuda"}


@pytest.mark.parametrize(
    ("reasons", "en", "zh_tw"),
    [
        ([Reason("excluded", RUN, "oom")],
         ["Pytorch [N = 512, full] (out of memory)"], "Pytorch [N = 512、無遮罩]（記憶體不足）"),
        ([Reason("missing", ON_CUDA)],
         ["Pytorch [B = 16, N = 512, H = 32, E = 2048, full, float16, cuda]"], "float16、cuda]"),
        # What is about no run comes first; a run of each code in an order of its own.
        ([Reason("missing", RUN), Reason("excluded", RUN, "error"), Reason("no_samples")],
         ["without samples", "(error)", "no record of"], ""),
        # Of many, some are named and the others counted.
        ([Reason("excluded", {**RUN, "seq_len": n}, "oom") for n in range(MOST_NAMED + 12)],
         ["[N = 0, full]", f"[N = {MOST_NAMED - 1}, full]", "and 12 more"], "12"),
        ([Reason("missing", {**RUN, "seq_len": n}) for n in range(MOST_NAMED + 12)],
         ["[N = 0, full]", "and 12 more"], "12"),
    ],
)  # fmt: skip
def test_what_a_verdict_lacks_is_told(reasons: list[Reason], en: list[str], zh_tw: str) -> None:
    told = told_reasons(ATTENTION, reasons)
    text, chinese = (
        " ".join(map(Teller(language, ATTENTION).tell, told)) for language in ("en", "zh_TW")
    )
    places = [text.index(said) for said in en]
    assert places == sorted(places)
    assert zh_tw in chinese
    assert text.count("Pytorch [N") <= MOST_NAMED


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


def data(*experiments: Any, implementations: str) -> Any:
    return SimpleNamespace(
        experiments=experiments, implementations=set(implementations), headline={"A", "B"}
    )


def test_figures_of_the_headlines_implementations_are_numbered_in_order() -> None:
    experiments = (
        experiment("size", "time", "memory", "rate"),
        experiment("batch", "time", supplements=("rate",)),
    )
    numbers = number_figures(data(*experiments, implementations="AB"))
    assert list(numbers.items()) == [
        *((("size", name), str(n)) for n, name in enumerate(("time", "memory", "rate"), start=1)),
        *((("batch", "time"), "4"), (("batch", "rate"), "S1")),
    ]


def test_what_only_the_page_has_is_numbered_among_the_supplements() -> None:
    experiments = (
        experiment("size", "time", "memory", "rate"),
        experiment("batch", "time", supplements=("rate",)),
    )
    numbers = number_figures(data(*experiments, implementations="ABC"))
    assert [numbers["size", name] for name in ("time", "memory", "rate")] == ["1", "2", "S2"]
    assert [numbers["batch", name] for name in ("time", "rate")] == ["3", "S1"]


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
