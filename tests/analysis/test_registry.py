"""What every kind declares, and the form of findings that follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import VALID, Plant, the_one

from flashlab.analysis.kind import Kind
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.registry import KINDS
from flashlab.telling.codes import VERDICTS
from flashlab.telling.teller import Teller


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_a_kind_and_its_verdicts_have_names(kind: Kind, language: str) -> None:
    teller = Teller(language)
    assert teller.text(kind.label)
    unnamed = set(kind.verdicts) - VERDICTS.keys()
    assert not unnamed, f"name {unnamed} in telling/codes.py (VERDICTS) and in both report.po"
    assert all(teller.text(VERDICTS[verdict]) for verdict in kind.verdicts)
    assert set(kind.alarming) <= set(kind.verdicts) and len(set(kind.verdicts)) >= 2
    assert (kind.told == "briefly") == (kind.strength is not None)
    assert kind.of_experiment or kind.of_dataset


@pytest.mark.parametrize(
    "wrong",
    [
        *({"verdict": "good"}, {"kind": "opinion"}, {"estimates": {}}, {"verdict": "crosses"}),
        *({"reasons": ["no_samples"]}, {"rank": -1}, {"told": None}, {"params": {}}),
        *({"statements": [{"is": "Label", "key": "x"}]}, {"statements": [{"key": "x"}]}),
        {"statements": [{"is": "Statement", "key": "x", "values": {"low": {"is": "Guess"}}}]},
    ],
    ids=str,
)
def test_what_is_no_finding_is_refused(experiment: Plant, wrong: dict[str, Any]) -> None:
    found = the_one(COMPARISON, experiment({"Pytorch": [2], "Flash2": [1]})).to_json()
    assert VALID.is_valid([found])
    assert not VALID.is_valid([{**found, **wrong}])
