"""What casts doubt on a comparison: its row carries the code, and no other row does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from analysis.deriving import rows_of
from planted.experiments import SIZES, Planter, noisy

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS
from flashlab.analysis.doubts import DIPS, HALVES_DIFFER
from flashlab.analysis.experiment import CARDS_DIFFER, INPUTS_DIFFER, SITTINGS_DIFFER

Doubts = Mapping[int, str]
GROWS = (10, 40, 160, 640)
"""Times that grow as the operations."""

IMPORTED = {"warnings": [{"code": "imported"}]}
DRIFT = {"code": "drift", "metric": "forward_time", "share": 0.7}
TEN, NOON = "10:00:00", "12:00:00"


def halves(later: float, of: str = "forward", **more: Any) -> dict[str, Any]:
    """At N = 256 Flash2 takes `later` times as long in the second half of a pass."""
    calls = [*noisy(1e-3), *(later * sample for sample in noisy(1e-3))]
    halved = {"forward": 100, "backward": 100, of: calls, **more}
    return {"Pytorch": (400, 400), "Flash2": (100, halved)}


def at(time: str, gpu: str | None = "GPU-1", boot: str | None = None, **more: Any) -> Any:
    """A run that was started then, on a GPU, in a boot of the system."""
    environment = {"device_name": "Abacus", "packages": {}, "gpu_uuid": gpu, "boot": boot}
    started = f"2026-01-02T{time}+00:00"
    return {"forward": 1, "started": started, "environment": environment, **more}


def two(pytorch: Any, flash2: Any) -> dict[str, Any]:
    """Each implementation by one run at every size."""
    runs = {"Pytorch": pytorch, "Flash2": flash2}
    return {name: [{**run, "forward": n / 100} for n in SIZES] for name, run in runs.items()}


def given_as(inputs: str | None) -> dict[str, Any]:
    return {"sources": {"inputs": inputs} if inputs else {}}


def at_times(*times: str) -> dict[str, Any]:
    """Both implementations in the same minutes, a time for each size."""
    runs = [at(time) for time in times]
    return {"Pytorch": runs, "Flash2": runs}


ALL, NONE = dict.fromkeys(SIZES, ""), dict[int, str]()
BOTH_SITTINGS = [at(TEN), at("15:00:00")]
CASES: Mapping[str, tuple[dict[str, Any], str | Doubts, str | Doubts]] = {
    "calls of which the second half is slower": (
        *(halves(1.7), {256: HALVES_DIFFER}, {256: HALVES_DIFFER}),
    ),
    "those of another pass": (halves(1.7, "backward"), NONE, NONE),
    "steady calls": (halves(1.0), NONE, NONE),
    "a drift that the record warns of already": (
        *(halves(1.7, warnings=[DRIFT]), {256: "drift"}, {256: "drift"}),
    ),
    "a size off the line, where the others leave no room for it": (
        *({"Pytorch": GROWS, "Flash2": (1, 4, 32, 64)}, {512: DIPS}, {512: DIPS}),
    ),
    "one that is as odd for all": (
        *({"Pytorch": (10, 40, 320, 640), "Flash2": (1, 4, 32, 64)}, NONE, NONE),
    ),
    "one after which it stays so": ({"Pytorch": GROWS, "Flash2": (1, 4, 32, 120)}, NONE, NONE),
    "other forms of inputs": (two(given_as("packed"), given_as("separate")), INPUTS_DIFFER, NONE),
    "the same form": (two(given_as("packed"), given_as("packed")), NONE, NONE),
    "a form that an older record does not say": (
        two(given_as(None), given_as("packed")),
        NONE,
        NONE,
    ),
    "under an hour between them": (two(at(TEN), at("10:59:59")), NONE, NONE),
    "an hour between them": (two(at(TEN), at("11:00:00")), SITTINGS_DIFFER, NONE),
    "two GPUs": (two(at(TEN), at(TEN, "GPU-2")), CARDS_DIFFER, NONE),
    "two GPUs and sittings": (two(at(TEN), at(NOON, "GPU-2")), CARDS_DIFFER, NONE),
    "a GPU that is not known": (two(at(TEN), at(NOON, None)), SITTINGS_DIFFER, NONE),
    "two boots": (two(at(TEN, boot="a"), at(TEN, boot="b")), SITTINGS_DIFFER, NONE),
    "a sitting of hours without a break of one": (
        *(at_times(TEN, "10:50:00", "11:40:00", "12:30:00"), NONE, NONE),
    ),
    "sizes in two sittings": (
        at_times(TEN, TEN, "15:00:00", "15:00:00"),
        *(NONE, {512: SITTINGS_DIFFER, 1024: SITTINGS_DIFFER}),
    ),
    "an import, of which no time is known": (
        *(two(at(TEN), at(NOON, **IMPORTED)), "imported", "imported"),
    ),
    "processes in the same two sittings": (
        *({"Pytorch": [BOTH_SITTINGS], "Flash2": [BOTH_SITTINGS]}, NONE, NONE),
    ),
    "processes in two sittings and in one": (
        *({"Pytorch": [BOTH_SITTINGS], "Flash2": [BOTH_SITTINGS[:1]]}, {128: SITTINGS_DIFFER}),
        NONE,
    ),
}
"""What was planted; the doubts on Flash2 over Pytorch and on its growth: at some, or at all."""


@pytest.mark.parametrize("case", CASES)
def test_a_comparison_is_in_doubt_by(planter: Planter, case: str) -> None:
    runs, over, growth = CASES[case]
    planted = planter.experiment(runs)
    for compared, doubts in ((IMPLEMENTATIONS, over), (FIRST, growth)):
        rows = [r for r in rows_of(planted, compared=compared) if r["subject"] == "Flash2"]
        expected = {r["value"]: doubts for r in rows} if isinstance(doubts, str) else doubts
        assert {r["value"]: r["doubts"] for r in rows if r["doubts"]} == expected
