"""The margin that judges ratios, and the trend of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from planted.experiments import SIZES

from flashlab.analysis import ratios, replication
from flashlab.analysis.kinds.comparison import trend_of
from flashlab.analysis.ratios import Ratio, printed_ratio, rounded, rounded_off_margin
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.statistics import MARGIN
from flashlab.telling.teller import Teller


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
    assert (inverse.may_be_above, inverse.may_be_below) == (found.may_be_below, found.may_be_above)


@given(factors)
def test_a_printed_ratio_is_on_the_side_of_the_margin_that_decided(ratio: float) -> None:
    assume(ratio in (1.05, 1 / 1.05) or abs(abs(math.log(ratio)) - math.log(1.05)) > 1e-6)
    printed = rounded_off_margin(ratio)
    assert printed == pytest.approx(ratio, rel=5e-3)
    assert (printed > 1.05) == (ratio > 1.05)
    assert (printed < rounded(1 / 1.05, 9)) == (ratio < 1 / 1.05)


@pytest.mark.parametrize(
    ("ratio", "printed"), [(1.0512, 1.051), (1.0488, 1.049), (1.0573, 1.06), (0.9521, 0.952)]
)
def test_more_digits_are_printed_beside_the_margin_alone(ratio: float, printed: float) -> None:
    assert rounded_off_margin(ratio) == printed


def along(factors: Sequence[float]) -> list[Ratio]:
    """Ratios that are known to within half a percent."""
    return [
        Ratio(size, factor, factor / 1.005, factor * 1.005, 30)
        for size, factor in zip(SIZES, factors, strict=True)
    ]


@pytest.mark.parametrize(
    ("factors", "trend"),
    [
        ((2.0, 2.0, 2.2, 2.3), "widens"),
        ((2.0, 1.9, 1.8, 1.7), "narrows"),
        ((2.0, 2.1, 2.1, 2.15), "none"),  # beyond one margin, not beyond that of four medians
        ((2.0, 2.6, 2.3, 1.7), "peaks"),
        ((1.5, 2.6, 2.2, 2.0), "peaks"),
        ((2.0, 1.5, 1.6, 2.3), "dips"),
        ((2.0, 2.5, 2.0, 2.5), "none"),
    ],
)
def test_a_trend_is_stated_where_the_ratio_goes_one_way_else_its_extremum(
    factors: tuple[float, ...], trend: str
) -> None:
    assert trend_of(along(factors)) == trend


def test_the_margin_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    found, widening = Ratio(128, 1.2, 1.1, 1.3, 30), along((2.0, 2.0, 2.2, 2.3))
    monkeypatch.setattr("flashlab.statistics.MARGIN", 0.4)
    assert (found.verdict, found.may_be_above) == ("equal", False)
    assert trend_of(widening) == "none"


def test_no_module_of_the_analysis_holds_a_margin_of_its_own() -> None:
    """But `replication` has levels of its tests, which happen to be the same number."""
    sources = set(Path(ratios.__file__).parent.rglob("*.py"))
    assert len(sources) > 40
    for path in sources - {Path(replication.__file__)}:
        code = path.read_text(encoding="utf-8")
        held = [number for number in (str(MARGIN), str(1 + MARGIN)) if number in code]
        assert not held and "5%" not in code.replace("95%", ""), path


@pytest.mark.parametrize(
    ("ratio", "low", "high", "printed"),
    [
        (4.603, 4.11, 5.15, "4.6"),
        (4.603, 4.598, 4.608, "4.60"),
        (4.603, None, None, "4.60"),
        (0.996, 0.95, 1.04, "1.0"),
        (1.0496, 1.049, 1.0502, "1.0496"),  # neither on the margin nor across it
        (1.07, 1.051, 1.09, "1.1"),
        (629.4, 500.0, 800.0, "629"),
    ],
)
def test_a_ratio_is_printed_with_the_digits_that_its_interval_supports(
    ratio: float, low: float | None, high: float | None, printed: str
) -> None:
    found = printed_ratio(Ratio(0, ratio, low, high, 100))
    assert Teller("en", ATTENTION).tell(found) == printed
