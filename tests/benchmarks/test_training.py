"""Training: the model, its gradients, the text, the schedule, and one run compiled and not.

The compiled run is traced and differentiated as torch.compile does it, but for the last step, C++
of the graphs, which takes most of a minute. FLASHLAB_BACKEND=inductor takes that too, by hand.
"""

from __future__ import annotations

import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from flashlab.benchmarks.implementations import KERNELS
from flashlab.benchmarks.training import busy, gate
from flashlab.benchmarks.training.configuration import HyperParamError, read_hyper_param
from flashlab.benchmarks.training.declaration import flops, parameter_count
from flashlab.benchmarks.training.model import GPT, GPTConfig
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.kernel import load_kernel

BACKEND = os.environ.get("FLASHLAB_BACKEND", "aot_eager")
SEED_SIZES = {
    **{"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024},
    **{"batch_size": 6, "gradient_accumulation_steps": 5},
}
TINY: dict[str, Any] = {
    **{"n_layer": 1, "n_head": 2, "n_embd": 32, "block_size": 16, "batch_size": 2},
    **{"gradient_accumulation_steps": 2, "compile": False, "seed": 1337},
    **{"dtype": "float32", "device": "cpu"},
}
SETTINGS: dict[str, Any] = {
    **{"name": "training", "max_iters": 24, "min_iters": 10, "max_seconds": 0.0},
    **{"relative_interval": 0.01, "learning_rate": 1e-3, "min_lr": 1e-4, "decay_lr": True},
    **{"warmup_iters": 4, "weight_decay": 1e-2, "beta1": 0.9, "beta2": 0.95, "dropout": 0.0},
    "bias": False,
}


def test_parameters_and_flops_are_those_that_nanogpt_publishes() -> None:
    with torch.device("meta"):
        model = GPT(GPTConfig(12, 12, 768, 1024, 65), gate.reference_attention)
    without_positions = sum(p.numel() for p in model.parameters()) - model.wpe.weight.numel()
    assert without_positions == parameter_count(SEED_SIZES) == 85_003_776
    tokens = 6 * 1024 * 5
    assert flops(SEED_SIZES) == tokens * (6 * 85_003_776 + 12 * 12 * 768 * 1024)


def gradient_errors(attention: gate.Attention) -> list[float]:
    torch.manual_seed(0)
    model = GPT(GPTConfig(2, 2, 32, 16, 65), attention)
    batch = torch.randint(65, (2, 16)), torch.randint(65, (2, 16))
    return list(gate.check_gradients(model, model, *batch, TINY)["errors"].values())


@pytest.mark.parametrize("name", ["pytorch", "flash2", "sdpa_math"])
def test_gradients_agree_with_float64(name: str) -> None:
    assert max(gradient_errors(load_kernel(KERNELS / f"{name}.py").attention)) < 1e-5


@pytest.mark.parametrize(("scale", "masked"), [(1.2, True), (1.0, False)])
def test_the_gate_refuses_a_missing_mask_and_a_wrong_scale(scale: float, masked: bool) -> None:
    def wrong(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
        scaled = torch.cat([qkv[:, :, :1] * scale, qkv[:, :, 1:]], dim=2)
        return gate.reference_attention(scaled, causal and masked)

    with pytest.raises(IncorrectError, match="query_key_gradient") as refused:
        gradient_errors(wrong)
    assert refused.value.compared is not None


def test_a_compiled_run_trains_like_an_eager_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import cumulative_time_spent_ns

    from flashlab.benchmarks.training import measure

    cumulative_time_spent_ns.clear()  # as in a process of its own: other tests have compiled
    kernel = load_kernel(KERNELS / "pytorch.py")
    eager = measure.measure(kernel, TINY, SETTINGS)
    losses, times = eager["curves"]["loss"], eager["metrics"]["iteration_time"]
    assert losses[0] == pytest.approx(math.log(65), rel=0.02) and losses[-1] < losses[0]
    assert len(losses) == len(times["samples"]) + 10 and times["stopped"] in ("interval", "time")
    assert eager["metrics"].keys() == {"iteration_time", "first_step", "peak_memory"}
    assert eager["details"]["text"]["training_tokens"] == 1_003_854
    assert eager["gate"]["errors"]["gradient"] < 1e-5

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=BACKEND))
    compiled = measure.measure(kernel, {**TINY, "compile": True}, SETTINGS)
    metrics = compiled["metrics"]
    assert 0 < metrics["compile_time"]["value"] < metrics["first_step"]["value"]
    assert compiled["details"]["compiled"]["graphs"] == 1
    steps = min(len(losses), len(compiled["curves"]["loss"]))
    assert compiled["curves"]["loss"][:steps] == pytest.approx(losses[:steps], abs=1e-4)


def test_overlapping_kernels_are_busy_once() -> None:
    # Two streams at once, one kernel within another, one right after another, a gap; in any order.
    assert busy.covered([(20, 21), (0, 9), (7, 10), (1, 2), (10, 12), (12, 12)]) == 13
    assert busy.busy_iteration(lambda: None, "cpu") is None, "where the profiler sees nothing"


def test_hyper_param_json_is_configuration(tmp_path: Path) -> None:
    file = tmp_path / "hyper_param.json"
    given = {"compile": True, "attn_type": "flash_attn", "n_layer": 6, "batch_size": 3}
    given |= {"learning_rate": 1e-3, "dataset": "shakespeare_char", "out_dir": "out"}
    file.write_text(json.dumps(given))
    found, notices = read_hyper_param(file, ["attention", "seeds"])
    sizes = {"n_layer": 6, "batch_size": 3}
    assert found["experiments"][1] == {"use": "seeds", "cuda": sizes}
    assert found["measure"]["training"] == {"learning_rate": 1e-3}
    assert [notice.partition(" is not taken: ")[0] for notice in notices] == [
        f"{file}: {key}" for key in ("compile", "attn_type", "dataset", "out_dir")
    ]
    file.write_text('{"layers": 12}')
    with pytest.raises(HyperParamError, match=r"layers: is not a key of .*; known: n_layer"):
        read_hyper_param(file, [])
