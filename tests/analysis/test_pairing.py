"""Which processes ran side by side, and what a ratio is where they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis.deriving import Plant, at_first, of_both, rows_of
from compare.recordings import compared_of
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.comparison_rows import FIRST
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.pairing import REACH, Pairings, Place, Processes, pair_up
from flashlab.analysis.replication import agreed_value
from flashlab.statistics import DRAWS, Estimate

NOISE = {"spread": 0.001}
BEGUN = datetime(2026, 1, 2, 10, tzinfo=UTC)
OFFSETS = (1.0, 1.06, 0.97)
"""The card's factor on all times of a block."""


def at(minute: float, factor: float, card: str | None = "boot", **more: Any) -> dict[str, Any]:
    """A process of half a minute that takes so many times as long, on a CPU's card."""
    started = BEGUN + timedelta(minutes=minute)
    environment = {"device_name": "Abacus", "packages": {}, "boot": card, "gpu_uuid": None}
    times = {"started": started.isoformat(), "ended": (started + timedelta(seconds=30)).isoformat()}
    return {"forward": factor, "environment": environment, **times, **more}


def blocks(offset: float, factor: float, **more: Any) -> list[dict[str, Any]]:
    """A process in each of three blocks, 30 minutes apart, at so many minutes from its start."""
    return [at(30 * number + offset, factor * card, **more) for number, card in enumerate(OFFSETS)]


def both(flash2: Sequence[Any], pytorch: Sequence[Any] | None = None) -> dict[str, Any]:
    return {"Pytorch": [list(pytorch or blocks(0, 1.2))] * 4, "Flash2": [list(flash2)] * 4}


def test_what_ran_in_one_block_is_compared_without_what_the_card_did(experiment: Plant) -> None:
    """On a CPU, whose card is its system between two boots."""
    planted = experiment(both(blocks(1, 1.0)), **NOISE)
    for found in rows_of(planted):
        assert found["pairs"] == 3
        assert found["low"] > 1 / 1.21 and found["high"] < 1 / 1.19


def test_a_ratio_is_that_of_the_times_beside_it_and_in_its_interval(experiment: Plant) -> None:
    """One process of the one is off, which its time leaves out; the pairs cannot tell it."""
    pytorch = [at(30 * number, time) for number, time in enumerate((1.2, 1.2, 2.04))]
    planted = experiment(both(blocks(1, 1.0), pytorch), **NOISE)
    estimates = Estimates([planted])
    of, found = at_first(planted, estimates), of_both(planted, estimates)
    assert found.pairs == 3 and found.low is not None and found.high is not None
    assert found.ratio == of["Flash2"].median / of["Pytorch"].median > 0.8
    assert found.low <= found.ratio <= found.high


def without_end(process: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in process.items() if key != "ended"}


MEASURED_LATER = blocks(200, 1.0)


@pytest.mark.parametrize(
    "flash2",
    [
        MEASURED_LATER,
        blocks(1, 1.0, card="another"),
        blocks(1, 1.0, card=None),
        [without_end(process) for process in blocks(1, 1.0)],
        blocks(1, 1.0, warnings=[{"code": "imported"}]),
        blocks(1, 1.0)[:1],
        [*blocks(1, 1.0)[:1], *MEASURED_LATER[1:]],
    ],
    ids=[
        *("an edited kernel, measured later", "on two cards", "on a card that is not known"),
        *("an older dataset", "an import", "a single process", "one pair alone"),
    ],
)
def test_all_else_is_compared_as_independent(experiment: Plant, flash2: list[Any]) -> None:
    planted = experiment(both(flash2), **NOISE)
    assert all(not found["pairs"] for found in rows_of(planted))
    assert all(found["high"] / found["low"] > 1.1 for found in rows_of(planted))


def test_two_pairs_are_none_unless_several_settings_tell_how_much_pairs_differ(
    experiment: Plant,
) -> None:
    """Student's t of a single setting would reach from 0 to everything."""
    two = {"Pytorch": [blocks(0, 1.2)[:2]] * 4, "Flash2": [blocks(1, 1.0)[:2]] * 4}
    for settings, why in ((4, "paired"), (2, "few"), (1, "few")):
        planted = experiment({name: row[:settings] for name, row in two.items()}, **NOISE)
        for found in rows_of(planted):
            assert found["pairs"] == (2 if why == "paired" else 0)
            assert found["high"] / found["low"] < 1.4


def test_processes_that_are_added_to_decide_are_paired_with_one_another_alone(
    experiment: Plant,
) -> None:
    """One more of each later, which belong together, and another of one alone, to nothing."""
    added = [at(200, 1.2 * 1.1), at(201, 1.0 * 1.1), at(300, 1.0)]
    runs = both([*blocks(1, 1.0), *added[1:]], [*blocks(0, 1.2), added[0]])
    for found in rows_of(experiment(runs, **NOISE)):
        assert found["pairs"] == 4
        assert found["low"] > 1 / 1.21 and found["high"] < 1 / 1.19


def test_a_gpu_is_its_own_card_whatever_the_boot(experiment: Plant) -> None:
    def on(gpu: str | None, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**r, "environment": {**r["environment"], "gpu_uuid": gpu}} for r in runs]

    for one, other, paired in (("1", "1", True), ("1", "2", False), (None, None, False)):
        runs = both(on(one, blocks(1, 1.0)), on(other, blocks(0, 1.2)))
        planted = experiment(runs, **NOISE, dtype="float16", device="cuda")
        assert all(bool(found["pairs"]) == paired for found in rows_of(planted))


