"""The verdicts of a bench, on ratios that are planted."""

from __future__ import annotations

import pytest
from compare.planted_benches import PASS, World, score

from flashlab.compare.looks import (
    FINAL_ERROR,
    MIN_PAIRS,
    PROCESSES,
    PROVISIONAL_ERROR,
    Look,
    look_at,
)

MARGIN = 0.05


def test_all_looks_together_are_wrong_in_five_percent_at_most() -> None:
    before_the_last = 1 + PROCESSES - 1  # one within the first process
    assert before_the_last * PROVISIONAL_ERROR + FINAL_ERROR == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.06, 1.2, "slower"),
        (0.8, 0.94, "faster"),
        (0.97, 1.04, "equal"),
        (1.04, 1.2, "inconclusive"),
        (0.9, 1.2, "inconclusive"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, verdict: str) -> None:
    opposite = {"slower": "faster", "faster": "slower"}
    assert Look(1.0, low, high, PROCESSES).verdict(PASS) == verdict
    # Exchanging the two implementations exchanges the verdict.
    exchanged = Look(1.0, 1 / high, 1 / low, PROCESSES)
    assert exchanged.verdict(PASS) == opposite.get(verdict, verdict)


def test_there_is_no_ratio_of_too_few_batches() -> None:
    assert look_at([[1.0] * (MIN_PAIRS - 1)]) is None


def test_one_process_is_never_surer_than_processes_differ() -> None:
    look = look_at([[1.0] * 50])
    assert look is not None
    assert look.low < 0.975
    assert look.high > 1.025
    assert not look.is_final


def test_the_final_interval_is_as_wide_as_the_processes_differ() -> None:
    alike = look_at([[ratio] * 50 for ratio in (1.0, 1.001, 0.999, 1.0)])
    apart = look_at([[ratio] * 50 for ratio in (1.0, 1.04, 0.96, 1.0)])
    assert alike is not None
    assert apart is not None
    assert alike.is_final
    assert alike.verdict(PASS) == "equal"
    assert apart.verdict(PASS) == "inconclusive"


def test_identical_code_never_differs_and_a_tenth_is_found() -> None:
    same = score(World("same", process_deviation=0.01), MARGIN, benches=40)
    assert not same.ever["faster"]
    assert not same.ever["slower"]
    slower = score(World("slower", ratio=1.1), MARGIN, benches=40)
    assert slower.final["slower"] >= 38
