"""Each implementation timed by a script of its own at six shapes, beside what the records say.

Nothing of FlashLab's measuring takes part: q, k and v are separate leaves (B, N, H, D), packages
are called by their own functions, and Triton's `do_bench` times both passes (median of --ms
milliseconds of calls, each after a flush of the L2 cache). Beside a time stands its ratio to that
of the records of the same run, the median over processes.

Usage, on a GPU: PYTHONPATH=workflow python perf/fairness.py [--ms 500] RECORDS...
RECORDS are folders of records.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from triton.testing import do_bench

from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

PASSES = ("forward", "backward")
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

SHAPES = (
    (16, 1024, 32, 64, False),
    (16, 1024, 32, 64, True),
    (16, 128, 32, 64, False),
    (4, 4096, 32, 64, False),
    (1, 16384, 32, 64, True),
    (4, 4096, 32, 64, True),
)
"""(B, N, H, D, causal)."""


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """The course's formula."""
    B, N, H, D = q.shape
    q = q.transpose(1, 2).reshape(B * H, N, D)
    k = k.permute(0, 2, 3, 1).reshape(B * H, D, N)
    scores = torch.empty(B * H, N, N, dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(scores, q, k, beta=0, alpha=D**-0.5).view(B, H, N, N)
    if causal:
        scores = scores + torch.triu(torch.full((N, N), -10000.0, device=q.device), 1).half()
    return torch.einsum("bhts,bshd->bthd", torch.softmax(scores, dim=-1), v)


def by_sdpa(backend: SDPBackend) -> Callable[..., torch.Tensor]:
    """PyTorch's attention with one backend."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        heads = (x.transpose(1, 2) for x in (q, k, v))
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2)

    return attention


def by_flash_attn(module: str) -> Callable[..., torch.Tensor]:
    """The function of flash-attn 2, or of flash-attn-4, which returns the LSE, too."""
    function = importlib.import_module(module).flash_attn_func

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        found = function(q, k, v, causal=causal)
        return found[0] if isinstance(found, tuple) else found

    return attention


def by_flex() -> Callable[..., torch.Tensor]:
    """FlexAttention, compiled."""
    torch._functorch.config.donated_buffer = False
    compiled = torch.compile(flex_attention, dynamic=False)
    mask_of = functools.cache(
        lambda N: create_block_mask(lambda b, h, t, s: t >= s, None, None, N, N, "cuda")
    )

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        heads = (x.transpose(1, 2) for x in (q, k, v))
        return compiled(*heads, block_mask=mask_of(q.shape[1]) if causal else None).transpose(1, 2)

    return attention


MAKERS: dict[str, Callable[[], Callable[..., torch.Tensor]]] = {
    "Pytorch": lambda: naive,
    "Flash2": lambda: by_flash_attn("flash_attn"),
    "Flash4": lambda: by_flash_attn("flash_attn.cute"),
    "SdpaCudnn": lambda: by_sdpa(SDPBackend.CUDNN_ATTENTION),
    "SdpaEfficient": lambda: by_sdpa(SDPBackend.EFFICIENT_ATTENTION),
    "SdpaMath": lambda: by_sdpa(SDPBackend.MATH),
    "Flex": by_flex,
    "FlashLab": lambda: load_kernel(KERNELS / "flash_lab.py").separate_attention,
}
"""Flash3 is apart: its operators have no gradient of their own."""

Passes = tuple[Callable[[], object], Callable[[], object]]


def passes_by_autograd(
    attention: Callable[..., torch.Tensor], inputs: Tensors, causal: bool
) -> Passes:
    """A forward pass as in training, and the backward pass of another."""
    out = attention(*inputs, causal)
    grad = torch.randn_like(out)
    return (
        lambda: attention(*inputs, causal),
        lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True),
    )


def passes_of_flash3(inputs: Tensors, causal: bool) -> Passes:
    """FlashAttention-3's two operators."""
    load_kernel(KERNELS / "flash3.py")._load()
    operators = torch.ops.flash_attn_3
    qkv, scale = [x.detach() for x in inputs], inputs[0].shape[-1] ** -0.5

    def forward() -> tuple[torch.Tensor, ...]:
        return operators.fwd(*qkv, softmax_scale=scale, is_causal=causal, num_splits=1)

    out, lse, *_ = forward()
    given = torch.randn_like(out), *qkv, out, lse, *map(torch.empty_like, qkv)
    return forward, lambda: operators.bwd(*given, softmax_scale=scale, is_causal=causal)


def recorded_times(folders: list[Path]) -> dict[tuple[object, ...], list[float]]:
    """ms by implementation, shape and pass: the medians of all processes by `sampled`."""
    found = defaultdict(list)
    for path in (path for folder in folders for path in sorted(folder.glob("*.json"))):
        record = json.loads(path.read_text())["record"]
        if record["status"] == "ok" and record["protocol"]["name"] == "sampled":
            run = record["run"]
            D = run["emb_dim"] // run["num_heads"]
            shape = (run["batch_size"], run["seq_len"], run["num_heads"], D, run["causal"])
            for name in PASSES:
                time = record["metrics"][f"{name}_time"]["value"]
                found[run["implementation"], *shape, name].append(time)
    return found


def main() -> None:
    """Print a line for each shape, implementation and pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--ms", type=int, default=500)
    arguments = parser.parse_args()
    recorded = recorded_times(arguments.records)
    makers = {name: functools.partial(passes_by_autograd, make()) for name, make in MAKERS.items()}
    for B, N, H, D, causal in SHAPES:
        of = {"device": "cuda", "dtype": torch.half, "requires_grad": True}
        q, k, v = (torch.randn(B, N, H, D, **of) for _ in range(3))
        for name, passes in {**makers, "Flash3": passes_of_flash3}.items():
            for which, call in zip(PASSES, passes((q, k, v), causal), strict=True):
                ms = do_bench(call, arguments.ms // 2, arguments.ms, return_mode="median")
                known = recorded.get((name, B, N, H, D, causal, which))
                ratio = f" {ms / statistics.median(known):.3f}" if known else ""
                mask = "causal" if causal else "full"
                print(f"B{B} N{N} H{H} D{D} {mask} {name} {which} {ms:.4f}{ratio}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
