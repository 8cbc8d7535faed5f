"""The gate of attention: what passes, what is refused, and which heads are compared.

What is no tensor, or overwrites its input, is tested with the command (`checking.test_check`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from attention_reference import reference_passes
from torch import Tensor

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.gate import TOLERANCES, IncorrectError, check_correctness
from flashlab.benchmarks.attention.inputs import attention_of
from flashlab.benchmarks.attention.prepared import Prepared
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.kernel import load_kernel

SHARED = Shape(2, 37, 6, 6 * 16, True, num_kv_heads=2)


def naive(qkv: Tensor, causal: bool, scale: float | None = None, ahead: int = 1) -> Any:
    """Attention (B, N, H, D) of qkv (B, N, 3, H, D)."""
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, T, S)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(ahead).bool(), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)


def kernel(name: str) -> Any:
    return load_kernel(find_implementations()[name].path)


@pytest.mark.parametrize("name", ["Pytorch", "Flash2"])
@pytest.mark.parametrize(
    ("dtype", "seq_len", "causal"),
    [("float32", 1, True), ("float32", 129, False), ("bfloat16", 256, True)],
)
def test_the_courses_kernels_pass(name: str, dtype: str, seq_len: int, causal: bool) -> None:
    """In half precision the error of rounding alone stands beside, to judge theirs by."""
    shape = Shape(2, seq_len, 4, 4 * 40, causal)
    checked = check_correctness(kernel(name).attention, shape, dtype, "cpu")
    assert max(checked["errors"].values()) < TOLERANCES[dtype] / 2
    plain = checked.get("plain_errors", {})
    assert bool(plain) == (dtype == "bfloat16")
    assert all(plain[name] > 1e-3 and checked["errors"][name] < 3 * plain[name] for name in plain)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [(1, 1, 3, 1, 1), (2, 37, 3, 3, 8), (1, 300, 3, 5, 4)])
@pytest.mark.parametrize("chunk_scores", [2**22, 1000])
def test_the_reference_is_float64_attention_and_its_derivative(
    size: tuple[int, ...], causal: bool, chunk_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "CHUNK_SCORES", {"cpu": chunk_scores})
    qkv = torch.randn(size, dtype=torch.float64, requires_grad=True)
    grad = torch.randn((*size[:2], *size[3:]), dtype=torch.float64)
    expected = naive(qkv, causal)
    expected.backward(grad)
    torch.testing.assert_close(reference_passes(qkv, grad, causal), (expected.detach(), qkv.grad))


def test_a_head_that_many_share_is_compared_a_few_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One head of keys for 32 of queries at N 16384 has 64 GiB of scores in float64."""
    monkeypatch.setattr(gate, "CHUNK_SCORES", {"cpu": 2**10})
    held = []
    attend = gate.attend
    monkeypatch.setattr(gate, "attend", lambda *a: [held.append(found := attend(*a)), found][1])
    Prepared(SHARED, "float32", "cpu", "separate", with_head=True)
    assert max(p.numel() for *_, p in held) <= 2**10


LAST, FIRST = torch.tensor([36]), torch.tensor([0])
WRONG: dict[str, tuple[Callable[[Tensor, bool], Any], str]] = {
    "no scale": (lambda qkv, causal: naive(qkv, causal, 1.0), "out .*dqkv"),
    "no mask": (lambda qkv, causal: naive(qkv, False), "out .*dqkv"),
    "a mask off by one": (lambda qkv, causal: naive(qkv, causal, ahead=2), "out .*dqkv"),
    "the last row zeroed": (lambda *x: naive(*x).index_fill(1, LAST, 0), "out .*dqkv"),
    "one NaN": (lambda *x: naive(*x).index_fill(1, FIRST, torch.nan), "out nan"),
    "a wrong shape": (lambda *x: naive(*x).transpose(1, 2), "must be"),
    "a wrong dtype": (lambda *x: naive(*x).double(), "torch.float64"),
    "no gradient": (lambda *x: naive(*x).detach(), "no gradient"),
    "half the gradient": (lambda *x: (naive(*x) + naive(*x).detach()) / 2, ": dqkv 0.5;"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_is_refused_with_its_error(wrong: str) -> None:
    attention, said = WRONG[wrong]
    with pytest.raises(IncorrectError, match=said):
        check_correctness(attention, Shape(2, 37, 4, 64, True), "float32", "cpu")


def test_a_gradient_that_one_of_the_inputs_lacks_is_missed() -> None:
    how = Shape(1, 16, 2, 16, False), "float32", "cpu", "separate"
    with pytest.raises(IncorrectError, match="no gradient with respect to q, k and v"):
        check_correctness(lambda q, k, v, causal: repeating(q, k.detach(), v, causal), *how)


# Heads of queries that share keys and values


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
@pytest.mark.parametrize("name", ["Pytorch", "Flash2", "SdpaMath"])
def test_kernels_that_share_keys_are_held_against_repeated_ones(name: str, kv_heads: int) -> None:
    shape = replace(SHARED, num_kv_heads=kv_heads)
    attention = attention_of(kernel(name), "separate", shape)
    errors = check_correctness(attention, shape, "float32", "cpu", "separate")["errors"]
    assert max(errors.values()) < TOLERANCES["float32"] / 10


def repeating(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Any:
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    return naive(torch.stack((q, k, v), 2), causal)


def interleaved(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Any:
    """Has every second head of q share one of k, not neighbours."""
    k, v = (x.repeat(1, 1, q.shape[2] // x.shape[2], 1) for x in (k, v))
    return naive(torch.stack((q, k, v), 2), causal)


def first_of_each(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Forgets what all heads but the first of those that share keys add to their gradient."""
    whole, group = repeating(q, k, v, causal), q.shape[2] // k.shape[2]
    detached = repeating(q, k.detach(), v.detach(), causal)
    return torch.where((torch.arange(q.shape[2]) % group == 0)[:, None], whole, detached)


@pytest.mark.parametrize("heads", [2, 1], ids="{} heads of k are compared".format)
def test_keys_that_are_shared_wrong_are_seen(monkeypatch: pytest.MonkeyPatch, heads: int) -> None:
    monkeypatch.setattr(gate, "MAX_SCORES", {"cpu": heads * 3 * 2 * 37**2})
    how = SHARED, "float32", "cpu", "separate"
    assert check_correctness(repeating, *how)["heads"] == heads * 2 * 3
    with pytest.raises(IncorrectError, match=r": dqkv.* num_kv_heads 2"):
        check_correctness(first_of_each, *how)
    if heads == 2:
        with pytest.raises(IncorrectError, match=r"out .*dqkv"):
            check_correctness(interleaved, *how)


def test_what_does_not_take_shared_keys_is_unsupported() -> None:
    undeclared = ("SdpaEfficient", "separate", "does not say that it TAKES num_kv_heads")
    for name, form, said in (undeclared, ("Flash2", "packed", "separate q, k and v alone")):
        assert attention_of(kernel(name), form, replace(SHARED, num_kv_heads=6))
        with pytest.raises(NotImplementedError, match=said):
            attention_of(kernel(name), form, SHARED)
