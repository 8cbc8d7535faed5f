"""Where an implementation is worse than the naive one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from findings.lookups import the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.kinds.worse_than_naive import worse_than_naive

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]


@pytest.fixture
def against_naive(sweep: Plant, noisy: Noisy) -> Callable[..., Sweep]:
    """A sweep in which another implementation takes these multiples of the naive one's time."""

    def build(*multiples: float) -> Sweep:
        runs: dict[Any, Any] = {}
        for size, multiple in zip((128, 256, 512), multiples, strict=False):
            runs["Pytorch", False, size] = {"forward": noisy(size * 1e-6)}
            runs["Flex", False, size] = {"forward": noisy(size * 1e-6 * multiple)}
        return sweep(runs)

    return build


def test_it_is_stated_where_it_is_worse_and_by_how_much(
    against_naive: Callable[..., Sweep],
) -> None:
    found = the_one(worse_than_naive([against_naive(2.0, 1.25, 0.5)], Estimates()))
    assert (found.verdict, found.params["count"], found.params["of"]) == ("worse", 2, 3)
    assert found.params["low"] == pytest.approx(0.5, rel=0.03)
    assert found.params["high"] == pytest.approx(0.8, rel=0.03)
    assert [reason.run for reason in found.reasons] == [
        {"implementation": "Flex", "seq_len": size} for size in (128, 256)
    ]


def test_everywhere_is_no_list_of_places(against_naive: Callable[..., Sweep]) -> None:
    found = the_one(worse_than_naive([against_naive(2.0, 1.25, 1.5)], Estimates()))
    assert (found.sentences, found.reasons) == (["worse_than_naive.worse.everywhere"], [])


@pytest.mark.parametrize("multiples", [(0.5, 0.2), (1.0, 1.01)])
def test_as_good_as_naive_is_not_worse(
    against_naive: Callable[..., Sweep], multiples: tuple[float, float]
) -> None:
    found = the_one(worse_than_naive([against_naive(*multiples)], Estimates()))
    assert found.verdict == "none"


def test_another_baseline_is_not_the_naive_one(against_naive: Callable[..., Sweep]) -> None:
    planted = against_naive(2.0)
    other = replace(planted, plan={**planted.plan, "baseline": "Flex"})
    assert list(worse_than_naive([other], Estimates())) == []
