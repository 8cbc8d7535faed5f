"""Each implementation timed by a script of its own at six shapes, beside what the records say.

Nothing of FlashLab's measuring takes part: q, k and v are separate leaves (B, N, H, D), packages
are called by their own functions, and Triton's `do_bench` times both passes (median of 500 ms of
calls, each after a flush of the L2 cache). Beside a time stands that of the records of the same
run, the median over processes, over it.

Usage, on a GPU: PYTHONPATH=workflow python perf/fairness.py [FOLDER OF RECORDS ...]
"""

from __future__ import annotations

import functools
import importlib
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from triton.testing import do_bench

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS
from flashlab.checking.shapes import shape_text
from flashlab.measuring.kernel import load_kernel
from flashlab.records import read_record

PASSES = ("forward", "backward")
SIZES = (
    *((16, 1024, False), (16, 1024, True), (16, 128, False)),
    *((4, 4096, False), (1, 16384, True), (4, 4096, True)),
)
SHAPES = [Shape(b, n, 32, 2048, causal) for b, n, causal in SIZES]

Tensor = torch.Tensor


def naive(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """The course's formula."""
    B, N, H, D = q.shape
    q = q.transpose(1, 2).reshape(B * H, N, D)
    k = k.permute(0, 2, 3, 1).reshape(B * H, D, N)
    scores = torch.empty(B * H, N, N, dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(scores, q, k, beta=0, alpha=D**-0.5).view(B, H, N, N)
    if causal:
        scores = scores + torch.triu(torch.full((N, N), -10000.0, device=q.device), 1).half()
    return torch.einsum("bhts,bshd->bthd", torch.softmax(scores, dim=-1), v)


def by_sdpa(backend: SDPBackend, *qkv: Tensor, causal: bool) -> Tensor:
    """PyTorch's attention with one backend."""
    with sdpa_kernel(backend):
        heads = (x.transpose(1, 2) for x in qkv)
        return scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2)


def by_flash_attn(module: str, *qkv: Tensor, causal: bool) -> Tensor:
    """The function of flash-attn 2, or of flash-attn-4, which returns the LSE, too."""
    found = importlib.import_module(module).flash_attn_func(*qkv, causal=causal)
    return found[0] if isinstance(found, tuple) else found


mask_of = functools.cache(
    lambda N: create_block_mask(lambda b, h, t, s: t >= s, None, None, N, N, "cuda")
)
flex = torch.compile(flex_attention, dynamic=False)


def by_flex(*qkv: Tensor, causal: bool) -> Tensor:
    """FlexAttention, compiled."""
    torch._functorch.config.donated_buffer = False
    mask = mask_of(qkv[0].shape[1]) if causal else None
    return flex(*(x.transpose(1, 2) for x in qkv), block_mask=mask).transpose(1, 2)


def by_flash3(*qkv: Tensor, causal: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Both passes as FlashAttention-3's two operators, which have no gradient of their own."""
    load_kernel(KERNELS / "flash3.py")._load()
    operators, scale = torch.ops.flash_attn_3, qkv[0].shape[-1] ** -0.5
    plain = [x.detach() for x in qkv]
    forward = functools.partial(
        operators.fwd, *plain, softmax_scale=scale, is_causal=causal, num_splits=1
    )
    out, lse, *_ = forward()
    given = torch.randn_like(out), *plain, out, lse, *map(torch.empty_like, plain)
    return forward, lambda: operators.bwd(*given, softmax_scale=scale, is_causal=causal)


ATTENTIONS: dict[str, Callable[..., Tensor]] = {
    "Pytorch": naive,
    "Flash2": functools.partial(by_flash_attn, "flash_attn"),
    "Flash4": functools.partial(by_flash_attn, "flash_attn.cute"),
    "SdpaCudnn": functools.partial(by_sdpa, SDPBackend.CUDNN_ATTENTION),
    "SdpaEfficient": functools.partial(by_sdpa, SDPBackend.EFFICIENT_ATTENTION),
    "SdpaMath": functools.partial(by_sdpa, SDPBackend.MATH),
    "Flex": by_flex,
    "FlashLab": load_kernel(KERNELS / "flash_lab.py").separate_attention,
}


def passes_of(name: str, *qkv: Tensor, causal: bool) -> tuple[Callable[[], object], ...]:
    """A forward pass as in training, and the backward pass of another."""
    if name == "Flash3":
        return by_flash3(*qkv, causal=causal)
    forward = functools.partial(ATTENTIONS[name], *qkv, causal=causal)
    out = forward()
    return forward, functools.partial(
        torch.autograd.grad, out, qkv, torch.randn_like(out), retain_graph=True
    )


def main(folders: list[str]) -> None:
    """Print a line for each shape, implementation and pass."""
    recorded = defaultdict(list)
    for path in (path for folder in folders for path in Path(folder).glob("*.json")):
        record = read_record(path)
        if record.status == "ok" and record.protocol["name"] == "sampled":
            for which in PASSES:
                time = record.metrics[f"{which}_time"].value
                recorded[record.run.implementation, Shape.of(record.run), which].append(time)
    for shape, name in product(SHAPES, (*ATTENTIONS, "Flash3")):
        size = shape.batch_size, shape.seq_len, shape.num_heads, shape.head_dim
        of = {"device": "cuda", "dtype": torch.half, "requires_grad": True}
        qkv = (torch.randn(size, **of) for _ in range(3))
        for which, call in zip(PASSES, passes_of(name, *qkv, causal=shape.causal), strict=True):
            ms = do_bench(call, 250, 500, return_mode="median")
            known = recorded.get((name, shape, which))
            ratio = f" {statistics.median(known) / ms:.3f}" if known else ""
            print(f"{shape_text(shape)} {name} {which} {ms:.4f}{ratio}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
