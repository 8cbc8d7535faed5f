"""FlashLab's kernels on a real GPU: right everywhere, and as usable as PyTorch's own operators."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from attention_reference import reference_passes, separate_passes

from flashlab import machine
from flashlab.benchmarks.attention.gate import relative_error
from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

pytestmark = pytest.mark.gpu
HALF = torch.float16

HEAD_DIMS = (8, 16, 40, 64, 80, 96, 112, 128, 160, 192, 200, 256)
TOLERANCES = {HALF: 1e-3, torch.bfloat16: 8e-3}
SANITIZED = """
import sys
from pathlib import Path
from flashlab.measuring.kernel import load_kernel
import torch
load_kernel(Path(sys.argv[1]))
from kernels.flashlab import operator
for head_dim in (64, 80, 192, 256):
    for seq_len, causal, deterministic in ((100, 0, False), (640, 1, True), (1024, 1, False)):
        qkv = torch.randn(
            1, seq_len, 3, 2, head_dim, device="cuda", dtype=torch.float16, requires_grad=True
        )
        out = operator.attention(qkv, bool(causal), deterministic)
        out.backward(torch.ones_like(out))
torch.cuda.synchronize()
"""


pytest.importorskip("triton")
if not machine.gpus():  # loading the kernels takes seconds of each worker
    pytest.skip("no NVIDIA GPU", allow_module_level=True)
load_kernel(KERNELS / "flash_lab.py")
operator, choices, launcher = (
    importlib.import_module(f"kernels.flashlab.{name}")
    for name in ("operator", "choices", "launcher")
)


def randn(*size: int, dtype: torch.dtype = HALF) -> torch.Tensor:
    return torch.randn(size, device="cuda", dtype=dtype)


def random_qkv(*size: int, dtype: torch.dtype = HALF) -> torch.Tensor:
    """(B, N, 3, H, D) of the given B, N, H, D."""
    B, N, H, D = size
    return randn(B, N, 3, H, D, dtype=dtype).requires_grad_()


def leave_nan_in_free_memory() -> None:
    """So that an element that a kernel does not write is found."""
    torch.full((2**26,), torch.nan, device="cuda", dtype=HALF)


def assert_right(
    found: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    told: object = None,
    tolerance: float = 1e-3,
) -> None:
    for mine, right in zip(found, expected, strict=True):
        assert mine.shape == right.shape
        # dQ and dK of a single position are 0.
        error = relative_error(mine, right) if right.any() else mine.abs().max().item()
        assert error <= tolerance, (told, error)


def both_passes(
    attention: Callable[..., torch.Tensor], qkv: torch.Tensor, causal: bool, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    qkv.grad = None
    out = attention(qkv, causal)
    out.backward(grad)
    assert qkv.grad is not None
    return out.detach(), qkv.grad


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_both_passes_agree_with_float64_at_any_length(head_dim: int, dtype: torch.dtype) -> None:
    lengths = [1, 64, 128, 1536, 4097, *random.Random(head_dim).sample(range(2, 4096), 4)]
    for seq_len in lengths:
        for causal in (False, True):
            qkv = random_qkv(2, seq_len, 2, head_dim, dtype=dtype)
            grad = randn(2, seq_len, 2, head_dim, dtype=dtype)
            expected = reference_passes(qkv, grad, causal)
            for deterministic in (False, True):
                leave_nan_in_free_memory()
                attention = partial(operator.attention, deterministic=deterministic)
                found = both_passes(attention, qkv, causal, grad)
                told = seq_len, causal, deterministic
                assert_right(found, expected, told, TOLERANCES[dtype])


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_a_deterministic_gradient_has_the_same_bits_at_each_call(head_dim: int) -> None:
    qkv = random_qkv(1, 2048, 8, head_dim)
    outs = (operator.attention(qkv, True, deterministic=True) for _ in range(5))
    grads = [torch.autograd.grad(out, qkv, torch.ones_like(out))[0] for out in outs]
    assert all(torch.equal(found, grads[0]) for found in grads)


def random_view(choose: random.Random, *size: int, dtype: torch.dtype) -> torch.Tensor:
    """(B, N, H, D) in a random order in memory, perhaps a part of a wider tensor."""
    wider = [n + choose.choice((0, 0, 8)) for n in size[1:]]
    order = choose.choice(((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)))
    memory = randn(*((size[0], *wider)[i] for i in order), dtype=dtype)
    back = [order.index(i) for i in range(4)]
    return memory.permute(back)[:, : size[1], : size[2], : size[3]]


@pytest.mark.parametrize("seed", range(48))
def test_random_problems_in_all_ways(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Heads that share keys side by side or apart, dQ alone or added up over head_dim 128."""
    choose = random.Random(seed)
    torch.manual_seed(seed)

    def wide(head_dim: int, *given: Any) -> Any:
        alone, added = choices.WIDE[192 if head_dim <= 192 else 256]
        ways = (alone, added, replace(added, splits=True))
        return alone if given[-1] else choose.choice(ways)  # if deterministic

    monkeypatch.setattr(choices, "splits", lambda *_: choose.random() < 0.5)
    if seed % 3:
        monkeypatch.setattr(choices, "wide", wide)
    for _ in range(8):
        B, kv_heads, group = choose.randint(1, 4), choose.randint(1, 5), choose.choice((1, 1, 2, 3))
        N = choose.choice((choose.randint(8, 300), choose.randint(300, 3400)))
        D, causal = 8 * choose.randint(1, 32), choose.random() < 0.6
        deterministic = choose.random() < 0.2
        dtype, scale = choose.choice(list(TOLERANCES)), choose.choice((0.1, 1, 1, 3))
        heads = (kv_heads * group, kv_heads, kv_heads)
        q, k, v = (random_view(choose, B, N, each, D, dtype=dtype) for each in heads)
        inputs = [x.requires_grad_() for x in (q.mul_(scale), k, v)]
        grad = randn(B, N, heads[0], D, dtype=dtype)
        expected = separate_passes(*inputs, grad, causal)
        for launch in ("Python's", "C++'s"):
            leave_nan_in_free_memory()
            out = operator.separate_attention(*inputs, causal, deterministic)
            found = [out.detach(), *torch.autograd.grad(out, inputs, grad)]
            told = (launch, q.shape, kv_heads, causal, deterministic, dtype)
            assert_right(found, expected, told, TOLERANCES[dtype] * max(1, scale))


