"""The distance of a verdict from another one."""

from __future__ import annotations

import pytest
from story.reading import speed

from flashlab.story.doubts import room


@pytest.mark.parametrize(("x", "expected"), [(2.0, 1.88), (0.5, 1.88), (1.0, 1.03)])
def test_the_room_of_a_verdict_ends_at_its_interval(x: float, expected: float) -> None:
    assert room(speed(x, 0.015)) == pytest.approx(expected, abs=0.01)
