"""The closed words of a story: what holds of planted leads and sizes, and what just does not."""

from dataclasses import replace

import pytest
from story.reading import speed, speeds

from flashlab.story import words


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ((2.9, 2.9, 2.8, 2.9), "constant"),
        ((2.0, 2.1, 2.2, 2.6), "widening"),
        ((2.6, 2.4, 2.2, 2.0), "narrowing"),
        ((2.0, 3.0, 4.0, 3.0), "peaks"),
        ((4.0, 3.0, 2.0, 3.0), "dips"),
        ((1.5, 1.2, 0.9, 0.7), "turns"),
    ],
)
def test_a_lead_has_one_word(found: tuple[float, ...], word: str) -> None:
    assert words.lead(speeds(found)) == word


def test_a_lead_widens_only_beyond_two_margins() -> None:
    """2.0 to 2.2 is a ratio of 1.1, and intervals of 1% make it less; 2.26 is more."""
    assert words.lead(speeds((2.0, 2.2))) == "constant"
    assert words.lead(speeds((2.0, 2.26))) == "widening"


def test_wide_intervals_are_not_constancy() -> None:
    assert words.lead(speeds((2.0, 2.0, 2.0), width=0.2)) == words.NOT_DECIDED


def test_without_intervals_no_lead_is_decided() -> None:
    unknown = speed(2.0, verdict="undecided")
    bare = {n: type(unknown)(unknown.x, None, None, "undecided", {}) for n in (128, 256)}
    assert words.lead(bare) == words.NOT_DECIDED


@pytest.mark.parametrize(
    ("factor", "width", "word"),
    [
        (7.3, 0.01, "as operations"),
        (5.6, 0.01, "near"),
        (5.2, 0.01, "below"),
        (10.1, 0.01, "above"),
        (7.3, 0.2, "near"),  # 6.1 to 8.8
        (8.5, 0.2, words.NOT_DECIDED),  # 7.1 to 10.2, which is less or more
        (5.2, 0.2, "below"),  # 6.2 at most
        (10.1, 0.2, "above"),  # 8.4 at least
    ],
)
def test_growth_is_held_against_operations_that_grow_8_fold_by_its_interval(
    factor: float, width: float, word: str
) -> None:
    assert words.growth(speed(1 / factor, width), 8.0) == word


def test_growth_without_an_interval_or_to_an_odd_run_is_not_decided() -> None:
    known = speed(1 / 7.3)
    assert words.growth(None, 8.0) == words.NOT_DECIDED
    assert words.growth(replace(known, low=None, high=None), 8.0) == words.NOT_DECIDED
    assert words.growth(replace(known, row={"doubts": "dips"}), 8.0) == words.NOT_DECIDED
    assert words.growth(None, 1.0) == "alone"


@pytest.mark.parametrize(
    ("sizes", "word"),
    [
        ((100.0, 200.0, 400.0), "proportional"),
        ((100.0, 203.0, 420.0), "other"),
        ((100.0, 101.0, 101.9), "constant"),
        ((164.0, 228.0, 356.0), "adds"),
        ((200.0, 464.0, 1376.0), "quadratic"),
        ((1.26, 2.52, 6.03), "other"),
        ((200.0, 500.0, 700.0), "other"),
    ],
)
def test_memory_grows_in_one_way(sizes: tuple[float, ...], word: str) -> None:
    assert words.memory_growth((128, 256, 512), sizes) == word