@pytest.mark.parametrize(("head_dim", "seq_len"), [(64, 100), (64, 1000), (128, 777), (256, 300)])
def test_later_calls_are_in_cpp(
    monkeypatch: pytest.MonkeyPatch, head_dim: int, seq_len: int
) -> None:
    if launcher.reason_for_python():
        pytest.skip(f"launches are Python's: {launcher.reason_for_python()}")
    monkeypatch.setattr(launcher, "MOST", 2**20)  # tests before it in one process may fill it
    layers = [random_qkv(2, seq_len, 3, head_dim) for _ in range(3)]
    grad = randn(2, seq_len, 3, head_dim)
    both_passes(operator.attention, layers[0], True, grad)
    monkeypatch.setattr(operator, "_kernels", None)
    for qkv in layers:
        found = both_passes(operator.attention, qkv, True, grad)
        assert_right(found, reference_passes(qkv, grad, True))


@pytest.mark.parametrize("seq_len", [384, 2048])
@pytest.mark.parametrize("head_dim", [64, 128, 192, 256])
def test_errors_are_at_most_twice_those_of_half_precision(head_dim: int, seq_len: int) -> None:
    """FlashAttention's own criterion: of the largest error, and with its own slack."""
    qkv = random_qkv(2, seq_len, 3, head_dim)
    grad = randn(2, seq_len, 3, head_dim)
    for causal in (False, True):
        expected = reference_passes(qkv, grad, causal)
        mine = both_passes(operator.attention, qkv, causal, grad)
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
        scores = q @ k.mT * head_dim**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        plain = (scores.softmax(-1) @ v).transpose(1, 2)
        theirs = (plain.detach(), torch.autograd.grad(plain, qkv, grad)[0])
        for one, other, right in zip(mine, theirs, expected, strict=True):
            errors = [(x.double() - right).abs().max().item() for x in (one, other)]
            assert errors[0] <= 2 * errors[1] + 1e-5


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_in_its_sequence_and_head(bad: float) -> None:
    qkv = random_qkv(3, 130, 2, 64)
    qkv.data[1, 50, :, 1] = bad
    ones = torch.ones(3, 130, 2, 64, device="cuda", dtype=HALF)
    out, dqkv = both_passes(operator.attention, qkv, True, ones)
    others = torch.ones(3, 2, dtype=torch.bool, device="cuda")
    others[1, 1] = False
    assert out.transpose(1, 2)[others].isfinite().all()
    assert dqkv.permute(0, 3, 1, 2, 4)[others].isfinite().all()
    assert not out[1, 50:, 1].isfinite().any()


