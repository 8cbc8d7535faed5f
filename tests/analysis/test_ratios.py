"""The margin that judges ratios."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis import ratios, replication
from flashlab.analysis.ratios import Ratio
from flashlab.statistics import MARGIN


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.06, 2.0, "above"),
        (1.0501, 2.0, "above"),
        (0.5, 0.94, "below"),
        (0.5, 1 / 1.0501, "below"),
        (0.96, 1.04, "equal"),
        (1 / 1.05, 1.05, "equal"),
        (0.95, 1.05, "inconclusive"),
        (1.04, 1.5, "inconclusive"),
        (0.5, 1.5, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_a_ratio_counts_only_where_its_interval_lies_beyond_the_margin(
    low: float | None, high: float | None, verdict: str
) -> None:
    assert Ratio(128, 1.0, low, high, 30).verdict == verdict


OPPOSITE = {"above": "below", "below": "above"}
factors = st.floats(0.8, 1.25) | st.sampled_from([1.05, 1 / 1.05, 1.0])


@given(factors, factors, factors)
def test_the_inverse_of_a_ratio_has_the_opposite_verdict(a: float, b: float, c: float) -> None:
    low, estimate, high = sorted((a, b, c))
    found = Ratio(128, estimate, low, high, 30)
    inverse = Ratio(128, 1 / estimate, 1 / high, 1 / low, 30)
    assert inverse.verdict == OPPOSITE.get(found.verdict, found.verdict)


def test_the_margin_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Ratio(128, 1.2, 1.1, 1.3, 30)
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.4)
    assert found.verdict == "equal"


def test_no_module_of_the_analysis_holds_a_margin_of_its_own() -> None:
    """But `replication` has levels of its tests, which happen to be the same number."""
    sources = set(Path(ratios.__file__).parent.rglob("*.py"))
    assert len(sources) > 15
    for path in sources - {Path(replication.__file__)}:
        code = path.read_text(encoding="utf-8")
        held = [number for number in (str(MARGIN), str(1 + MARGIN)) if number in code]
        assert not held and "5%" not in code.replace("95%", ""), path
