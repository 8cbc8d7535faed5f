"""What exact memory consists of, and where a device would be full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.deriving import Plant, derived, keys, quoted
from planted.sweeps import SHAPE

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.exact_account import EXACT_ACCOUNT
from flashlab.benchmarks.attention.declaration import (
    attention_run,
    exact_peak_memory,
    memory_capacity,
    memory_parts,
)

DEVICE = "NVIDIA H200"
BASE = replace(SHAPE, batch_size=16, num_heads=32, emb_dim=2048)
PROVIDERS = {"Pytorch": "torch 2.11.0", "Flash2": "flash-attn 2.8.3"}


def account(
    sweep: Plant, name: str, excess: float = 0.0, batch_size: int = 16, device: str = DEVICE
) -> Finding | None:
    """Of a sweep over N on an H200 whose peaks are the model's, with some MiB more at 1024."""
    row: dict[int, Any] = {}
    for size in (512, 1024):
        shape = replace(BASE, seq_len=size, batch_size=batch_size)
        peak = exact_peak_memory(
            attention_run(name, shape, "float16", "cuda"), PROVIDERS[name], DEVICE
        )
        assert peak is not None
        environment = {"provider": PROVIDERS[name], "device_name": device}
        row[size] = {"peak": peak + (excess if size == 1024 else 0.0), "environment": environment}
    planted = sweep(
        {name: row},
        sizes=lambda n: {"seq_len": n, "batch_size": batch_size, "num_heads": 32, "emb_dim": 2048},
        dtype="float16",
        device="cuda",
    )
    return next(iter(derived(EXACT_ACCOUNT, planted)), None)


def test_the_naive_peak_is_scores_above_all(sweep: Plant) -> None:
    found = account(sweep, "Pytorch")
    assert found is not None
    facts, told = found.facts, quoted(found)
    assert (found.verdict, facts["value"], told["whole"]) == ("explained", 1024, 4736.0)
    assert (facts["largest_part"].texts["en"], told["part_size"]) == ("the N × N scores", 4096.0)
    assert facts["share"] == 86.5
    parts = {"scores": 4096.0, "inputs": 384.0, "output": 192.0, "workspaces": 64.0}
    assert found.estimates[-1]["parts"] == parts


def test_flash_attention_holds_its_inputs_above_all(sweep: Plant) -> None:
    found = account(sweep, "Flash2")
    assert found is not None and found.facts["largest_part"].texts["en"].startswith("q, k and v")
    assert quoted(found)["full_at"] > 100_000


def test_the_size_at_which_the_device_is_full_is_the_last_that_fits_the_model(
    sweep: Plant,
) -> None:
    found = account(sweep, "Pytorch", batch_size=1)
    assert found is not None and quoted(found)["full_at"] == 24100

    def needed(size: int) -> float:
        shape = replace(BASE, batch_size=1, seq_len=size)
        parts = memory_parts(attention_run("Pytorch", shape, "float16", "cuda"), "", DEVICE)
        assert parts is not None
        return sum(parts.values())

    capacity = memory_capacity(DEVICE)
    assert capacity is not None and needed(24100) <= capacity < needed(24200)


def test_a_peak_that_is_not_the_models_is_not_explained_by_it(sweep: Plant) -> None:
    found = account(sweep, "Pytorch", excess=1.0)
    assert found is not None
    assert (found.verdict, found.facts["value"]) == ("explained", 512)
    assert keys(found)[-1] == "exact_account.differs"
    assert quoted(found)["model_differs_at"].items == [1024]


def test_without_the_devices_facts_the_model_says_nothing_of_the_naive_one(sweep: Plant) -> None:
    assert account(sweep, "Pytorch", device="Abacus") is None
    found = account(sweep, "Flash2", device="Abacus")
    assert found is not None and keys(found) == ["exact_account.explained"]


def test_peaks_that_the_model_gives_nowhere_are_unexplained(sweep: Plant) -> None:
    environment = {"provider": PROVIDERS["Pytorch"], "device_name": DEVICE}
    runs = {"Pytorch": {512: {"peak": 1.0, "environment": environment}}}
    (found,) = derived(EXACT_ACCOUNT, sweep(runs, dtype="float16", device="cuda"))
    assert (found.verdict, found.statements) == ("unexplained", ())
