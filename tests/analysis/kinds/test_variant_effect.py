from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived, the_one

from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT


@pytest.mark.parametrize(
    ("gain", "verdict"), [(1.9, "better"), (1.0, "equivalent"), (0.7, "worse")]
)
def test_what_causal_masking_does_to_time(experiment: Plant, gain: float, verdict: str) -> None:
    times = (1, 2, 4, 8)
    masked = [time / gain for time in times]
    found = the_one(VARIANT_EFFECT, experiment({"Flash2": times, ("Flash2", True): masked}))
    assert (found.verdict, found.subject["switched"]) == (verdict, "causal")
    assert found.facts["low"] == pytest.approx(gain, rel=0.02)


def test_one_mask_alone_shows_no_effect(experiment: Plant) -> None:
    assert derived(VARIANT_EFFECT, experiment({"Pytorch": [2], "Flash2": [1]})) == []
