"""Causes of the passes along a sweep, and of how many runs the counters were read."""

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

MATRIX = {"matrix_activity": 90.0}


def on_gpu(experiment: Plant, *passes: tuple[float, Any]) -> Any:
    """Passes of so many milliseconds and with these counters, at N = 1024, 2048 and so on."""
    return _planted(experiment, "Flash2", passes, 1024, (16, 32, 2048), "float16", "cuda")


def on_cpu(experiment: Plant, *passes: tuple[float, Any]) -> Any:
    """The same with operators, at N = 512 and so on."""
    return _planted(experiment, "Pytorch", passes, 512, (1, 8, 512), "float32", "cpu")


def _planted(
    experiment: Plant, name: str, passes: Any, first: int, sizes: Any, dtype: str, device: str
) -> Any:
    row = {}
    for step, (milliseconds, found) in enumerate(passes):
        times = [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]
        row[first * 2**step] = {"forward": times, "counters": found}
    others = dict(zip(("batch_size", "num_heads", "emb_dim"), sizes, strict=True))
    return experiment(
        {name: row}, sizes=lambda n: {"seq_len": n, **others}, dtype=dtype, device=device
    )


def forward(planted: Any, ceilings: Ceilings | None = CEILINGS) -> list[Finding]:
    return derived(CAUSE, planted, metric="forward_time", ceilings=ceilings)


ELSEWHERE = {"environment": {"device_name": "Other"}}
OTHER_CODE = {"environment": {"device_name": "Abacus", "provider": "x"}}


@pytest.mark.parametrize("changes", [ELSEWHERE, OTHER_CODE], ids=["device", "provider"])
def test_counters_of_other_code_or_another_device_are_no_cause(
    experiment: Plant, changes: dict[str, Any]
) -> None:
    assert forward(on_gpu(experiment, (1.0, {**MATRIX, **changes}))) == []
    assert forward(on_cpu(experiment, (1.0, {"product_share": 30.0, **changes})), None) == []


def test_without_ceilings_of_the_device_nothing_is_said(experiment: Plant) -> None:
    planted = on_gpu(experiment, (1.0, MATRIX))
    assert forward(planted, None) == forward(planted, replace(CEILINGS, device_name="x")) == []
