"""What exact memory consists of, and where a device would be full."""

from __future__ import annotations

from dataclasses import replace

from analysis.deriving import Plant, derived, keys
from planted.experiments import SHAPE

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.exact_account import EXACT_ACCOUNT
from flashlab.benchmarks.attention.declaration import (
    attention_run,
    exact_peak_memory,
)

DEVICE = "NVIDIA H200"
BASE = replace(SHAPE, batch_size=16, num_heads=32, emb_dim=2048)
PROVIDERS = {"Pytorch": "torch 2.11.0", "Flash2": "flash-attn 2.8.3"}


def account(
    experiment: Plant, name: str, excess: float = 0.0, device: str = DEVICE
) -> list[Finding]:
    """Of a sweep over N on an H200 whose peaks are the model's, with some MiB more at 1024."""
    row = {}
    for size, more in ((512, 0.0), (1024, excess)):
        shape = replace(BASE, seq_len=size)
        run = attention_run(name, shape, "float16", "cuda")
        peak = exact_peak_memory(run, PROVIDERS[name], DEVICE)
        environment = {"provider": PROVIDERS[name], "device_name": device}
        row[size] = {"peak": (peak or 0.0) + more, "environment": environment}
    sizes = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}
    planted = experiment(
        {name: row}, sizes=lambda n: {"seq_len": n, **sizes}, dtype="float16", device="cuda"
    )
    return derived(EXACT_ACCOUNT, planted)


def test_without_the_devices_facts_the_model_says_nothing_of_the_naive_one(
    experiment: Plant,
) -> None:
    assert account(experiment, "Pytorch", device="Abacus") == []
    (found,) = account(experiment, "Flash2", device="Abacus")
    assert keys(found) == ["exact_account.explained"]


def test_peaks_that_the_model_gives_nowhere_are_unexplained(experiment: Plant) -> None:
    environment = {"provider": PROVIDERS["Pytorch"], "device_name": DEVICE}
    runs = {"Pytorch": {512: {"peak": 1.0, "environment": environment}}}
    (found,) = derived(EXACT_ACCOUNT, experiment(runs, dtype="float16", device="cuda"))
    assert (found.verdict, found.statements) == ("unexplained", ())
