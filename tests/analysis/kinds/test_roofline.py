from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from analysis.deriving import Plant, derived, keys, quoted
from planted.experiments import SHAPE, noisy

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.roofline import ROOFLINE
from flashlab.benchmarks.attention import costs

COPIED = 2**30
AT_128 = replace(SHAPE, seq_len=128)
FLOPS = costs.flops(AT_128)["forward"]
BYTES = costs.compulsory_bytes(AT_128, "float32")["forward"]
TIME = 1e-3
"""Seconds of the planted pass at N = 128."""


def ceilings(
    rate: float,
    bandwidth: float = 1e15,
    dtype: str = "float32",
    name: str = "Abacus",
    product: list[float] | None = None,
) -> Ceilings:
    """Of so many operations and bytes per second; or the samples of a product in seconds."""

    def timed(seconds: float, **size: float) -> dict[str, Any]:
        return {"samples": noisy(seconds, spread=0.002), "time(s)": seconds, **size}

    matrix = timed(1e-3, size=1024)
    work = 2 * 1024**3
    matrix |= timed(work / rate) if product is None else {"samples": product}
    document = {
        "device": "cuda",
        "matrix_product": {dtype: matrix},
        "copy": timed(2 * COPIED / bandwidth, bytes=COPIED),
        "environment": {"device_name": name},
    }
    return read_ceilings(document, Estimates())


def forward(planted: Any, found: Ceilings) -> list[Finding]:
    return derived(ROOFLINE, planted, metric="forward_time", ceilings=found)


def at_shares(
    experiment: Plant, matrix: float, copy: float, dtype: str = "float32", **noise: Any
) -> list[Finding]:
    """One run's forward pass at this percentage of either ceiling."""
    found = ceilings(FLOPS / TIME * 100 / matrix, BYTES / TIME * 100 / copy, dtype)
    return forward(experiment({"Flash2": [TIME * 1e5]}, **noise), found)


@pytest.mark.parametrize(
    ("matrix", "copy", "verdict", "reasons"),
    [
        (90, 20, "compute_bound", []),
        (20, 90, "memory_bound", []),
        (95, 60, "compute_bound", []),
        (60, 95, "memory_bound", []),
        (30, 30, "neither", []),
        (110, 20, "model_error", []),
        (110, 150, "model_error", [Reason("above_copy_rate")]),
        # What stays in a cache may pass the copy rate.
        (20, 150, "memory_bound", [Reason("above_copy_rate")]),
    ],
)
def test_the_nearer_ceiling_binds_if_it_is_near(
    experiment: Plant, matrix: float, copy: float, verdict: str, reasons: list[Reason]
) -> None:
    (found,) = at_shares(experiment, matrix, copy)
    assert (found.verdict, found.reasons, found.facts["values"]) == (verdict, reasons, [128])
    (estimate,) = found.estimates
    shares = [estimate[f"{of}_percent"]["estimate"] for of in ("matrix", "copy")]
    assert shares == pytest.approx([matrix, copy], rel=0.02)
    assert found.facts["matrix_high"] == pytest.approx(matrix, rel=0.02)


@pytest.mark.parametrize("matrix", [80.0, 106.0])
def test_an_interval_across_a_limit_leaves_the_verdict_open(
    experiment: Plant, matrix: float
) -> None:
    (found,) = at_shares(experiment, matrix, 20, spread=0.1)
    assert (found.verdict, keys(found)) == ("inconclusive", ["roofline.inconclusive"])


def test_another_number_format_has_no_ceiling(experiment: Plant) -> None:
    assert at_shares(experiment, 70, 20, dtype="float16") == []


def test_without_ceilings_of_the_device_there_is_none(experiment: Plant) -> None:
    planted = experiment({"Flash2": [100]})
    assert forward(planted, ceilings(1e12, name="Difference engine")) == []
    assert derived(ROOFLINE, planted) == []


@pytest.mark.parametrize(
    ("calls", "state", "reasons"),
    [
        ([1.0] * 20 + [1.1] * 30, "ceiling.initial", []),
        ([1.08] * 20 + [1.0] * 20, "ceiling.measured", [Reason("ceiling_drifted")]),
    ],
)
def test_a_share_is_one_of_the_ceiling_before_it_fell_and_says_so(
    experiment: Plant, calls: list[float], state: str, reasons: list[Reason]
) -> None:
    samples = [factor * 1e-3 * (1 + i % 3 / 1000) for i, factor in enumerate(calls)]
    found = ceilings(1.0, product=samples)
    (finding,) = forward(experiment({"Flash2": [100]}), found)
    assert (quoted(finding)["ceiling"].key, finding.reasons) == (state, reasons)
    share = 100 * FLOPS / TIME / found.matrix["float32"].rate
    assert finding.facts["matrix_high"] == pytest.approx(share, rel=0.02)
    assert finding.facts["vendor"] is None
