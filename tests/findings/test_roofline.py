from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.findings.model import Finding, Reason
from flashlab.findings.ratios import Estimates
from flashlab.findings.roofline import Ceilings, read_ceilings, rooflines
from flashlab.sweep import Sweep

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZE, COPIED = 1024, 2**30


@pytest.fixture
def at_shares(sweep: Plant, noisy: Noisy) -> Callable[..., list[Finding]]:
    """The rooflines of one run's forward pass at this percentage of either ceiling."""

    def build(matrix: float, copy: float, dtype: str = "float32", **options: Any) -> list[Finding]:
        time = 1e-3
        planted = sweep({("Flash2", False, 128): {"forward": noisy(time, **options)}})
        shape = Shape.of(planted.runs[0])
        rate = costs.flops(shape)["forward"] / time * 100 / matrix
        bandwidth = costs.compulsory_bytes(shape, "float32")["forward"] / time * 100 / copy
        found = rooflines(planted, Estimates(), ceilings(noisy, rate, bandwidth, dtype))
        return [finding for finding in found if finding.metric == "forward_time"]

    return build


def ceilings(noisy: Noisy, rate: float, bandwidth: float, dtype: str = "float32") -> Ceilings:
    def timed(seconds: float, **size: int) -> dict[str, Any]:
        return {"samples": noisy(seconds, spread=0.002), "time(s)": seconds, **size}

    document = {
        "matrix_product": {dtype: timed(2 * SIZE**3 / rate, size=SIZE)},
        "copy": timed(2 * COPIED / bandwidth, bytes=COPIED),
        "environment": {"device_name": "Abacus"},
    }
    return read_ceilings(document, Estimates())


@pytest.mark.parametrize(
    ("matrix", "copy", "verdict"),
    [
        (70, 20, "compute_bound"),
        (20, 70, "memory_bound"),
        (80, 60, "compute_bound"),
        (60, 80, "memory_bound"),
        (30, 30, "neither"),
        (110, 20, "model_error"),
        (110, 150, "model_error"),
    ],
)
def test_the_nearer_ceiling_binds_if_it_is_near(
    at_shares: Callable[..., list[Finding]], matrix: float, copy: float, verdict: str
) -> None:
    (found,) = at_shares(matrix, copy)
    assert found.verdict == verdict
    assert found.params["matrix_low"] == pytest.approx(matrix, rel=0.02)
    assert found.params["copy_high"] == pytest.approx(copy, rel=0.02)
    assert found.params["values"] == [128]


def test_what_stays_in_a_cache_may_pass_the_copy_rate(
    at_shares: Callable[..., list[Finding]],
) -> None:
    (found,) = at_shares(20, 150)
    assert (found.verdict, found.reasons) == ("memory_bound", [Reason("above_copy_rate")])


@pytest.mark.parametrize(("later", "drifted"), [(1.0, set()), (1.04, set()), (1.08, {"float32"})])
def test_a_ceiling_that_changed_while_it_was_measured_is_told(
    sweep: Plant, noisy: Noisy, later: float, drifted: set[str]
) -> None:
    planted = sweep({("Flash2", False, 128): {"forward": noisy(1e-3)}})
    samples = [*noisy(1e-3, spread=0.002), *(later * s for s in noisy(1e-3, spread=0.002))]
    timed = {"samples": samples, "time(s)": 1e-3, "size": SIZE}
    steady = {"samples": noisy(1e-3, spread=0.002), "time(s)": 1e-3, "bytes": COPIED}
    found = read_ceilings(
        {
            "matrix_product": {"float32": timed},
            "copy": steady,
            "environment": {"device_name": "Abacus"},
        },
        Estimates(),
    )
    assert found.drifted == drifted
    for finding in rooflines(planted, Estimates(), found):
        assert finding.reasons == [Reason("ceiling_drifted")] * bool(drifted)


@pytest.mark.parametrize("matrix", [50.0, 106.0])
def test_an_interval_across_a_limit_gives_no_verdict(
    at_shares: Callable[..., list[Finding]], matrix: float
) -> None:
    assert at_shares(matrix, 20, spread=0.1) == []


def test_there_is_none_without_a_ceiling_of_the_dtype(
    at_shares: Callable[..., list[Finding]],
) -> None:
    assert at_shares(70, 20, dtype="float16") == []


def test_a_value_without_a_verdict_is_named_beside_the_others(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(
        {
            ("Flash2", False, 128): {"forward": noisy(1e-3)},
            ("Flash2", False, 256): {"forward": noisy(1e-3, spread=0.3)},
        }
    )
    shapes = [Shape.of(row) for row in planted.runs]
    rate = costs.flops(shapes[1])["forward"] / 1e-3 / 0.5
    found = next(iter(rooflines(planted, Estimates(), ceilings(noisy, rate, 1e15))))
    assert (found.params["values"], found.params["undecided_at"]) == ([128], [256])
