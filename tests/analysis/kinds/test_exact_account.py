"""What exact memory consists of, and where a device would be full."""

from __future__ import annotations

from dataclasses import replace

import pytest
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
) -> list[Finding]:
    """Of a sweep over N on an H200 whose peaks are the model's, with some MiB more at 1024."""
    row = {}
    for size, more in ((512, 0.0), (1024, excess)):
        shape = replace(BASE, seq_len=size, batch_size=batch_size)
        run = attention_run(name, shape, "float16", "cuda")
        peak = exact_peak_memory(run, PROVIDERS[name], DEVICE)
        environment = {"provider": PROVIDERS[name], "device_name": device}
        row[size] = {"peak": (peak or 0.0) + more, "environment": environment}
    sizes = {"batch_size": batch_size, "num_heads": 32, "emb_dim": 2048}
    planted = sweep(
        {name: row}, sizes=lambda n: {"seq_len": n, **sizes}, dtype="float16", device="cuda"
    )
    return derived(EXACT_ACCOUNT, planted)


@pytest.mark.parametrize(
    ("name", "excess", "value", "part", "share"),
    [
        ("Pytorch", 0.0, 1024, "the N × N scores", 86.5),
        ("Flash2", 0.0, 1024, "q, k and v with their gradients or copies", 59.6),
        # A peak that is not the model's is not explained by it.
        ("Pytorch", 1.0, 512, "the N × N scores", 74.4),
    ],
)
def test_a_peak_is_explained_by_its_parts(
    sweep: Plant, name: str, excess: float, value: int, part: str, share: float
) -> None:
    (found,) = account(sweep, name, excess)
    facts = found.facts
    assert (found.verdict, facts["value"], facts["share"]) == ("explained", value, share)
    assert facts["largest_part"].texts["en"] == part
    assert ("exact_account.differs" in keys(found)) is (excess > 0)
    largest = max(found.estimates[-1]["parts"].values())
    assert quoted(found)["part_size"] == pytest.approx(largest)


def test_the_size_at_which_the_device_is_full_is_the_last_that_fits_the_model(
    sweep: Plant,
) -> None:
    (found,) = account(sweep, "Pytorch", batch_size=1)
    assert quoted(found)["full_at"] == 24100
    capacity = memory_capacity(DEVICE)
    fits = []
    for size in (24100, 24200):
        run = attention_run("Pytorch", replace(BASE, batch_size=1, seq_len=size), "float16", "cuda")
        fits.append(sum((memory_parts(run, "", DEVICE) or {}).values()) <= (capacity or 0))
    assert fits == [True, False]


def test_without_the_devices_facts_the_model_says_nothing_of_the_naive_one(sweep: Plant) -> None:
    assert account(sweep, "Pytorch", device="Abacus") == []
    (found,) = account(sweep, "Flash2", device="Abacus")
    assert keys(found) == ["exact_account.explained"]


def test_peaks_that_the_model_gives_nowhere_are_unexplained(sweep: Plant) -> None:
    environment = {"provider": PROVIDERS["Pytorch"], "device_name": DEVICE}
    runs = {"Pytorch": {512: {"peak": 1.0, "environment": environment}}}
    (found,) = derived(EXACT_ACCOUNT, sweep(runs, dtype="float16", device="cuda"))
    assert (found.verdict, found.statements) == ("unexplained", ())
