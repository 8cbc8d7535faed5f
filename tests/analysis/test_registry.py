"""What every kind declares."""

from __future__ import annotations

import pytest

from flashlab.analysis.kind import Kind
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