def test_tensors_of_more_than_2_to_the_31_elements() -> None:
    qkv = torch.empty(5700, 256, 3, 16, 64, device="cuda", dtype=HALF)  # 8.3 GiB
    small = randn(8, *qkv.shape[1:])
    qkv[:] = small[0]
    qkv[-1] = small[1]
    qkv.requires_grad_()
    small.requires_grad_()
    ones = torch.ones(1, device="cuda", dtype=HALF)
    out, dqkv = both_passes(operator.attention, qkv, True, ones.expand(5700, 256, 16, 64))
    right, dright = both_passes(operator.attention, small, True, ones.expand(8, 256, 16, 64))
    assert torch.equal(out[-1], right[1]) and torch.equal(out[0], right[0])
    assert torch.equal(dqkv[-1], dright[1]) and torch.equal(dqkv[-2], dright[0])


@pytest.mark.parametrize("seq_len", [512, 2048])
def test_two_streams_at_once(seq_len: int) -> None:
    inputs = [random_qkv(2, seq_len, 16, 64) for _ in range(2)]
    alone = [operator.attention(qkv, True) for qkv in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[], []]
    for _ in range(20):
        for stream, qkv, mine in zip(streams, inputs, found, strict=True):
            with torch.cuda.stream(stream):
                mine.append(operator.attention(qkv, True))
    torch.cuda.synchronize()
    for right, mine in zip(alone, found, strict=True):
        assert all(torch.equal(out, right) for out in mine)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("seq_len", [512, 2048])
def test_cuda_graphs_replay_both_passes(seq_len: int, head_dim: int, deterministic: bool) -> None:
    qkv = random_qkv(2, seq_len, 8, head_dim)
    grad = randn(2, seq_len, 8, head_dim)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        out = operator.attention(qkv, True, deterministic)
        return out, torch.autograd.grad(out, qkv, grad)[0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        captured = run()
    qkv.data.copy_(torch.randn_like(qkv))
    torch.cuda.synchronize()
    eager = []
    for _ in range(10):
        with torch.cuda.stream(side):
            graph.replay()
        eager.append(run())
    torch.cuda.synchronize()
    for found in eager:  # sums are in another order where they may be
        if deterministic:
            assert all(map(torch.equal, captured, found))
        else:
            assert_right(captured, [right.detach().double() for right in found])


def test_torch_compile_takes_it_whole() -> None:
    def layer(qkv: torch.Tensor) -> torch.Tensor:
        return operator.attention(qkv * 2, True).sum(2)

    qkv = random_qkv(2, 130, 4, 64)
    compiled = torch.compile(layer, fullgraph=True)(qkv)
    eager = layer(qkv)
    grad = torch.randn_like(eager)
    grads = [torch.autograd.grad(out, qkv, grad)[0] for out in (compiled, eager)]
    torch.testing.assert_close([compiled, grads[0]], [eager, grads[1]])


def test_the_slides_peak_memory_is_that_of_the_tensors_alone() -> None:
    operator.attention(random_qkv(1, 1024, 1, 64), False, True).sum().backward()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    qkv = random_qkv(32, 1024, 32, 64)
    out = operator.attention(qkv, False, deterministic=True)
    out.backward(torch.randn_like(out))
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    # qkv 384 + O 128 + lse 4 + dO 128 + its gradient 384 + Δ 4
    assert peak <= 1033


def test_compute_sanitizer_finds_nothing() -> None:
    path = "/usr/local/cuda/bin:" + os.environ["PATH"]
    command = ["compute-sanitizer", "--error-exitcode=1", sys.executable, "-c", SANITIZED]
    subprocess.run(
        [*command, str(KERNELS / "flash_lab.py")],
        check=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(KERNELS.parent / "workflow")},
    )
