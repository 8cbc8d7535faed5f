"""Of which passes a cause is stated; which one it is has a test of its own (`counted_passes`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.cause import CAUSE

COPY = Ceiling(2 * 4.273e9, Estimates().of(("copy",), [2.0] * 30))
"""The H200's copy bandwidth, 4273 GB/s, as a time in ms and the bytes moved in it."""
CEILINGS = Ceilings("Abacus", {}, COPY)
KINDS = ({"dtype": "float16", "device": "cuda"}, {"dtype": "float32", "device": "cpu"})


def counted(experiment: Plant, kind: Any, **counters: Any) -> Any:
    """A pass of a millisecond with these counters."""
    times = [1e-3 * factor for factor in np.linspace(0.999, 1.001, 15)]
    return experiment({"Flash2": [{"forward": times, "counters": counters}]}, **kind)


def forward(planted: Any, ceilings: Ceilings | None = CEILINGS) -> list[Finding]:
    return derived(CAUSE, planted, metric="forward_time", ceilings=ceilings)


@pytest.mark.parametrize("kind", KINDS, ids=["GPU", "CPU"])
@pytest.mark.parametrize(
    ("environment", "count"),
    [({}, 1), ({"device_name": "Other"}, 0), ({"device_name": "Abacus", "provider": "x"}, 0)],
    ids=["the same", "device", "provider"],
)
def test_counters_of_other_code_or_another_device_are_no_cause(
    experiment: Plant, kind: Any, environment: dict[str, str], count: int
) -> None:
    more = {"environment": environment} if environment else {}
    assert len(forward(counted(experiment, kind, **more))) == count


def test_without_ceilings_of_the_device_nothing_is_said(experiment: Plant) -> None:
    planted = counted(experiment, KINDS[0])
    assert forward(planted, None) == forward(planted, replace(CEILINGS, device_name="x")) == []
