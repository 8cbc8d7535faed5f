"""What to know about a finding, and the numbers of the figures that show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashlab.report import statements
from flashlab.report.statements import number_figures

RUN = {"implementation": "Pytorch", "causal": False, "seq_len": 512}
WHOLE = {**RUN, "batch_size": 16, "num_heads": 32, "emb_dim": 2048}
ON_CUDA = {**WHOLE, "dtype": "float16", "device": "cuda"}


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
