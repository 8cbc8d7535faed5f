from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from findings.lookups import SHAPE, excluded_run

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.kinds.exact_comparison import exact_comparisons
from flashlab.analysis.kinds.out_of_memory import memory_limits
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run, exact_peak_memory

Plant = Callable[..., Sweep]
SIZES = (128, 256, 512, 1024)
MODELLED = replace(SHAPE, seq_len=128, emb_dim=128)


def shared(peaks: dict[int, float]) -> dict[Any, Any]:
    """Flash2 with this share of Pytorch's peak at each value."""
    runs: dict[Any, Any] = {}
    for size, share in peaks.items():
        runs["Pytorch", False, size] = {"peak": 100.0}
        runs["Flash2", False, size] = {"peak": 100.0 * share}
    return runs


@pytest.mark.parametrize(
    ("peaks", "verdict"),
    [
        ({128: 0.5, 256: 0.25}, "less"),
        ({128: 2.0, 256: 4.0}, "more"),
        ({128: 1.0, 256: 1.0}, "equal"),
        ({128: 0.9999, 256: 1.0}, "equal"),  # as the printed 1.00 says
    ],
)
def test_memory_is_compared_exactly_as_printed(
    sweep: Plant, peaks: dict[int, float], verdict: str
) -> None:
    (found,) = exact_comparisons(sweep(shared(peaks)), Estimates())
    assert found.verdict == verdict
    assert found.params["values"] == [128, 256]
    assert [entry["estimate"] for entry in found.evidence.estimates] == list(peaks.values())


def test_where_it_is_less_and_where_it_is_more_are_two_findings(sweep: Plant) -> None:
    found = exact_comparisons(sweep(shared({128: 0.5, 256: 2.0, 512: 3.0})), Estimates())
    sides = {f.verdict: (f.params["values"], f.params["low"], f.params["high"]) for f in found}
    assert sides == {"less": ([128], 0.5, 0.5), "more": ([256, 512], 2.0, 3.0)}


def test_the_greatest_share_is_where_it_is_and_not_where_it_first_prints_alike(
    sweep: Plant,
) -> None:
    (found,) = exact_comparisons(sweep(shared({128: 1.9, 256: 1.9981, 512: 1.9989})), Estimates())
    assert (found.params["high"], found.params["high_at"]) == (2.0, 512)


def test_a_ratio_is_withheld_where_a_run_is_missing_and_names_it(sweep: Plant) -> None:
    runs = {("Pytorch", False, 128): "oom", ("Flash2", False, 128): {"peak": 1.0}}
    (found,) = exact_comparisons(sweep(runs), Estimates())
    assert (found.verdict, found.params["count"]) == ("withheld", 0)
    assert found.reasons == [excluded_run("Pytorch", 128, "oom")]


def test_the_limit_of_memory_lies_between_what_fitted_and_what_did_not(sweep: Plant) -> None:
    runs: dict[Any, Any] = {("Flash2", False, size): {} for size in SIZES}
    runs |= {("Pytorch", False, size): "oom" if size > 256 else {} for size in SIZES}
    runs |= {("Numpy", False, 128): "oom", ("Numpy", False, 256): "unsupported"}
    found = {f.subject["implementation"]: f for f in memory_limits(sweep(runs), Estimates())}
    limits = {
        name: (f.verdict, f.params["fitted"], f.params["failed"]) for name, f in found.items()
    }
    assert limits == {
        "Pytorch": ("limit_found", [128, 256], [512, 1024]),
        "Flash2": ("none", [128, 256, 512, 1024], []),
        "Numpy": ("limit_found", [], [128]),
    }
    assert found["Numpy"].reasons == [excluded_run("Numpy", 256, "unsupported")]
    assert (found["Pytorch"].params["largest"], found["Pytorch"].reasons) == (256, [])


# The exact model


