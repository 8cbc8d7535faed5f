from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from attention_reference import reference_passes
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.gate import (
    MAX_SCORES,
    TOLERANCES,
    IncorrectError,
    check_correctness,
    heads_compared,
)
from flashlab.benchmarks.attention.inputs import attention_of, large_inputs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring.kernel import load_kernel

Attention = Callable[..., torch.Tensor]


def naive(qkv: torch.Tensor, causal: bool, scale: float | None = None) -> torch.Tensor:
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, T, S)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)  # (B, N, H, D)


# What passes


@pytest.mark.parametrize("name", ["Pytorch", "Flash2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("seq_len", [1, 37, 129, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_the_courses_implementations_pass(
    name: str, dtype: str, seq_len: int, causal: bool
) -> None:
    attention = load_kernel(find_implementations()[name].path).attention
    shape = Shape(2, seq_len, 4, 4 * 40, causal)
    checked = check_correctness(attention, shape, dtype, "cpu")
    assert checked["tolerance"] == TOLERANCES[dtype]
    assert max(checked["errors"].values()) < TOLERANCES[dtype] / 2
    assert (checked["seq_len"], checked["num_heads"]) == (seq_len, 4)


def test_a_gradient_that_one_of_the_inputs_lacks_is_missed() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        return naive(torch.stack((q, k.detach(), v), dim=2), causal)

    with pytest.raises(IncorrectError, match="no gradient with respect to q, k and v"):
        check_correctness(attention, Shape(1, 16, 2, 16, False), "float32", "cpu", "separate")


def test_in_half_precision_the_error_of_a_plain_computation_stands_beside() -> None:
    """The error of rounding alone, by which an implementation's error is judged."""
    attention = load_kernel(find_implementations()["Pytorch"].path).attention
    shape = Shape(2, 256, 4, 256, False)
    checked = check_correctness(attention, shape, "bfloat16", "cpu")
    for name, error in checked["plain_errors"].items():
        assert 1e-3 < error < TOLERANCES["bfloat16"] / 2
        assert checked["errors"][name] < 3 * error
    assert "plain_errors" not in check_correctness(attention, shape, "float32", "cpu")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [(1, 1, 3, 1, 1), (2, 37, 3, 3, 8), (1, 1100, 3, 5, 4)])
@pytest.mark.parametrize("chunk_scores", [2**22, 1000])
def test_the_reference_is_float64_attention_and_its_derivative(
    size: tuple[int, ...], causal: bool, chunk_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "CHUNK_SCORES", {"cpu": chunk_scores})
    qkv = torch.randn(size, dtype=torch.float64, requires_grad=True)
    grad = torch.randn((*size[:2], *size[3:]), dtype=torch.float64)
    expected = naive(qkv, causal)
    expected.backward(grad)
    out, dqkv = reference_passes(qkv, grad, causal)
    torch.testing.assert_close(out, expected.detach())
    torch.testing.assert_close(dqkv, qkv.grad)


# What does not


