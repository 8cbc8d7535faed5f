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


BOTH = [at(TEN), at("15:00:00")]
OF_SIZES = at_times(TEN, TEN, "15:00:00", "15:00:00")
CASES: Mapping[str, tuple[dict[str, Any], str | Doubts, str | Doubts]] = {
    "a slower second half of the calls": (halves(1.7), {256: HALVES_DIFFER}, {256: HALVES_DIFFER}),
    "not by that of another pass": (halves(1.7, "backward"), {}, {}),
    "not by steady calls": (halves(1.0), {}, {}),
    "a drift that the record has": (halves(1.7, warnings=[DRIFT]), {256: "drift"}, {256: "drift"}),
    "a size off the line": ({"Pytorch": GROWS, "Flash2": (1, 4, 32, 64)}, {512: DIPS}, {512: DIPS}),
    "not by one after which it stays so": ({"Pytorch": GROWS, "Flash2": (1, 4, 32, 120)}, {}, {}),
    "other forms of inputs": (two(given_as("packed"), given_as("separate")), INPUTS_DIFFER, {}),
    "not by a form that is not known": (two(given_as(None), given_as("packed")), {}, {}),
    "not under an hour between them": (two(at(TEN), at("10:59:59")), {}, {}),
    "an hour between them": (two(at(TEN), at("11:00:00")), SITTINGS_DIFFER, {}),
    "two GPUs": (two(at(TEN), at(TEN, "GPU-2")), CARDS_DIFFER, {}),
    "two GPUs before two sittings": (two(at(TEN), at(NOON, "GPU-2")), CARDS_DIFFER, {}),
    "two boots": (two(at(TEN, boot="a"), at(TEN, boot="b")), SITTINGS_DIFFER, {}),
    "no break": (at_times(TEN, "10:50:00", "11:40:00", "12:30:00"), {}, {}),
    "sizes in two sittings": (OF_SIZES, {}, {512: SITTINGS_DIFFER, 1024: SITTINGS_DIFFER}),
    "an import of no known time": (two(at(TEN), at(NOON, **IMPORTED)), "imported", "imported"),
    "not by the same two sittings": ({"Pytorch": [BOTH], "Flash2": [BOTH]}, {}, {}),
    "one of two": ({"Pytorch": [BOTH], "Flash2": [BOTH[:1]]}, {128: SITTINGS_DIFFER}, {}),
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
