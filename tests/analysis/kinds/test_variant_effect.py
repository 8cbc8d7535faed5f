from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived, excluded_run, the_one

from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT


@pytest.mark.parametrize(
    ("gain", "verdict"), [(1.9, "better"), (1.0, "equivalent"), (0.7, "worse")]
)
def test_what_causal_masking_does_to_time(sweep: Plant, gain: float, verdict: str) -> None:
    times = (1, 2, 4, 8)
    masked = [time / gain for time in times]
    found = the_one(VARIANT_EFFECT, sweep({"Flash2": times, ("Flash2", True): masked}))
    assert (found.verdict, found.subject["switched"]) == (verdict, "causal")
    assert found.facts["low"] == pytest.approx(gain, rel=0.02)


def test_one_mask_alone_shows_no_effect(sweep: Plant) -> None:
    assert derived(VARIANT_EFFECT, sweep({"Pytorch": [2], "Flash2": [1]})) == []


def test_a_run_that_failed_with_the_variant_is_named(sweep: Plant) -> None:
    found = the_one(VARIANT_EFFECT, sweep({"Flash2": (1, 2), ("Flash2", True): ("oom", 1)}))
    assert (found.verdict, found.facts["count"]) == ("better", 1)
    assert found.reasons == [excluded_run("Flash2", 128, "oom", causal=True)]
