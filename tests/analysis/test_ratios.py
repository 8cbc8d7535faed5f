"""The margin that judges ratios."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis import ratios
from flashlab.analysis.ratios import Ratio

factors = st.floats(0.8, 1.25) | st.sampled_from([1.05, 1 / 1.05, 1.0])


@pytest.mark.parametrize(
    ("verdict", "ends"),
    [
        ("above", [(1.06, 2.0), (1.0501, 2.0)]),
        ("below", [(0.5, 0.94), (0.5, 1 / 1.0501)]),
        ("equal", [(0.96, 1.04), (1 / 1.05, 1.05)]),
        ("inconclusive", [(0.95, 1.05), (1.04, 1.5), (0.5, 1.5), (None, None)]),
    ],
)
def test_a_ratio_counts_only_where_its_interval_lies_beyond_the_margin(
    verdict: str, ends: list[tuple[float | None, float | None]]
) -> None:
    assert {Ratio(128, 1.0, low, high, 30).verdict for low, high in ends} == {verdict}


@given(factors, factors, factors)
def test_the_inverse_of_a_ratio_has_the_opposite_verdict(a: float, b: float, c: float) -> None:
    low, estimate, high = sorted((a, b, c))
    found = Ratio(128, estimate, low, high, 30).verdict
    inverse = Ratio(128, 1 / estimate, 1 / high, 1 / low, 30).verdict
    assert inverse == {"above": "below", "below": "above"}.get(found, found)


def test_no_module_of_the_analysis_holds_a_margin_of_its_own() -> None:
    """But `replication` has levels of its tests, which happen to be the same number."""
    for path in Path(ratios.__file__).parent.glob("[!r]*.py"):
        code = path.read_text(encoding="utf-8").replace("95%", "")
        assert not [each for each in ("0.05", "1.05", "5%") if each in code], path
