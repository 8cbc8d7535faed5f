"""What exact memory consists of, and where a device would be full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from findings.lookups import SHAPE

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.exact_account import accounts
from flashlab.benchmarks.attention.declaration import (
    attention_run,
    exact_peak_memory,
    memory_capacity,
    memory_parts,
)

Plant = Callable[..., Sweep]
DEVICE = "NVIDIA H200"
BASE = replace(SHAPE, batch_size=16, num_heads=32, emb_dim=2048)


@pytest.fixture
def modelled(sweep: Plant) -> Callable[..., Sweep]:
    """A sweep over N on an H200 whose peaks are the model's, with some MiB more at 1024."""

    def build(excess: float = 0.0, batch_size: int = 16, device: str = DEVICE) -> Sweep:
        runs: dict[Any, Any] = {}
        for name, provider in (("Pytorch", "torch 2.11.0"), ("Flash2", "flash-attn 2.8.3")):
            for size in (512, 1024):
                shape = replace(BASE, seq_len=size, batch_size=batch_size)
                run = attention_run(name, shape, "float16", "cuda")
                peak = exact_peak_memory(run, provider, DEVICE)
                assert peak is not None
                environment = {"provider": provider, "device_name": device}
                more = excess if size == 1024 else 0.0
                runs[name, False, size] = {"peak": peak + more, "environment": environment}
        return sweep(
            runs,
            sizes=lambda n: (
                {"seq_len": n, "batch_size": batch_size} | {"num_heads": 32, "emb_dim": 2048}
            ),
            dtype="float16",
            device="cuda",
        )

    return build


def found(sweep: Sweep) -> dict[str, Finding]:
    return {f.subject["implementation"]: f for f in accounts(sweep, Estimates())}


def test_the_naive_peak_is_scores_above_all_and_fills_the_device(
    modelled: Callable[..., Sweep],
) -> None:
    naive = found(modelled())["Pytorch"]
    params = naive.params
    assert (naive.verdict, params["value"], params["whole"]) == ("explained", 1024, 4736.0)
    assert (params["largest_part"]["en"], params["part_size"]) == ("the N × N scores", 4096.0)
    assert params["share"] == 86.5
    parts = naive.estimates[-1]["parts"]
    assert parts == {"scores": 4096.0, "inputs": 384.0, "output": 192.0, "workspaces": 64.0}


def test_the_size_at_which_the_device_is_full_is_the_last_that_fits_the_model(
    modelled: Callable[..., Sweep],
) -> None:
    params = found(modelled(batch_size=1))["Pytorch"].params
    assert params["full_at"] == 24100

    def needed(size: int) -> float:
        shape = replace(BASE, batch_size=1, seq_len=size)
        parts = memory_parts(attention_run("Pytorch", shape, "float16", "cuda"), "", DEVICE)
        assert parts is not None
        return sum(parts.values())

    capacity = memory_capacity(DEVICE)
    assert capacity is not None and needed(24100) <= capacity < needed(24200)


def test_flash_attention_holds_its_inputs_above_all(modelled: Callable[..., Sweep]) -> None:
    params = found(modelled())["Flash2"].params
    assert params["largest_part"]["en"].startswith("q, k and v")
    assert params["full_at"] > 100_000


def test_a_peak_that_is_not_the_models_is_not_explained_by_it(
    modelled: Callable[..., Sweep],
) -> None:
    naive = found(modelled(excess=1.0))["Pytorch"]
    assert (naive.verdict, naive.params["value"]) == ("explained", 512)
    assert naive.params["model_differs_at"] == [1024]
    assert naive.sentences[-1] == "exact_account.differs"


def test_without_the_devices_facts_the_model_says_nothing_of_the_naive_one(
    modelled: Callable[..., Sweep],
) -> None:
    assert found(modelled(device="Abacus")).keys() == {"Flash2"}
    assert "full_at" not in found(modelled(device="Abacus"))["Flash2"].params
