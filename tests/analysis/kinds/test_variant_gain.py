from __future__ import annotations

import pytest
from analysis.deriving import Plant, quoted, the_one

from flashlab.analysis.kinds.variant_gain import VARIANT_GAIN


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((2.0, 2.02), "as_operations"),
        ((1.1, 1.8), "below"),
        ((2.3, 2.5), "above"),
        ((1.5, 2.5), "mixed"),
    ],
)
def test_the_gain_of_a_mask_is_compared_with_half_the_operations_across_experiments(
    experiment: Plant, gains: tuple[float, float], verdict: str
) -> None:
    masked = [time / gain for time, gain in zip((1, 2), gains, strict=True)]
    experiments = experiment({"A": (1, 2)}, "full"), experiment({("A", True): masked}, "causal")
    found = the_one(VARIANT_GAIN, *experiments)
    assert (found.verdict, found.facts) == (verdict, {"ideal": 2, "count": 2})
    told = quoted(found)
    assert (told["low"], told["high"]) == pytest.approx(gains, rel=0.03)
    assert [setting.values for setting in told["low_where"].items] == [(128,)]
