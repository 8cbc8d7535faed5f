from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flashlab.report.finding_words import FindingWords
from flashlab.report.wording import Words

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.roofline import rooflines
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape

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


def ceilings(
    noisy: Noisy, rate: float, bandwidth: float, dtype: str = "float32", name: str = "Abacus"
) -> Ceilings:
    def timed(seconds: float, **size: int) -> dict[str, Any]:
        return {"samples": noisy(seconds, spread=0.002), "time(s)": seconds, **size}

    document = {
        "device": "cuda",
        "matrix_product": {dtype: timed(2 * SIZE**3 / rate, size=SIZE)},
        "copy": timed(2 * COPIED / bandwidth, bytes=COPIED),
        "environment": {"device_name": name},
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


# The states of a ceiling


def ceilings_of(noisy: Noisy, samples: Sequence[float], name: str = "Abacus") -> Ceilings:
    """Ceilings whose float32 product took these seconds, beside a steady copy."""
    steady = {"samples": noisy(1e-3, spread=0.002), "time(s)": 1e-3, "bytes": COPIED}
    timed = {"samples": samples, "time(s)": 1e-3, "size": SIZE}
    document = {"device": "cuda", "matrix_product": {"float32": timed}, "copy": steady}
    return read_ceilings({**document, "environment": {"device_name": name}}, Estimates())


def calls(noisy: Noisy, factors: Sequence[float]) -> list[float]:
    """Calls of 1 ms, 5% of them slow, each made longer by a factor."""
    samples = noisy(1e-3, count=len(factors), spread=0.002)
    return [factor * sample for factor, sample in zip(factors, samples, strict=True)]


@pytest.mark.parametrize(
    ("factors", "state", "drifted"),
    [
        ([1.0] * 40, "measured", False),
        ([1.0] * 14 + [1.08] * 36, "unthrottled", False),  # the H200's float16
        ([1.0] * 40 + [1.08] * 12, "unthrottled", False),
        ([1.0] * 20 + [1.04] * 20, "measured", False),  # within the margin
        ([1.08] * 20 + [1.0] * 20, "measured", True),  # it became faster
        ([1 + 0.2 * i / 60 for i in range(60)], "measured", True),  # steadily, without a step
    ],
)
def test_a_ceiling_that_fell_has_two_states(
    noisy: Noisy, factors: list[float], state: str, drifted: bool
) -> None:
    ceiling = ceilings_of(noisy, calls(noisy, factors)).matrix["float32"]
    assert (ceiling.state, ceiling.has_drifted) == (state, drifted)
    if state == "unthrottled":
        assert ceiling.time.median == pytest.approx(1.0, rel=0.01)
        assert ceiling.sustained_rate == pytest.approx(ceiling.rate / 1.08, rel=0.01)
        assert ceiling.time.count == factors.count(1.0)


def test_a_ceiling_that_fell_soon_and_drifted_for_long_has_two_states(noisy: Noisy) -> None:
    falling = [1.0] * 47 + [1.1 + 0.02 * math.sin(i / 100) for i in range(1000)]
    ceiling = ceilings_of(noisy, calls(noisy, falling)).matrix["float32"]
    assert ceiling.state == "unthrottled"
    assert ceiling.time.count == pytest.approx(47, abs=3)
    drifting = [1 + 0.2 * i / 1000 for i in range(1000)]
    ceiling = ceilings_of(noisy, calls(noisy, drifting)).matrix["float32"]
    assert (ceiling.state, ceiling.has_drifted) == ("measured", True)


@pytest.mark.parametrize("size", [50, 500])
def test_steady_calls_have_one_state_whatever_their_noise(size: int) -> None:
    random = np.random.default_rng(12)
    for spread, slow in itertools.product((0.001, 0.01, 0.05), (0.0, 0.05, 0.2)):
        for _ in range(40 if size == 50 else 5):
            drawn = random.lognormal(sigma=spread, size=size)
            samples = drawn * np.where(random.random(size) < slow, 1.2, 1.0) * 1e-3
            ceiling = read_ceilings(
                {
                    "device": "cuda",
                    "matrix_product": {},
                    "copy": {"samples": list(samples), "time(s)": 1e-3, "bytes": COPIED},
                    "environment": {},
                },
                Estimates(),
            ).copy
            assert ceiling.state == "measured"


def test_a_share_is_one_of_the_unthrottled_ceiling_and_says_so(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep({("Flash2", False, 128): {"forward": noisy(1e-3)}})
    found = ceilings_of(noisy, calls(noisy, [1.0] * 20 + [1.1] * 30))
    (finding,) = [f for f in rooflines(planted, Estimates(), found) if f.metric == "forward_time"]
    assert finding.params["ceiling_state"] == "unthrottled"
    assert finding.params["vendors_rate"] is None
    first, sustained = finding.params["ceiling_rates"]
    assert (first["state"], sustained["state"]) == ("unthrottled", "sustained")
    assert first["rate"] == pytest.approx(1.1 * sustained["rate"], rel=0.01)
    flops = costs.flops(Shape.of(planted.runs[0]))["forward"]
    share = 100 * flops / 1e-3 / found.matrix["float32"].rate
    assert finding.params["matrix_low"] == pytest.approx(share, rel=0.02)
    assert finding.reasons == []


def test_a_share_of_a_ceiling_that_drifted_says_so(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep({("Flash2", False, 128): {"forward": noisy(1e-3)}})
    drifted = ceilings_of(noisy, calls(noisy, [1.08] * 20 + [1.0] * 20))
    for finding in rooflines(planted, Estimates(), drifted):
        assert finding.reasons == [Reason("ceiling_drifted")]


# The bytes that an implementation moves


def test_the_scores_that_exceed_the_cache_count_as_moved_by_the_naive_implementation() -> None:
    shape, cache = Shape(16, 1024, 32, 2048, False), 60 * 2**20
    compulsory = costs.compulsory_bytes(shape, "float16")["forward"]
    assert compulsory == 2**28
    moved = costs.naive_fewest_bytes(shape, "float16", cache)
    assert moved["forward"] == compulsory + 4 * (2**30 - cache)  # an H200 counted 4.87e9
    small = Shape(16, 128, 32, 2048, False)
    compulsory_of_small = costs.compulsory_bytes(small, "float16")
    assert costs.naive_fewest_bytes(small, "float16", cache) == compulsory_of_small


@pytest.mark.parametrize(("name", "verdict"), [("Pytorch", "memory_bound"), ("Flash2", "neither")])
def test_a_run_that_moves_its_scores_is_bound_by_memory(
    sweep: Plant, noisy: Noisy, name: str, verdict: str
) -> None:
    """Compulsory bytes alone come to 2% of the bandwidth; the scores make it 70%."""
    big = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}
    shape, h200 = Shape(16, 1024, 32, 2048, False), "NVIDIA H200"
    moved = costs.naive_fewest_bytes(shape, "float32", 60 * 2**20)["forward"]
    planted = sweep(
        {(name, False, 1024): {"forward": noisy(moved / 4e12 / 0.7)}},
        sizes=lambda n: {**big, "seq_len": n},
    )
    runs = [{**row, "device_name": h200} for row in planted.runs]
    rate = costs.flops(shape)["forward"] / (moved / 4e12 / 0.7) / 0.3
    found = ceilings(noisy, rate, 4e12, name=h200)
    (finding,) = [
        finding
        for finding in rooflines(replace(planted, runs=runs), Estimates(), found)
        if finding.metric == "forward_time"
    ]
    assert finding.verdict == verdict
    assert ("roofline.bytes_known" in finding.sentences) is (name == "Pytorch")
    assert finding.params["vendors_rate"] == 66.9


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


@pytest.mark.parametrize("implementation", ["Flash2", "Pytorch"])
def test_a_value_at_which_the_rate_halves_is_not_passed_over(
    sweep: Plant, noisy: Noisy, implementation: str
) -> None:
    """On a CPU: near the ceiling at every size but one, whose finding no section tells."""
    shares = {128: 62.0, 256: 70.0, 512: 33.0, 1024: 66.0}
    shapes = {
        size: Shape.of(sweep({(implementation, False, size): {"forward": [1.0] * 12}}).runs[0])
        for size in shares
    }
    times = {
        size: costs.flops(shapes[size])["forward"] / 1e9 * 100 / share
        for size, share in shares.items()
    }
    planted = sweep(
        {
            (implementation, False, size): {"forward": noisy(time, spread=0.005)}
            for size, time in times.items()
        }
    )
    found = rooflines(planted, Estimates(), ceilings(noisy, 1e9, 1e15))
    by_verdict = {f.verdict: f for f in found if f.metric == "forward_time"}
    near = by_verdict["compute_bound"]
    assert near.params["values"] == [128, 256, 1024]
    assert near.params["elsewhere_at"] == [512]
    assert near.params["elsewhere_low"] == pytest.approx(33, rel=0.03)
    words = FindingWords(Words(["zh_TW", "en"]), ATTENTION).tell(near, "N")
    low = near.params["elsewhere_low"]
    assert f"At N = 512, it reaches {low}% of the matrix-product rate." in words["en"]
    assert f"N = 512 時，達到矩陣乘法速率的 {low}%。" in words["zh_TW"]
    assert by_verdict["neither"].params["elsewhere_at"] == [128, 256, 1024]
