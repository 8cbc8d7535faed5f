"""The verdicts of a bench, on ratios that are planted."""

from __future__ import annotations

import pytest
from compare.planted_benches import score

from flashlab.compare.looks import PROCESSES, error_after, look_at
from flashlab.statistics import MIN_SAMPLES

MARGIN = 0.05


def test_all_looks_together_are_wrong_in_five_percent_at_most() -> None:
    assert sum(map(error_after, range(1, PROCESSES + 1))) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((1.1, 1.1, 1.1, 1.1), "slower"),
        ((0.9, 0.9, 0.9, 0.9), "faster"),
        ((1.0, 1.001, 0.999, 1.0), "equal"),
        ((1.0, 1.04, 0.96, 1.0), "inconclusive"),  # processes differ
        ((1.04, 1.05, 1.06, 1.05), "inconclusive"),
    ],
)
def test_a_verdict_needs_the_whole_interval(ratios: tuple[float, ...], verdict: str) -> None:
    said = look_at([[ratio] * 50 for ratio in ratios], MARGIN)
    assert (said["verdict"], said["final"]) == (verdict, True)
    # Exchanging the two implementations exchanges the verdict.
    exchanged = look_at([[1 / ratio] * 50 for ratio in ratios], MARGIN)["verdict"]
    assert exchanged == {"slower": "faster", "faster": "slower"}.get(verdict, verdict)


def test_too_few_batches_say_nothing_and_one_process_no_more_than_processes_differ() -> None:
    assert look_at([]) == look_at([[1.0] * (MIN_SAMPLES - 1)]) == {}
    said = look_at([[1.0] * 50])
    _, low, high = said["ratio"]
    assert low < 0.975 and high > 1.025 and not said["final"]


def test_identical_code_never_differs_and_a_tenth_is_found() -> None:
    same = score(40, MARGIN, 1.0, process_deviation=0.01)
    assert not {"faster", "slower"} & same["ever"].keys()
    assert score(40, MARGIN, 1.1)["final"]["slower"] >= 38
