from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.kinds.jump import JUMP

SIZES = (128, 256, 512, 1024)


def after(factor: float) -> dict[int, tuple[float, float]]:
    """Times of one rate up to N = 256, and of one that is `factor` times as high beyond it."""
    return {n: (t := n**2 / 1e4 / (factor if n > 256 else 1), 2 * t) for n in SIZES}


@pytest.mark.parametrize(
    ("one", "other", "verdicts"),
    [
        (2.0, 1.0, {"rises", "none"}),
        (0.5, 1.0, {"falls", "none"}),
        (2.0, 2.0, {"none"}),
        # Identical code, each run off by up to 1%, on both sides of the limit of 1.5.
        (1.53, 1.47, {"none"}),
        (0.654, 0.68, {"none"}),
        (1.56, 1.44, {"rises", "none"}),
    ],
)
def test_a_jump_is_off_all_others_by_more_than_the_margin(
    experiment: Plant, one: float, other: float, verdicts: set[str]
) -> None:
    found = derived(JUMP, experiment({"Flash2": after(one), "Flex": after(other)}))
    assert {finding.verdict for finding in found} == verdicts
    assert {f.subject.get("implementation") for f in found if f.verdict != "none"} <= {"Flash2"}