def future(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Lets each position see one position too many."""
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(2).bool(), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)


def tail(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Forgets the last row, as a kernel does that is wrong about ragged lengths."""
    rows = torch.ones(qkv.shape[1], 1, 1)
    rows[-1] = 0
    return naive(qkv, causal) * rows


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad / 2


def without_keys(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    q, k, v = qkv.unbind(2)
    return naive(torch.stack([q, k.detach(), v], 2), causal)


def overwriting(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    out = naive(qkv, causal)
    qkv.data[0, 0, 0] += 1  # as a kernel writes: autograd sees nothing of it
    return out


WRONG: dict[str, tuple[Attention, str]] = {
    "no scale": (lambda qkv, causal: naive(qkv, causal, 1.0), "out .*dqkv"),
    "no mask": (lambda qkv, causal: naive(qkv, False), "out .*dqkv"),
    "a mask off by one": (future, "out .*dqkv"),
    "the last row zeroed": (tail, "out .*dqkv"),
    "NaN": (lambda qkv, causal: naive(qkv, causal) * torch.nan, "out nan, dqkv nan"),
    "one NaN": (
        lambda qkv, causal: naive(qkv, causal).index_fill(1, torch.tensor([0]), torch.nan),
        "out nan",
    ),
    "no return": (lambda qkv, causal: cast("torch.Tensor", None), "is NoneType; it must be"),
    "a pair": (lambda qkv, causal: cast("Any", (qkv, None)), "is tuple; it must be a tensor"),
    "a wrong shape": (lambda qkv, causal: naive(qkv, causal).transpose(1, 2), "must be"),
    "a wrong dtype": (lambda qkv, causal: naive(qkv, causal).double(), "torch.float64"),
    "no gradient": (lambda qkv, causal: naive(qkv, causal).detach(), "no gradient"),
    "half the gradient": (lambda qkv, causal: Halved.apply(naive(qkv, causal)), ": dqkv 0.5;"),
    "no gradient for keys": (without_keys, ": dqkv"),
    "its input overwritten": (overwriting, "^qkv is overwritten"),
    "of something else": (
        lambda qkv, causal: naive(qkv.detach(), causal).requires_grad_(),
        "no gradient",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_is_refused_with_its_error(wrong: str) -> None:
    attention, said = WRONG[wrong]
    with pytest.raises(IncorrectError, match=said):
        check_correctness(attention, Shape(2, 37, 4, 64, True), "float32", "cpu")


def test_every_check_has_fresh_inputs() -> None:
    seen: list[torch.Tensor] = []

    def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
        seen.append(qkv.detach().clone())
        return naive(qkv, causal)

    for _ in range(2):
        check_correctness(attention, Shape(1, 8, 1, 8, False), "float32", "cpu")
    assert not any(torch.equal(*pair) for pair in itertools.combinations(seen, 2))


@pytest.mark.parametrize("head_dim", [1, 4, 5, 16])
def test_small_heads_have_large_scores_too(head_dim: int) -> None:
    shape = Shape(1, 37, 2, 2 * head_dim, True)
    q, k, _ = large_inputs(shape, "float32", "cpu", "separate")
    largest = torch.einsum("bnhd,bmhd->bhnm", q, k).amax(-1)
    tops = largest[0, 0] * head_dim**-0.5
    assert tops.max() > 900 and tops.min() < -900
    assert check_correctness(naive, shape, "float32", "cpu")["heads"] == 2


# Which heads


sizes = st.integers(1, 2**14)


@given(st.integers(1, 512), sizes, st.integers(1, 512), st.booleans())
def test_all_heads_are_compared_or_as_many_of_every_batch_as_fit(
    batch_size: int, seq_len: int, num_heads: int, causal: bool
) -> None:
    shape = Shape(batch_size, seq_len, num_heads, num_heads * 64, causal)
    heads = range(num_heads)[heads_compared(shape, "cpu", again=False)]
    scores = batch_size * seq_len**2
    assert len(heads) == max(1, min(num_heads, MAX_SCORES["cpu"] // scores))


def test_it_is_not_always_the_same_heads_where_not_all_fit() -> None:
    shape = Shape(2, 4096, 8, 512, False)
    assert len({heads_compared(shape, "cpu", again=True).start for _ in range(100)}) > 4


def first_batch_alone(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Gives every batch the result of the first."""
    return naive(qkv[:1].expand_as(qkv), causal)


def test_a_batch_that_is_wrong_is_seen_where_only_some_heads_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MAX_SCORES", {"cpu": 3 * 32**2})
    shape = Shape(3, 32, 4, 64, True)
    assert check_correctness(naive, shape, "float32", "cpu")["heads"] == 3
    with pytest.raises(IncorrectError, match=r"out \d"):  # about 1, whatever is drawn
        check_correctness(first_batch_alone, shape, "float32", "cpu")


# Heads of queries that share keys and values

SHARED = Shape(2, 37, 6, 6 * 16, True, num_kv_heads=2)


def repeating(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    return naive(torch.stack((q, k, v), 2), causal)


def interleaved(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Has every second head of q share one of k, not neighbours."""
    k, v = (x.repeat(1, 1, q.shape[2] // x.shape[2], 1) for x in (k, v))
    return naive(torch.stack((q, k, v), 2), causal)


def first_of_each(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Forgets what all heads but the first of those that share keys add to their gradient."""
    whole, group = repeating(q, k, v, causal), q.shape[2] // k.shape[2]
    detached = repeating(q, k.detach(), v.detach(), causal)
    is_first = (torch.arange(q.shape[2]) % group == 0)[:, None]
    return torch.where(is_first, whole, detached)


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize("name", ["Pytorch", "Flash2", "SdpaMath"])
def test_kernels_that_share_keys_are_held_against_repeated_ones(name: str, kv_heads: int) -> None:
    shape = replace(SHARED, num_kv_heads=kv_heads)
    kernel = load_kernel(find_implementations()[name].path)
    attention = attention_of(kernel, "separate", shape)
    errors = check_correctness(attention, shape, "float32", "cpu", "separate")["errors"]
    assert max(errors.values()) < TOLERANCES["float32"] / 10


@pytest.mark.parametrize(
    ("attention", "said"), [(interleaved, "out .*dqkv"), (first_of_each, ": dqkv")]
)
def test_keys_shared_by_other_heads_or_gradients_not_summed_are_refused(
    attention: Attention, said: str
) -> None:
    assert check_correctness(repeating, SHARED, "float32", "cpu", "separate")["heads"] == 12
    with pytest.raises(IncorrectError, match=f"{said}.* num_kv_heads 2"):
        check_correctness(attention, SHARED, "float32", "cpu", "separate")


def test_heads_that_share_keys_are_compared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_SCORES", {"cpu": 2 * 37**2})  # room for one head of q
    assert check_correctness(repeating, SHARED, "float32", "cpu", "separate")["heads"] == 2 * 3
    with pytest.raises(IncorrectError, match=": dqkv"):
        check_correctness(first_of_each, SHARED, "float32", "cpu", "separate")


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("SdpaEfficient", "separate", "does not say that it TAKES num_kv_heads"),
        ("Flash2", "packed", "num_kv_heads: separate q, k and v alone"),
    ],
)
def test_what_does_not_take_shared_keys_is_unsupported(name: str, form: str, said: str) -> None:
    kernel = load_kernel(find_implementations()[name].path)
    assert attention_of(kernel, form, replace(SHARED, num_kv_heads=6))
    with pytest.raises(NotImplementedError, match=said):
        attention_of(kernel, form, SHARED)
