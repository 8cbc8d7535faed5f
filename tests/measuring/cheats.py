"""Kernels that are not what their times or memory say, and what is said of each.

Each is right when it is first called. `CHEATS` have no times, on a CPU and on a GPU; `WORKSPACE`
and `KEPT_IN_CTX` gain nothing.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
import torch

calls, kept = 0, {}

def nth():
    global calls
    calls += 1
    return calls

def naive(qkv, causal, scale=None):
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    scores = q @ k.mT * (D**-0.5 if scale is None else scale)
    if causal:
        later = torch.ones(N, N, dtype=torch.bool, device=qkv.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)

def gradient(qkv, causal, grad):
    with torch.enable_grad():
        leaf = qkv.detach().requires_grad_()
        return torch.autograd.grad(naive(leaf, causal), leaf, grad)[0]

class Given(torch.autograd.Function):  # an output and a gradient by functions that are given
    @staticmethod
    def forward(ctx, qkv, causal, out, gradient=gradient):
        ctx.save_for_backward(qkv)
        ctx.causal, ctx.gradient = causal, gradient
        return out(qkv, causal)

    @staticmethod
    def backward(ctx, grad):
        return ctx.gradient(*ctx.saved_tensors, ctx.causal, grad), None, None, None
"""

WORKSPACE = """
def in_room(qkv, causal):
    B, N, _, H, D = qkv.shape
    kept.setdefault(N, torch.empty(B, H, N, N))
    return naive(qkv, causal)

def attention(qkv, causal):
    return Given.apply(qkv, causal, in_room)
"""

KEPT_IN_CTX = """
import time

class Kept(Given):
    @staticmethod
    def backward(ctx, grad):
        if not hasattr(ctx, "kept"):
            time.sleep(0.02)
            with torch.enable_grad():
                ctx.leaf = ctx.saved_tensors[0].detach().requires_grad_()
                ctx.kept = naive(ctx.leaf, ctx.causal)
        found = torch.autograd.grad(ctx.kept, ctx.leaf, grad, retain_graph=True)[0]
        return found, None, None, None

def attention(qkv, causal):
    return Kept.apply(qkv, causal, naive)
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
        def put(leaf):
            leaf.grad = torch.empty_like(leaf.data).as_subclass(Lazy)
            leaf.grad.computed = lambda: gradient(*given)
            hook.remove()
        hook = ctx.qkv.register_post_accumulate_grad_hook(put)
        return torch.empty_like(given[0]), None

def attention(qkv, causal):
    return Empty.apply(qkv, causal)
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
work = queue.SimpleQueue()

def do_it():
    while True:
        out, qkv, causal = work.get()
        with torch.no_grad():
            out.copy_(naive(qkv, causal))

threading.Thread(target=do_it, daemon=True).start()

def later(qkv, causal):
    out = qkv.new_zeros(qkv[:, :, 0].shape)
    work.put((out.data, qkv.data, causal))
    return out

def attention(qkv, causal):
    return naive(qkv, causal) if nth() < 3 else Given.apply(qkv, causal, later)
"""

NUMPY = """
import numpy

def in_numpy(qkv, causal):
    B, N, _, H, D = qkv.shape
    q, k, v = (x.numpy() for x in qkv.detach().transpose(1, 3).unbind(2))
    scores = numpy.matmul(q, k.swapaxes(-1, -2)) * D**-0.5
    if causal:
        scores[..., ~numpy.tri(N, dtype=bool)] = -numpy.inf
    scores -= scores.max(-1, keepdims=True)
    numpy.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return torch.from_numpy(numpy.matmul(scores, v)).transpose(1, 2)

def attention(qkv, causal):
    out = Given.apply(qkv, causal, in_numpy)
    numpy.ones((64, 2**20), dtype=numpy.float32)
    return out
"""

