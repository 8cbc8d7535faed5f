"""The busy time of a device in an iteration: the union of intervals, and the profiler itself."""

from __future__ import annotations

import pytest
import torch

from flashlab.benchmarks.training import busy
from flashlab.benchmarks.training.busy import busy_iteration, covered


@pytest.mark.parametrize(
    ("intervals", "length"),
    [
        ([], 0),
        ([(0, 2), (5, 6)], 3),  # a gap is idle
        ([(5, 6), (0, 2)], 3),  # in any order
        ([(0, 4), (3, 5)], 5),  # two streams at once count once
        ([(0, 9), (1, 2), (3, 4)], 9),  # one within another
        ([(0, 2), (2, 3), (2, 2)], 3),  # one right after another
    ],
)
def test_what_overlaps_is_covered_once(intervals: list[tuple[float, float]], length: float) -> None:
    assert covered(intervals) == length


def test_a_profiler_that_fails_or_sees_nothing_tells_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert busy_iteration(lambda: None, "cpu") is None

    def unavailable(**_: object) -> None:
        raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")

    monkeypatch.setattr(busy, "profile", unavailable)
    assert busy_iteration(lambda: torch.ones(3).sum(), "cpu") is None
