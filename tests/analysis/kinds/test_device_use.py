"""What limits a run, by the share of the time in which the device is busy."""

from __future__ import annotations

import pytest

from flashlab.analysis.kinds.device_use import verdict_of


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        *((0.4, "host_bound"), (0.8, "host_bound"), (0.81, "between")),
        *((0.94, "between"), (0.95, "busy"), (1.0, "busy")),
    ],
)
def test_the_host_limits_what_leaves_a_fifth_of_the_time_idle(share: float, verdict: str) -> None:
    assert verdict_of(share) == verdict