def test_the_two_sides_of_compare_are_never_paired(experiment: Plant, tmp_path: Path) -> None:
    """Its rule for processes of two sides is its own, wherever and whenever they ran."""
    planted = experiment(both(blocks(1, 1.0)), **NOISE)
    sides: list[dict[Any, Any]] = [{}, {}]
    for record in planted.records:
        side = sides[record.run.implementation == "Flash2"]
        run = replace(record.run, implementation="Flash2")
        side.setdefault(run, []).append(replace(record, run=run))
    table = compared_of(tmp_path, *sides).table
    found = table[(table.metric == "forward_time") & table["shape"].notna()]
    assert len(found) == 4 and (found.high / found.low > 1.1).all()


def test_totals_and_variants_are_paired_and_growth_is_not(experiment: Plant) -> None:
    runs = {
        (name, causal): [blocks(i + 2 * causal, cost * (1 + causal))] * 4
        for i, (name, cost) in enumerate((("Pytorch", 1.2), ("Flash2", 1.0)))
        for causal in (False, True)
    }
    planted = experiment(runs, **NOISE)
    for metric in ("forward_time", "forward_backward_time"):
        assert all(row["pairs"] == 3 for row in rows_of(planted, metric=metric))
    effects = rows_of(planted, compared="causal")
    assert effects and all(row["pairs"] == 3 for row in effects)
    assert all(not row["pairs"] for row in rows_of(planted, compared=FIRST))


def test_the_spread_of_pairs_is_shared_by_all_settings(experiment: Plant) -> None:
    """Also by those of other experiments."""
    calm = blocks(1, 1.0)
    wild = [{**r, "forward": r["forward"] * f} for r, f in zip(calm, (1, 1.04, 1.02), strict=True)]
    runs = {"Pytorch": [blocks(0, 1.2)] * 4, "Flash2": [calm, calm, wild, wild]}
    alone = experiment({name: row[:1] for name, row in runs.items()}, "a", **NOISE)
    whole = experiment(runs, "b", **NOISE)
    estimates = Estimates([alone, whole])
    found = [of_both(e, estimates) for e in (alone, whole)]
    assert found[0] == found[1]
    assert found[0].high is not None and found[0].low is not None
    narrow = of_both(alone, Estimates([alone]))
    assert narrow.high is not None and narrow.low is not None
    assert narrow.high / narrow.low < found[0].high / found[0].low


# Which processes are a pair

places = st.none() | st.builds(
    lambda card, start, length: Place(
        card, BEGUN + timedelta(minutes=start), BEGUN + timedelta(minutes=start + length)
    ),
    st.sampled_from("ab"),
    st.floats(0, 60),
    st.floats(0, 20),
)


@given(st.lists(places, max_size=6), st.lists(places, max_size=6))
def test_each_process_is_in_one_pair_at_most_on_one_card_and_within_reach(
    ones: list[Place | None], others: list[Place | None]
) -> None:
    found = pair_up(ones, others)
    for positions in zip(*found, strict=True):
        assert len(set(positions)) == len(positions)
    for i, j in found:
        one, other = ones[i], others[j]
        assert one is not None and other is not None and one.card == other.card
        assert max(one.started, other.started) - min(one.ended, other.ended) <= REACH
    assert len(pair_up(others, ones)) == len(found)


@pytest.mark.parametrize(("seconds", "paired"), [(0, True), (600, True), (601, False)])
def test_ten_minutes_are_from_the_end_of_one_to_the_start_of_the_other(
    seconds: int, paired: bool
) -> None:
    one = Place("card", BEGUN, BEGUN + timedelta(hours=2))
    later = one.ended + timedelta(seconds=seconds)
    other = Place("card", later, later + timedelta(hours=2))
    assert bool(pair_up([one], [other])) is bool(pair_up([other], [one])) is paired


def test_the_nearest_in_time_are_pairs() -> None:
    def places(*minutes: float) -> list[Place]:
        begun = [BEGUN + timedelta(minutes=minute) for minute in minutes]
        return [Place("card", at, at + timedelta(minutes=0.9)) for at in begun]

    assert pair_up(places(0, 2, 4), places(1, 3, 5)) == [(0, 0), (1, 1), (2, 2)]
    assert pair_up(places(0, 30), places(31)) == [(1, 0)]
    # As many as can be: nearest first would leave the last two alone.
    assert pair_up(places(0, 9), places(8, 17)) == [(0, 0), (1, 1)]


@given(st.lists(st.floats(0.5, 2), min_size=3, max_size=5), st.floats(0.5, 2))
def test_to_exchange_both_runs_gives_the_inverse(factors: list[float], factor: float) -> None:
    def run(*medians: float) -> Processes:
        estimates = [Estimate(m, 20, np.full(DRAWS, m)) for m in medians]
        ran = [BEGUN + timedelta(hours=i) for i in range(len(medians))]
        return Processes(estimates, [Place("card", at, at) for at in ran])

    runs = {("A", 1): run(*factors), ("B", 1): run(*([factor] * len(factors)))}
    pairings = Pairings(runs, ())
    found, inverse = pairings.ratio(("A", 1), ("B", 1)), pairings.ratio(("B", 1), ("A", 1))
    assert found is not None and inverse is not None
    mean = agreed_value(factors) / factor
    assert found.estimate.median == pytest.approx(mean)
    assert inverse.estimate.median == pytest.approx(1 / mean)
    assert found.estimate.quantiles is not None and inverse.estimate.quantiles is not None
    assert inverse.estimate.quantiles == pytest.approx(1 / found.estimate.quantiles[::-1])
    assert pairings.ratio(("A", 1), ("A", 1)) is None
