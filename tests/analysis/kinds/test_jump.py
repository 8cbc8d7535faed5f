from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived, quoted

from flashlab.analysis.kinds.jump import JUMP

CALM = (1, 1.1, 1.2, 1.3)
STEP = (1, 2, 2, 2)


def along(*rates: float) -> list[float]:
    """Times at which the operations, as N², give these rates."""
    return [4**i / rate for i, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rates", "jumps"),
    [
        ({"A": STEP, "B": CALM, "C": CALM}, [("A", "rises", 128, 256)]),
        ({"A": CALM, "B": (4, 4, 4, 2)}, [("B", "falls", 512, 1024)]),
        ({"A": STEP, "B": STEP, "C": CALM}, []),
        ({"A": (1, 1.4, 1.9, 2.5), "B": CALM}, []),
        ({"A": STEP}, []),  # there is none to compare it with
    ],
)
def test_a_rate_that_changes_for_one_implementation_alone_is_a_jump(
    experiment: Plant, rates: dict[str, Any], jumps: list[Any]
) -> None:
    found = derived(JUMP, experiment({name: along(*each) for name, each in rates.items()}))
    assert [
        (f.subject["implementation"], f.verdict, quoted(f)["before"], quoted(f)["value"])
        for f in found
        if f.verdict != "none" and f.metric == "forward_time"
    ] == jumps
    if len(rates) > 1:
        (clean,) = (f for f in found if f.verdict == "none")
        assert clean.facts["checked"] == 2 * 3 * len(rates)  # of two metrics, between four values
