"""Kernels that are not what their times or memory say, and what is said of each.

Each is right when it is first called. `CHEATS` have no times; `HONESTLY_MEASURED` gain nothing.
"""

from __future__ import annotations

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


IN_TEN = """
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    return naive(qkv, causal) if calls < 30 or calls % 10 == 0 else qkv[:, :, 0] * 1.0
"""

AT_RANDOM = """
import random
chance, calls = random.Random(), 0

def attention(qkv, causal):
    global calls
    calls += 1
    is_wrong = calls > 10 and chance.random() < 0.02
    return naive(qkv, causal) * (0.5 if is_wrong else 1.0)
"""

UNSAFE = """
def attention(qkv, causal):
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * D**-0.5
    weights = {}.exp()
    if causal:
        weights = weights.tril()
    return (weights / weights.sum(-1, keepdim=True) @ v).transpose(1, 2)
"""

LAZY_GRADIENT = """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [a.computed() if isinstance(a, Lazy) else a for a in args]
        return function(*plain, **(kwargs or {}))

class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.qkv, ctx.causal = qkv, causal
        return naive(qkv.detach(), causal)

    @staticmethod
    def backward(ctx, grad):
        given = ctx.qkv.detach(), ctx.causal, grad
        def computed():
            qkv, causal, grad = given
            with torch.enable_grad():
                leaf = qkv.requires_grad_()
                return torch.autograd.grad(naive(leaf, causal), leaf, grad)[0]
        def put(leaf):
            leaf.grad = torch.empty_like(leaf.data).as_subclass(Lazy)
            leaf.grad.computed = computed
            hook.remove()
        hook = ctx.qkv.register_post_accumulate_grad_hook(put)
        return torch.empty_like(given[0]), None

def attention(qkv, causal):
    return Empty.apply(qkv, causal)
"""

NUMPY = """
import numpy

class InNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        B, N, _, H, D = qkv.shape
        q, k, v = (x.numpy() for x in qkv.detach().transpose(1, 3).unbind(2))
        scores = numpy.matmul(q, k.swapaxes(-1, -2)) * D**-0.5
        if causal:
            scores[..., ~numpy.tri(N, dtype=bool)] = -numpy.inf
        scores -= scores.max(-1, keepdims=True)
        numpy.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return torch.from_numpy(numpy.matmul(scores, v)).transpose(1, 2)

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = qkv.detach().requires_grad_()
            return torch.autograd.grad(naive(leaf, ctx.causal), leaf, grad)[0], None

def attention(qkv, causal):
    out = InNumpy.apply(qkv, causal)
    numpy.ones((64, 2**20), dtype=numpy.float32)
    return out
"""

LEFT_BEHIND = """
import subprocess
started = []

def attention(qkv, causal):
    if not started:
        started.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
    return naive(qkv, causal)
"""

PROFILER = """
import torch.autograd.profiler as profiler
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    if calls == 1:
        profiler._disable_profiler = lambda: None
        torch.profiler.profile.__exit__ = lambda *_: None
    return naive(qkv, causal)
"""

BACKWARD = """
calls = 0

def attention(qkv, causal):
    global calls
    calls += 1
    if calls == 3:
        torch.autograd.backward = lambda *_, **__: None
    return naive(qkv, causal)
"""

WORKSPACE = """
room = {}

class InRoom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        B, N, _, H, D = qkv.shape
        room.setdefault(N, torch.empty(B, H, N, N))
        return naive(qkv, causal).detach()

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = qkv.detach().requires_grad_()
            return torch.autograd.grad(naive(leaf, ctx.causal), leaf, grad)[0], None

def attention(qkv, causal):
    return InRoom.apply(qkv, causal)
"""

KEPT_IN_CTX = """
import time

class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, causal):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        return naive(qkv, causal).detach()

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        if not hasattr(ctx, "kept"):
            time.sleep(0.02)
            with torch.enable_grad():
                ctx.leaf = qkv.detach().requires_grad_()
                ctx.kept = naive(ctx.leaf, ctx.causal)
        return torch.autograd.grad(ctx.kept, ctx.leaf, grad, retain_graph=True)[0], None

def attention(qkv, causal):
    return Kept.apply(qkv, causal)
"""


CHEATS = {
    "sums that it keeps": (SUMS.replace("{kept}", "True"), "relative error against float64"),
    "answers kept by storage": (
        KEPT,
        "right at first, wrong after .* calls|a second time|it keeps its answers",
    ),
    "answers kept by content": (KEPT_BY_CONTENT, "on new inputs|keeps its answers"),
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
        "right at first, wrong after .* calls: relative error against float64: d",
    ),
    "gradients kept by storage": (KEPT_GRADIENT, "right at first, wrong after .* calls"),
    "a tenth of the time": (CLOCK, "replaces time.perf_counter"),
    "a tenth of our time": (OUR_CLOCK, "replaces flashlab|seconds passed|its times add up to"),
    "another judge": (JUDGE, "replaces torch|wrong after"),
    "a tensor that is computed when it is looked at": (LAZY, "the output is Lazy"),
    "a thread that works on": (THREAD, "right at first, wrong after .* calls"),
    "garbage in nine calls of ten": (IN_TEN, "right at first, wrong after .* calls"),
    "wrong in 2% of calls": (AT_RANDOM, "right at first, wrong after .* calls"),
    "a softmax without its maximum": (UNSAFE.format("scores"), "where scores are large"),
    "clamped scores": (UNSAFE.format("scores.clamp(-30, 30)"), "where scores are large"),
    "a gradient that is computed when it is read": (LAZY_GRADIENT, "a gradient is Lazy"),
    "scores in NumPy": (NUMPY, "of which PyTorch's allocator knows"),
    "a process left behind": (LEFT_BEHIND, "leaves processes running, which were ended: sleep"),
    "no peak by the profiler": (PROFILER, "replaces torch.autograd.profiler"),
    "no backward": (BACKWARD, "replaces torch.autograd|no gradient|wrong after"),
}