def modelled(name: str, device_name: str | None = "NVIDIA H200", **changes: Any) -> float | None:
    """What the model gives for a run of the shape of these tests, in float16 on CUDA."""
    provider = "flash-attn 2.8.3" if name == "Flash2" else "torch 2.11.0"
    provider = changes.pop("provider", provider)
    run = attention_run(name, replace(MODELLED, **changes.pop("shape", {})), "float16", "cuda")
    return exact_peak_memory(replace(run, **changes), provider, device_name)


def test_the_model_covers_flash_attn_and_the_naive_implementation() -> None:
    workspaces = 64 * costs.MIB
    flash = costs.flash2_peak_memory(MODELLED)
    naive = costs.naive_peak_memory(MODELLED, workspaces)
    assert modelled("Flash2") == flash / costs.MIB
    assert modelled("Pytorch") == naive / costs.MIB


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cpu"},
        {"dtype": "bfloat16"},
        {"shape": {"seq_len": 63}},
        {"implementation": "SdpaMath"},
        {"provider": "torch 2.11.0 SDPBackend.FLASH_ATTENTION (CUDA)"},
    ],
)
def test_the_model_does_not_cover_another_flash_attention(changes: dict[str, Any]) -> None:
    assert modelled("Flash2", **changes) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"device_name": "Abacus"},
        {"device_name": "NVIDIA B200"},
        {"device_name": None},
        # The allocator leaves a remainder.
        {"shape": {"num_heads": 2, "seq_len": 1024, "emb_dim": 256}},
    ],
)
def test_the_model_does_not_cover_a_naive_run_whose_memory_is_not_exact(
    changes: dict[str, Any],
) -> None:
    assert modelled("Pytorch", **changes) is None


@pytest.mark.parametrize(
    ("device", "workspaces"),
    [
        ("NVIDIA H200", 64 * costs.MIB),
        ("NVIDIA A100-SXM4-40GB", 16.25 * costs.MIB),
        ("NVIDIA GeForce RTX 3070", 16.25 * costs.MIB),
    ],
)
def test_the_model_covers_one_sequence_with_the_devices_workspaces(
    device: str, workspaces: float
) -> None:
    one = {"batch_size": 1}
    expected = costs.naive_peak_memory(replace(MODELLED, **one), int(workspaces)) / costs.MIB
    assert modelled("Pytorch", device, shape=one) == expected


@pytest.mark.parametrize("excess", [0.0, 1.0])
def test_peaks_are_checked_against_the_model_where_it_covers_both(
    planted_on_cuda: Callable[..., Sweep], excess: float
) -> None:
    (found,) = exact_comparisons(planted_on_cuda(excess), Estimates())
    at = ("model_agrees_at", "model_differs_at")
    expected = ([256], []) if excess == 0 else ([], [256])
    assert tuple(found.params[key] for key in at) == expected
    assert found.params["values"] == [2, 256]  # the model does not cover N = 2
    sentence = "model_agrees_at" if excess == 0 else "model_differs_at"
    assert found.sentences[1:] == [f"exact_comparison.{sentence}"]


@pytest.fixture
def planted_on_cuda(sweep: Plant) -> Callable[[float], Sweep]:
    """Peaks as the model has them, the baseline's with some MiB more."""

    def build(excess: float) -> Sweep:
        provider, device_name = "flash-attn 2.8.3", "NVIDIA H200"
        environment = {"provider": provider, "device_name": device_name}
        runs: dict[Any, Any] = {}
        for (name, causal, size), truth in shared({2: 0.5, 256: 0.5}).items():
            shape = replace(SHAPE, seq_len=size, causal=causal)
            run = attention_run(name, shape, "float16", "cuda")
            model = exact_peak_memory(run, provider, device_name)
            extra = excess if name == "Pytorch" else 0
            peak = truth["peak"] if model is None else model + extra
            runs[name, causal, size] = {"peak": peak, "environment": environment}
        return sweep(runs, dtype="float16", device="cuda")

    return build