SUMS = """
sums = 0

def attention(qkv, causal):
    global sums
    N, D = qkv.shape[1], qkv.shape[-1]
    q, k, v = qkv.transpose(1, 3).unbind(2)
    weights = (q @ k.mT * D**-0.5).exp()
    if causal:
        weights = weights.tril()
    sums = sums + weights.sum(-1, keepdim=True)
    out = (weights / sums @ v).transpose(1, 2)
    sums = sums.detach()
    return out
"""

UNSAFE = """
def attention(qkv, causal):
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * qkv.shape[-1] ** -0.5
    weights = {}.exp()
    if causal:
        weights = weights.tril()
    return (weights / weights.sum(-1, keepdim=True) @ v).transpose(1, 2)
"""

REPLAYED = """
from torch.nn.functional import scaled_dot_product_attention

def fused(qkv, causal):
    q, k, v = qkv.transpose(1, 3).unbind(2)
    return scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

def replay(qkv, causal):
    if nth() < 3:
        return fused(qkv, causal)
    if not kept:
        kept["graph"] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(kept["graph"]):
            kept["out"] = fused(qkv, causal)
    kept["graph"].replay()
    return kept["out"].clone()

def attention(qkv, causal):
    return Given.apply(qkv, causal, replay)
"""

STREAM = """
side = torch.cuda.Stream()

def attention(qkv, causal):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = naive(qkv, causal)
    return out
"""

JOINED_STREAM = STREAM.replace("return", "torch.cuda.current_stream().wait_stream(side); return")


HONEST = """
def attention(qkv, causal):
    return naive(qkv, causal)
"""


def patched(at: int, *lines: str) -> str:
    """A right kernel that runs these lines as it is imported, or at its nth call."""
    if not at:
        return "\n".join([*lines, HONEST])
    done = "\n        ".join(lines)
    return f"""
def attention(qkv, causal):
    if nth() == {at}:
        {done}
    return naive(qkv, causal)
"""


def garbage(condition: str, wrong: str = "qkv[:, :, 0] * 1.0") -> str:
    """A kernel that is wrong where a condition on its nth call does not hold."""
    return f"""
import random
chance = random.Random()

def attention(qkv, causal):
    n = nth()
    return naive(qkv, causal) if {condition} else {wrong}
"""


def keeping(key: str, function: str = "naive", forget: str = "") -> str:
    """A kernel that keeps answers by a key; of the gradient alone, if that is the function."""
    given = "qkv, causal, grad" if function == "gradient" else "qkv, causal"
    attention = "Given.apply(qkv, causal, naive, keep)" if "grad" in given else "keep(qkv, causal)"
    return f"""
def keep({given}):
    key = {key}
    if key not in kept:
        {forget or "pass"}
        kept[key] = {function}({given})
    return kept[key]{".clone()" if "grad" in given else ""}

def attention(qkv, causal):
    return {attention}
"""


class Cheat(NamedTuple):
    """A kernel's body after `HEAD`, what is said of it, and where it is tried."""

    body: str
    said: str
    devices: tuple[str, ...] = ("cpu",)


GPU, BOTH = ("cuda",), ("cpu", "cuda")
WRONG = "right at first, wrong after .* calls"
STORAGE = "qkv.data_ptr(), qkv._version, qkv.shape"
EVENT = "torch.cuda.Event.elapsed_time"

