"""Comparisons of planted runs: how sure they are, which processes are pairs, what is in doubt."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted.experiments import SIZES, Planter, noisy

from flashlab.analysis.choices import cells, ranking
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.doubts import DIPS, HALVES_DIFFER, doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    CARDS_DIFFER,
    FIRST,
    IMPLEMENTATIONS,
    INPUTS_DIFFER,
    SITTINGS_DIFFER,
    Runs,
)
from flashlab.analysis.pairing import Place, RunEstimate, pair_up
from flashlab.analysis.ratios import LATER_ERROR, Ratio, ratio
from flashlab.statistics import CONFIDENCE, Estimate, function_estimate, interval_of

NOISE, WIDE = {"spread": 0.001}, {"spread": 0.3, "count": 12}
CALM, WILD = [1.0, 1.001, 1.002], [1.0, 1.06, 0.97]
BEGUN = datetime(2026, 1, 2, 10, tzinfo=UTC)
Run = list[dict[str, Any]]


def rows_of(
    experiment: Runs, compared: str = IMPLEMENTATIONS, pooled: bool = False
) -> list[dict[str, Any]]:
    """The comparisons of the forward time, at single settings or `pooled`."""
    estimates = Estimates([experiment])
    table = comparisons([experiment], estimates, doubts([experiment], estimates))
    table = table[(table.compared == compared) & (table.metric == "forward_time")]
    return [dict(row) for row in table[table.value.isna() == pooled].to_dict("records")]


def at_first(experiment: Runs, estimates: Estimates) -> dict[str, Estimate]:
    """The forward time of each implementation at N = 128."""
    of = estimates.of(experiment.benchmark.metric("forward_time"))
    runs = [each for each in experiment.runs if each.run["seq_len"] == 128]
    return {each.run.implementation: of[each.key] for each in runs}


def of_both(experiment: Runs, estimates: Estimates) -> Ratio:
    """Flash2 over Pytorch there."""
    of = at_first(experiment, estimates)
    return ratio(128, of["Flash2"], of["Pytorch"])


def minute(at: float) -> datetime:
    return BEGUN + timedelta(minutes=at)


def at(start: float, gpu: str | None = None, boot: str | None = None, **more: Any) -> Any:
    """A process of half a minute, so many minutes after ten; a CPU's card is its boot."""
    environment = {"device_name": "Abacus", "packages": {}, "boot": boot, "gpu_uuid": gpu}
    times = {"started": minute(start).isoformat(), "ended": minute(start + 0.5).isoformat()}
    return {"forward": 1.0, "environment": environment, **times, **more}


def beside(flash2: Any, pytorch: Any) -> Mapping[str, Any]:
    """Each implementation alike at every size."""
    return {"Pytorch": [pytorch] * 4, "Flash2": [flash2] * 4}


IMPORTED = {"warnings": [{"code": "imported"}]}


# How sure a verdict is


def means(*factors: float) -> Run:
    """Processes of the course's protocol, which gives a mean each."""
    return [{"forward": [1e-5 * factor], "means": True} for factor in factors]


