"""Which processes ran side by side, and what a ratio is where they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from analysis.deriving import at_first, of_both, rows_of
from hypothesis import given
from hypothesis import strategies as st
from planted.experiments import Planter

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.pairing import REACH, Place, pair_up

NOISE = {"spread": 0.001}
BEGUN = datetime(2026, 1, 2, 10, tzinfo=UTC)
OFFSETS = (1.0, 1.06, 0.97)
"""The card's factor on all times of a block."""

Run = list[dict[str, Any]]


def minute(at: float) -> datetime:
    return BEGUN + timedelta(minutes=at)


def at(start: float, factor: float, gpu: str | None = None, boot: str | None = "boot") -> Any:
    """A process of half a minute that takes so many times as long; a CPU's card is its boot."""
    environment = {"device_name": "Abacus", "packages": {}, "boot": boot, "gpu_uuid": gpu}
    times = {"started": minute(start).isoformat(), "ended": minute(start + 0.5).isoformat()}
    return {"forward": factor, "environment": environment, **times}


def blocks(offset: float, factor: float, **card: Any) -> Run:
    """A process in each of three blocks, 30 minutes apart, at so many minutes from its start."""
    return [at(30 * i + offset, factor * own, **card) for i, own in enumerate(OFFSETS)]


def on_gpu(flash2: str | None, pytorch: str | None) -> tuple[Run, Run]:
    return blocks(1, 1.0, gpu=flash2), blocks(0, 1.2, gpu=pytorch)


BESIDE, PYTORCH, LATER = blocks(1, 1.0), blocks(0, 1.2), blocks(200, 1.0)
ADDED = [at(200, 1.32), at(201, 1.1), at(300, 1.0)]
CASES: Mapping[str, tuple[tuple[Run, Run], int, dict[str, Any]]] = {
    "in one block, whatever the card did": ((BESIDE, PYTORCH), 3, {}),
    "an edited kernel, measured later": ((LATER, PYTORCH), 0, {}),
    "two cards": ((blocks(1, 1.0, boot="another"), PYTORCH), 0, {}),
    "an older dataset, without ends": (
        *(([{k: v for k, v in p.items() if k != "ended"} for p in BESIDE], PYTORCH), 0, {}),
    ),
    "an import": (([{**p, "warnings": [{"code": "imported"}]} for p in BESIDE], PYTORCH), 0, {}),
    "a single process": ((BESIDE[:1], PYTORCH), 0, {}),
    "one pair alone": (([BESIDE[0], *LATER[1:]], PYTORCH), 0, {}),
    "two pairs at four settings": ((BESIDE[:2], PYTORCH[:2]), 2, {}),
    "one more of each, added later, and one of one alone": (
        *(([*BESIDE, *ADDED[1:]], [*PYTORCH, ADDED[0]]), 4, {}),
    ),
    "one GPU": (on_gpu("1", "1"), 3, {"device": "cuda", "dtype": "float16"}),
    "two GPUs": (on_gpu("1", "2"), 0, {"device": "cuda", "dtype": "float16"}),
}
"""The processes of Flash2 and Pytorch, how many pairs there are, and of what they are runs."""


@pytest.mark.parametrize("case", CASES)
def test_processes_are_paired_on_one_card_within_minutes(planter: Planter, case: str) -> None:
    """A ratio of pairs has not what the card did in it; all else is compared as independent."""
    (flash2, pytorch), pairs, of = CASES[case]
    found = rows_of(planter.experiment({"Pytorch": [pytorch] * 4, "Flash2": [flash2] * 4},
                                       **NOISE, **of))  # fmt: skip
    assert [row["pairs"] for row in found] == [pairs] * len(found) and found
    for row in found:
        is_narrow = row["low"] > 1 / 1.21 and row["high"] < 1 / 1.19
        assert is_narrow if pairs else row["high"] / row["low"] > 1.08


def test_a_ratio_is_that_of_the_times_beside_it_and_in_its_interval(planter: Planter) -> None:
    """One process of the one is off, which its time leaves out; the pairs cannot tell it."""
    pytorch = [at(30 * number, time) for number, time in enumerate((1.2, 1.2, 2.04))]
    planted = planter.experiment({"Pytorch": [pytorch] * 4, "Flash2": [BESIDE] * 4}, **NOISE)
    estimates = Estimates([planted])
    of, found = at_first(planted, estimates), of_both(planted, estimates)
    assert found.pairs == 3 and found.low and found.high
    assert found.ratio == of["Flash2"].median / of["Pytorch"].median > 0.8
    assert found.low <= found.ratio <= found.high


# Which processes are a pair

places = st.none() | st.builds(
    lambda card, start, length: Place(card, minute(start), minute(start + length)),
    st.sampled_from("ab"), st.floats(0, 60), st.floats(0, 20),
)  # fmt: skip


@given(st.lists(places, max_size=6), st.lists(places, max_size=6))
def test_each_process_is_in_one_pair_at_most_on_one_card_and_within_reach(
    ones: list[Place | None], others: list[Place | None]
) -> None:
    found = pair_up(ones, others)
    for positions in zip(*found, strict=True):
        assert len(set(positions)) == len(positions)
    for one, other in ((ones[i], others[j]) for i, j in found):
        assert one and other and one.card == other.card
        assert max(one.started, other.started) - min(one.ended, other.ended) <= REACH
    assert len(pair_up(others, ones)) == len(found)


@pytest.mark.parametrize(
    ("ones", "others", "pairs"),
    [
        ((0, 2, 4), (1, 3, 5), [(0, 0), (1, 1), (2, 2)]),
        ((0, 30), (31,), [(1, 0)]),
        ((0, 9), (8, 17), [(0, 0), (1, 1)]),  # nearest first would leave the last two alone
    ],
)
def test_as_many_as_can_be_and_the_nearest_in_time_are_pairs(
    ones: Sequence[float], others: Sequence[float], pairs: list[tuple[int, int]]
) -> None:
    both = [[Place("card", minute(m), minute(m + 0.9)) for m in side] for side in (ones, others)]
    assert pair_up(*both) == pairs