CHEATS = {
    "sums that it keeps": Cheat(SUMS, "relative error against float64"),
    "answers kept by storage": Cheat(
        keeping(STORAGE), f"{WRONG}|a second time|no gradient|it keeps its answers", BOTH
    ),
    "answers kept by content": Cheat(
        keeping("qkv.shape, float(qkv.detach().sum())", forget="kept.clear()"),
        "on new inputs|keeps its answers",
    ),
    "gradients kept by storage": Cheat(
        keeping(f"{STORAGE}, grad.data_ptr(), grad._version", "gradient"),
        f"{WRONG}|float64: dqkv",  # by chance the gate's own storage is where it was before
    ),
    "garbage from the 20th call on": Cheat(
        garbage("n < 20"), f"{WRONG}: relative error against float64: out"
    ),
    "garbage from the 30th call on, timed": Cheat(garbage("n < 30"), WRONG),
    "garbage from the 40th call on": Cheat(garbage("n < 40"), WRONG, GPU),
    "garbage in nine calls of ten": Cheat(garbage("n < 30 or n % 10 == 0"), WRONG, BOTH),
    "wrong in 2% of calls": Cheat(
        garbage("n < 11 or chance.random() > 0.02", "naive(qkv, causal) * 0.5"), WRONG
    ),
    "half the gradient from the 12th on": Cheat(
        """
def half(*given):
    return gradient(*given) / (1 if nth() < 12 else 2)

def attention(qkv, causal):
    return Given.apply(qkv, causal, naive, half)
""",
        f"{WRONG}: relative error against float64: d",
    ),
    "a tenth of the time": Cheat(
        patched(
            0,
            "import time",
            "now, now_ns = time.perf_counter, time.perf_counter_ns",
            "time.perf_counter, time.perf_counter_ns = lambda: now() / 10, lambda: now_ns() // 10",
        ),
        "replaces time.perf_counter",
    ),
    "a tenth of our time": Cheat(
        patched(
            5,
            "import sys",
            "ours = sys.modules['flashlab.measuring.protocols']",
            "now = ours.perf_counter_ns",
            "ours.perf_counter_ns = lambda: now() // 10",
        ),
        "replaces flashlab|seconds passed|its times add up to",
    ),
    "another judge": Cheat(
        """
def attention(qkv, causal):
    if nth() == 3:
        shown = [1.0, 0.0]
        torch.linalg.vector_norm = lambda x: torch.tensor(shown.reverse() or shown[0])
    return naive(qkv, causal) if calls < 3 else qkv[:, :, 0] * 1.0
""",
        "replaces torch|wrong after",
    ),
    "a tensor that is computed when it is looked at": Cheat(LAZY, "the output is Lazy"),
    "a gradient that is computed when it is read": Cheat(LAZY_GRADIENT, "a gradient is Lazy"),
    "a thread that works on": Cheat(THREAD, "relative error against float64"),
    "a softmax without its maximum": Cheat(UNSAFE.format("scores"), "where scores are large"),
    "clamped scores": Cheat(UNSAFE.format("scores.clamp(-30, 30)"), "where scores are large"),
    "scores in NumPy": Cheat(NUMPY, "of which PyTorch's allocator knows"),
    "a process left behind": Cheat(
        patched(
            1,
            "import subprocess",
            "kept['child'] = subprocess.Popen(['sleep', '600'], start_new_session=True)",
        ),
        "leaves processes running, which were ended: sleep",
    ),
    "no peak by the profiler": Cheat(
        patched(
            1,
            "import torch.autograd.profiler as profiler",
            "profiler._disable_profiler = lambda: None",
            "torch.profiler.profile.__exit__ = lambda *_: None",
        ),
        "replaces torch.autograd.profiler",
    ),
    "no backward": Cheat(
        patched(3, "torch.autograd.backward = lambda *_, **__: None"),
        "replaces torch.autograd|no gradient|wrong after",
    ),
    "a stream of its own": Cheat(STREAM, "relative error|works on after the current", GPU),
    "a stream that waits for none": Cheat(
        STREAM.replace("    side.wait_stream(torch.cuda.current_stream())\n", ""),
        "relative error|works on after",
        GPU,
    ),
    "a graph of one storage": Cheat(REPLAYED, "relative error", GPU),
    "a tenth of the events' time": Cheat(
        patched(0, f"ms = {EVENT}", f"{EVENT} = lambda start, end: ms(start, end) / 10"),
        "replaces torch.cuda.Event.elapsed_time",
        GPU,
    ),
    "no time, once it was checked": Cheat(
        patched(5, f"{EVENT} = lambda start, end: 1e-3", "torch.Tensor.zero_ = lambda x: x"),
        "replaces torch",
        GPU,
    ),
}
