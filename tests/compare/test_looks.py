"""The verdicts of a bench, on ratios that are planted.

`PYTHONPATH=tests python -m compare.test_looks` prints what docs/comparing.md says.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from flashlab.compare.bench import error_after, look_at
from flashlab.compare.interleave import PROCESSES
from flashlab.statistics import MIN_SAMPLES

MARGIN = 0.05
PAIRS = (12, 62, 62, 62)
"""Pairs of batches in each process: about those of a pass by default, with two implementations."""

BATCH = 0.014
"""Standard deviation of the logarithm of a ratio of neighbouring batches."""


def planted_ratios(random: np.random.Generator, ratio: float, process: float) -> list[list[float]]:
    """The ratios of neighbouring batches, about a true ratio of times from which each process of
    both is some way off."""
    own = random.normal(0, process, (PROCESSES, 2)) @ [1, -1]
    return [
        (ratio * np.exp(off + random.normal(0, BATCH, pairs))).tolist()
        for off, pairs in zip(own, PAIRS, strict=True)
    ]


def score(benches: int, ratio: float, process: float = 0.003) -> dict[str, Counter[str]]:
    """The verdicts of so many benches: after all processes, and at any look before."""
    random, final, before = np.random.default_rng(0), Counter[str](), Counter[str]()
    for _ in range(benches):
        ratios = planted_ratios(random, ratio, process)
        looks = (look_at(ratios[:count], MARGIN) for count in range(1, PROCESSES + 1))
        *provisional, last = (look["verdict"] for look in looks)
        final[last] += 1
        before.update({*provisional})
    return {"final": final, "before": before}


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


def test_too_few_batches_say_nothing_and_one_process_no_more_than_processes_differ() -> None:
    assert look_at([]) == look_at([[1.0] * (MIN_SAMPLES - 1)]) == {}
    said = look_at([[1.0] * 50])
    _, low, high = said["ratio"]
    assert low < 0.975 and high > 1.025 and not said["final"]


def test_identical_code_never_differs_and_a_tenth_is_found() -> None:
    same = score(40, 1.0, process=0.01)
    assert not {"faster", "slower"} & {*same["final"], *same["before"]}
    assert score(40, 1.1)["final"]["slower"] >= 38


if __name__ == "__main__":
    for ratio, process in itertools.product((1.0, 1.1), (0.003, 0.01, 0.02)):
        print(ratio, process, score(250, ratio, process))
