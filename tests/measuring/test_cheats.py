"""Kernels that are right when they are first checked, and that are not what their times say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measuring.conftest import HEAD, Measured

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, read_implementation
from flashlab.measuring.protocols import MIN_CALLS
from flashlab.measuring.supervised import Section, refused

SUMS = """
sums = 0

def attention(qkv, causal):
    global sums
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * D**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    weights = scores.exp()
    sums = sums + weights.sum(-1, keepdim=True)
    out = (weights / sums @ v).transpose(1, 2)
    sums = sums.detach() if {kept} else 0
    return out
"""

KEPT = """
kept = {}

def attention(qkv, causal):
    key = qkv.data_ptr(), qkv._version, qkv.shape
    if key not in kept:
        kept[key] = naive(qkv, causal)
    return kept[key]
"""

KEPT_BY_CONTENT = """
kept = {}

def attention(qkv, causal):
    key = qkv.shape, float(qkv.detach().sum())
    if key not in kept:
        kept.clear()
        kept[key] = naive(qkv, causal)
    return kept[key]
"""

GARBAGE = """
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    return naive(qkv, causal) if calls < {first} else qkv[:, :, 0] * 1.0
"""

GRADIENT = """
calls = 0

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        global calls
        calls += 1
        return grad if calls < 12 else grad / 2

def attention(qkv, causal):
    return Wrong.apply(naive(qkv, causal))
"""

KEPT_GRADIENT = """
kept = {}

class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        return naive(qkv, causal)

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        key = qkv.data_ptr(), qkv._version, grad.data_ptr(), grad._version, grad.shape
        if key not in kept:
            with torch.enable_grad():
                leaf = qkv.detach().requires_grad_()
                kept[key] = torch.autograd.grad(naive(leaf, ctx.causal), leaf, grad)[0]
        return kept[key].clone(), None

def attention(qkv, causal):
    return Kept.apply(qkv, causal)
"""

CLOCK = """
import time
now, now_ns = time.perf_counter, time.perf_counter_ns
time.perf_counter, time.perf_counter_ns = lambda: now() / 10, lambda: now_ns() // 10

def attention(qkv, causal):
    return naive(qkv, causal)
"""

OUR_CLOCK = """
import sys
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    if calls == 5:
        ours = sys.modules["flashlab.measuring.protocols"]
        now = ours.perf_counter_ns
        ours.perf_counter_ns = lambda: now() // 10
    return naive(qkv, causal)
"""

JUDGE = """
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    if calls == 3:
        shown = [1.0, 0.0]
        torch.linalg.vector_norm = lambda x: torch.tensor(shown.reverse() or shown[0])
    return naive(qkv, causal) if calls < 3 else qkv[:, :, 0] * 1.0
"""

LAZY = """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [naive(a.qkv, a.causal) if isinstance(a, Lazy) else a for a in args]
        return function(*plain, **(kwargs or {}))

def attention(qkv, causal):
    out = qkv[:, :, 0].as_subclass(Lazy)
    out.qkv, out.causal = qkv, causal
    return out
"""

THREAD = """
import queue, threading
work, calls = queue.SimpleQueue(), 0

def do_it():
    while True:
        out, qkv, causal = work.get()
        with torch.no_grad():
            out.copy_(naive(qkv, causal))

threading.Thread(target=do_it, daemon=True).start()

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        out = qkv.new_zeros(qkv[:, :, 0].shape)
        work.put((out.data, qkv.data, causal))
        return out

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = qkv.detach().requires_grad_()
            return torch.autograd.grad(naive(leaf, ctx.causal), leaf, grad)[0], None

def attention(qkv, causal):
    global calls
    calls += 1
    return naive(qkv, causal) if calls < 3 else Later.apply(qkv, causal)
"""

CHEATS = {
    "sums that it keeps": (SUMS.replace("{kept}", "True"), "right at first, wrong after .* calls"),
    "answers kept by storage": (
        KEPT,
        "right at first, wrong after .* calls|a second time|it keeps its answers",
    ),
    "answers kept by content": (KEPT_BY_CONTENT, "on new inputs"),
    "garbage from the 20th call on": (
        GARBAGE.replace("{first}", "20"),
        "right at first, wrong after .* calls: relative error against float64: out",
    ),
    "garbage from the 30th call on, timed": (
        GARBAGE.replace("{first}", "30"),
        "right at first, wrong after .* calls",
    ),
    "half the gradient from the 12th on": (
        GRADIENT,
        "right at first, wrong after .* calls: relative error against float64: dqkv",
    ),
    "gradients kept by storage": (KEPT_GRADIENT, "right at first, wrong after .* calls"),
    "a tenth of the time": (CLOCK, "replaces time.perf_counter"),
    "a tenth of our time": (OUR_CLOCK, "replaces flashlab|seconds passed|its times add up to"),
    "another judge": (JUDGE, "replaces torch"),
    "a tensor that is computed when it is looked at": (LAZY, "the output is Lazy"),
    "a thread that works on": (THREAD, "right at first, wrong after .* calls"),
}
RUN = attention_run("Mine", Shape(2, 192, 4, 128, causal=True), "float32", "cpu")


@pytest.fixture
def cheat(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Implementation, str]:
    """A kernel's file, and what is said of it."""
    body, said = CHEATS[request.param]
    path = tmp_path / "mine.py"
    path.write_text(HEAD + body, encoding="utf-8")
    return read_implementation(path), said


@pytest.mark.usefixtures("in_workflow")
@pytest.mark.parametrize("cheat", CHEATS, indirect=True)
def test_a_kernel_that_is_not_what_its_times_say_has_none(
    cheat: tuple[Implementation, str], measure: Measured
) -> None:
    implementation, said = cheat
    record = measure(implementation, RUN)
    assert (record.status, record.metrics) == ("incorrect", {})
    assert re.search(said, record.message or ""), record.message


@pytest.mark.usefixtures("in_workflow")
@pytest.mark.parametrize("cheat", ["sums that it keeps", "half the gradient from the 12th on"])
def test_it_has_none_by_the_courses_protocol_either(
    cheat: str, measure: Measured, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + CHEATS[cheat][0], encoding="utf-8")
    record = measure(read_implementation(path), RUN, name="lab5", repeats=20)
    assert (record.status, record.metrics) == ("incorrect", {})


@pytest.mark.usefixtures("in_workflow")
def test_what_was_compared_again_stands_in_the_record(measure: Measured) -> None:
    gate = measure("return naive(qkv, causal)", RUN).gate
    assert gate is not None
    assert gate["again"]["calls"] >= 2 * MIN_CALLS
    assert max(gate["again"]["errors"].values()) < gate["tolerance"]


# What the supervising process's clock says


@pytest.mark.parametrize(
    "section", [Section(1.0, 0.9, True), Section(1.0, 0.01, False), Section(0.09, 0.01, True)]
)
def test_samples_that_fit_their_section_are_accepted(section: Section) -> None:
    assert refused([section]) == {}


@pytest.mark.parametrize("section", [Section(1.0, 0.1, True), Section(1.0, 1.5, False)])
def test_samples_that_contradict_the_supervisors_clock_are_refused(section: Section) -> None:
    found = refused([Section(1.0, 0.9, True), section])
    assert (found["status"], found["metrics"]) == ("incorrect", {})
    assert f"add up to {section.samples:.3g} s" in found["message"]