OPEN, OFFSETS = ["inconclusive"] * 4, (0.98, 1.0, 1.02)
VERDICTS: Mapping[str, tuple[Mapping[str, Any], list[str], list[str]]] = {
    "several calm processes": (
        {"Pytorch": (1.0, 4.0, 16.0, 64.0), "Flash2": (1.0, 2.0, 8.0, 16.0)},
        *(["equal", "below", "below", "below"], ["below"]),
    ),
    "single ones, where those of another one differ by 40%": (
        *({**beside([2.0], [2.2]), "Flex": [[1.0, 1.4]] * 4}, OPEN, []),
    ),
    "means that are far apart": (beside(means(1.0), means(9.0)), ["below"] * 4, []),
    "means within what single processes may differ": (beside(means(1.0), means(1.08)), OPEN, []),
    "8.5% at single settings, which are decided together": (
        {
            "Pytorch": [[1.085 * f for f in np.roll(OFFSETS, i)] for i in range(4)],
            "Flash2": [[*np.roll(OFFSETS, 2 * i)] for i in range(4)],
        },
        *(OPEN, ["below"]),
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_verdict_is_as_sure_as_processes_agree(planter: Planter, case: str) -> None:
    runs, verdicts, pooled = VERDICTS[case]
    planted = planter.experiment(runs, **NOISE)
    assert [r["verdict"] for r in rows_of(planted) if r["subject"] == "Flash2"] == verdicts
    assert [r["verdict"] for r in rows_of(planted, pooled=True)] == pooled


@pytest.mark.parametrize("processes", [CALM, [1.0]], ids=["repeated", "alone"])
def test_a_run_has_one_verdict_in_whichever_experiment_it_stands(
    planter: Planter, processes: list[float]
) -> None:
    """Its headline too, where a run of one process alone borrows the spread of the sections."""
    runs = {name: [processes, WILD, WILD, WILD] for name in ("Flash2", "Pytorch")}
    headline = planter.experiment({n: row[:1] for n, row in runs.items()}, "summary", "", **NOISE)
    section = planter.experiment(runs, **NOISE)
    estimates = Estimates([headline, section])
    found, alone = of_both(headline, estimates), of_both(headline, Estimates([headline]))
    assert found == of_both(section, estimates)
    assert found.low and alone.low and found.low < 0.95 and alone.low > found.low


def test_a_ratio_that_is_looked_at_again_is_less_sure(planter: Planter) -> None:
    """Both runs have added processes: one of them had its own for another comparison."""
    more = [[1.0, 1.01, 0.99, 1.01], CALM, CALM, CALM]
    planted = planter.experiment({"Flash2": more, "Pytorch": more, "Flash4": [CALM] * 4}, **NOISE)
    of = at_first(planted, Estimates([planted]))
    looks = {name: found.looks for name, found in of.items() if isinstance(found, RunEstimate)}
    assert looks == {"Flash2": 1, "Pytorch": 1, "Flash4": 0}
    for other, error in (("Pytorch", LATER_ERROR), ("Flash4", 1 - CONFIDENCE)):
        found = ratio(128, of["Flash2"], of[other])
        independent = function_estimate(operator.truediv, (of["Flash2"], of[other]))
        assert (found.low, found.high) == interval_of(independent, error)


# Which processes ran side by side


def blocks(offset: float, factor: float, gpu: str | None = None) -> Run:
    """A process in each of three blocks, 30 minutes apart, at so many minutes from its start.

    The card makes all times of a block as long as `WILD` says.
    """
    return [at(30 * i + offset, gpu, "boot", forward=factor * own) for i, own in enumerate(WILD)]


def added(start: float, factor: float) -> Any:
    return at(start, boot="boot", forward=factor)


def on_gpu(flash2: str | None, pytorch: str | None) -> tuple[Run, Run]:
    return blocks(1, 1.0, gpu=flash2), blocks(0, 1.2, gpu=pytorch)


BESIDE, PYTORCH, LATER = blocks(1, 1.0), blocks(0, 1.2), blocks(200, 1.0)
GPU = {"device": "cuda", "dtype": "float16"}
PAIRS: Mapping[str, tuple[tuple[Run, Run], int, dict[str, Any]]] = {
    "in one block, whatever the card did": ((BESIDE, PYTORCH), 3, {}),
    "an edited kernel, measured later": ((LATER, PYTORCH), 0, {}),
    "an older dataset, without ends": (([{**p, "ended": None} for p in BESIDE], PYTORCH), 0, {}),
    "an import": (([{**p, **IMPORTED} for p in BESIDE], PYTORCH), 0, {}),
    "one pair alone": (([BESIDE[0], *LATER[1:]], PYTORCH), 0, {}),
    "two pairs at four settings": ((BESIDE[:2], PYTORCH[:2]), 2, {}),
    "one more of each, added later, and one of one alone": (
        ([*BESIDE, added(201, 1.1), added(300, 1.0)], [*PYTORCH, added(200, 1.32)]),
        *(4, {}),
    ),
    "one GPU": (on_gpu("1", "1"), 3, GPU),
    "two GPUs": (on_gpu("1", "2"), 0, GPU),
}
"""The processes of Flash2 and Pytorch, how many pairs there are, and of what they are runs."""


@pytest.mark.parametrize("case", PAIRS)
def test_processes_are_paired_on_one_card_within_minutes(planter: Planter, case: str) -> None:
    """A ratio of pairs has not what the card did in it; all else is compared as independent."""
    both, pairs, of = PAIRS[case]
    found = rows_of(planter.experiment(beside(*both), **NOISE, **of))
    assert [row["pairs"] for row in found] == [pairs] * 4
    for row in found:
        is_narrow = row["low"] > 1 / 1.21 and row["high"] < 1 / 1.19
        assert is_narrow if pairs else row["high"] / row["low"] > 1.08


def test_a_ratio_is_that_of_the_times_beside_it_and_in_its_interval(planter: Planter) -> None:
    """One process of the one is off, which its time leaves out; the pairs cannot tell it."""
    pytorch = [added(30 * number, time) for number, time in enumerate((1.2, 1.2, 2.04))]
    planted = planter.experiment(beside(BESIDE, pytorch), **NOISE)
    estimates = Estimates([planted])
    of, found = at_first(planted, estimates), of_both(planted, estimates)
    assert found.pairs == 3 and found.low and found.high
    assert found.ratio == of["Flash2"].median / of["Pytorch"].median > 0.8
    assert found.low <= found.ratio <= found.high


def test_as_many_as_can_be_and_the_nearest_in_time_are_pairs() -> None:
    def pairs(*sides: Sequence[float]) -> list[tuple[int, int]]:
        return pair_up(*([Place("card", minute(m), minute(m + 0.9)) for m in s] for s in sides))

    assert pairs((0, 2, 4), (1, 3, 5)) == [(0, 0), (1, 1), (2, 2)]
    assert pairs((0, 30), (31,)) == [(1, 0)]
    assert pairs((0, 9), (8, 17)) == [(0, 0), (1, 1)]  # nearest first leaves the last two alone


# What casts doubt: the row carries the code, and no other row does

Doubts = Mapping[int, str]
GROWS = (10, 40, 160, 640)
"""Times that grow as the operations."""

DRIFT = {"code": "drift", "metric": "forward_time", "share": 0.7}
NOON, THREE = 120, 300


def halves(later: float, of: str = "forward", **more: Any) -> dict[str, Any]:
    """At N = 256 Flash2 takes `later` times as long in the second half of a pass."""
    calls = [*noisy(1e-3), *(later * sample for sample in noisy(1e-3))]
    halved = {"forward": 100, "backward": 100, of: calls, **more}
    return {"Pytorch": (400, 400), "Flash2": (100, halved)}


def two(pytorch: Any, flash2: Any) -> dict[str, Any]:
    """Each implementation by one run at every size."""
    runs = {"Pytorch": pytorch, "Flash2": flash2}
    return {name: [{**run, "forward": n / 100} for n in SIZES] for name, run in runs.items()}


def given_as(inputs: str | None) -> dict[str, Any]:
    return {"sources": {"inputs": inputs} if inputs else {}}


def at_times(*times: float) -> dict[str, Any]:
    """Both implementations in the same minutes, a time for each size."""
    runs = [at(time, "GPU-1") for time in times]
    return {"Pytorch": runs, "Flash2": runs}


TEN = at(0, "GPU-1")
BOTH = [TEN, at(THREE, "GPU-1")]
DOUBTS: Mapping[str, tuple[dict[str, Any], str | Doubts, str | Doubts]] = {
    "a slower second half of the calls": (halves(1.7), {256: HALVES_DIFFER}, {256: HALVES_DIFFER}),
    "not by that of another pass": (halves(1.7, "backward"), {}, {}),
    "a drift that the record has": (halves(1.7, warnings=[DRIFT]), {256: "drift"}, {256: "drift"}),
    "a size off the line": ({"Pytorch": GROWS, "Flash2": (1, 4, 32, 64)}, {512: DIPS}, {512: DIPS}),
    "not by one after which it stays so": ({"Pytorch": GROWS, "Flash2": (1, 4, 32, 120)}, {}, {}),
    "other forms of inputs": (two(given_as("packed"), given_as("separate")), INPUTS_DIFFER, {}),
    "not by a form that is not known": (two(given_as(None), given_as("packed")), {}, {}),
    "not under an hour between them": (two(TEN, at(59.98, "GPU-1")), {}, {}),
    "an hour between them": (two(TEN, at(60, "GPU-1")), SITTINGS_DIFFER, {}),
    "two GPUs before two sittings": (two(TEN, at(NOON, "GPU-2")), CARDS_DIFFER, {}),
    "two boots": (two(at(0, boot="a"), at(0, boot="b")), SITTINGS_DIFFER, {}),
    "no break": (at_times(0, 50, 100, 150), {}, {}),
    "sizes in two sittings": (
        *(at_times(0, 0, THREE, THREE), {}, dict.fromkeys((512, 1024), SITTINGS_DIFFER)),
    ),
    "an import of no known time": (two(TEN, at(NOON, **IMPORTED)), "imported", "imported"),
    "not by the same two sittings": ({"Pytorch": [BOTH], "Flash2": [BOTH]}, {}, {}),
    "one of two": ({"Pytorch": [BOTH], "Flash2": [BOTH[:1]]}, {128: SITTINGS_DIFFER}, {}),
}
"""What was planted; the doubts on Flash2 over Pytorch and on its growth: at some, or at all."""


@pytest.mark.parametrize("case", DOUBTS)
def test_a_comparison_is_in_doubt_by(planter: Planter, case: str) -> None:
    runs, over, growth = DOUBTS[case]
    planted = planter.experiment(runs)
    for compared, codes in ((IMPLEMENTATIONS, over), (FIRST, growth)):
        rows = [r for r in rows_of(planted, compared) if r["subject"] == "Flash2"]
        expected = {r["value"]: codes for r in rows} if isinstance(codes, str) else codes
        assert {r["value"]: r["doubts"] for r in rows if r["doubts"]} == expected


# The choice at a setting: a clear lead, a tie, or neither

TIME, NAMES = "forward_backward_time", ("Flash2", "Flash3", "Flash4")
SLOW, FAST, LEVEL = (15, 30, 60, 120), (10, 20, 40, 80), (10.1, 20.2, 40.4, 80.8)
Times = tuple[Any, Any, Any]
LEADS, TIES, OTHER = (SLOW, FAST, SLOW), (SLOW, FAST, LEVEL), (SLOW, SLOW, FAST)
BY_4, BY_6 = ((SLOW, FAST, [factor * time for time in FAST]) for factor in (1.04, 1.06))
CHOICES: Mapping[str, tuple[str, list[str], list[Times], dict[str, Any]]] = {
    "by 4%": ("level", ["Flash3", "Flash4"], [BY_4], NOISE),
    "by 6%": ("clear", ["Flash3"], [BY_6], NOISE),
    "what is undecided will do as well": ("level", ["Flash3", "Flash4"], [BY_6], WIDE),
    "it leads at one of two settings and is level": ("level", ["Flash3"], [LEADS, TIES], NOISE),
    "another leads at the other": ("changes", ["Flash3", "Flash4"], [LEADS, OTHER], NOISE),
}
"""What is found of times of `NAMES` at a batch size each, by some noise of calls."""


@pytest.mark.parametrize("case", CHOICES)
def test_a_cell_is_one_lead_or_all_that_do_as_well(planter: Planter, case: str) -> None:
    """Whatever the order of names."""
    state, names, settings, noise = CHOICES[case]
    planted = []
    for batch, times in enumerate(settings, start=1):
        runs = dict(zip(NAMES, times, strict=True))
        sizes = {"batch_size": batch}
        planted.append(planter.experiment(runs, f"of {batch}", sizes=sizes, **noise))
    table = comparisons(planted, Estimates(planted))
    ranked = ranking(table, TIME, NAMES)
    found = cells(ranked, ["seq_len", "causal"])
    assert {(row.state, *sorted(row.names)) for row in found.itertuples()} == {(state, *names)}
    pd.testing.assert_frame_equal(ranked, ranking(table, TIME, NAMES[::-1]))
