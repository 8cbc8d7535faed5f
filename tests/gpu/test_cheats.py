"""On a real GPU: kernels that are right when they are first checked, and not what their times say.

Run by hand on a GPU host: python -m pytest tests/gpu
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import read_implementation
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.protocols import Pass, sampled, warm_up
from flashlab.measuring.supervise import measure_run
from flashlab.records import Record

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not machine.gpus() or not machine.torch_has_cuda(), reason="needs a GPU and torch for CUDA"
    ),
]

HEAD = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
import torch
from torch.nn.functional import scaled_dot_product_attention

calls = 0

def right(qkv, causal):
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    return scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

class Given(torch.autograd.Function):
    \"\"\"An output that is given, with the right gradient.\"\"\"

    @staticmethod
    def forward(ctx, qkv, causal, given):
        ctx.save_for_backward(qkv)
        ctx.causal = causal
        return given(qkv, causal)

    @staticmethod
    def backward(ctx, grad):
        (qkv,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = qkv.detach().requires_grad_()
            return torch.autograd.grad(right(leaf, ctx.causal), leaf, grad)[0], None, None
"""

STREAM = """
side = torch.cuda.Stream()

def attention(qkv, causal):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return right(qkv, causal)
"""

RACING_STREAM = """
side = torch.cuda.Stream()

def attention(qkv, causal):
    with torch.cuda.stream(side):
        return right(qkv, causal)
"""

JOINED_STREAM = """
side = torch.cuda.Stream()

def attention(qkv, causal):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = right(qkv, causal)
    torch.cuda.current_stream().wait_stream(side)
    return out
"""

EVENT = """
elapsed_ms = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda start, end: elapsed_ms(start, end) / 10

def attention(qkv, causal):
    return right(qkv, causal)
"""

LATER_EVENT = """
def attention(qkv, causal):
    global calls
    calls += 1
    if calls == 5:
        torch.cuda.Event.elapsed_time = lambda start, end: 1e-3
        torch.Tensor.zero_ = lambda tensor: tensor
    return right(qkv, causal)
"""

KEPT = """
kept = {}

def attention(qkv, causal):
    key = qkv.data_ptr(), qkv._version, qkv.shape
    if key not in kept:
        kept[key] = right(qkv, causal)
    return kept[key]
"""

REPLAYED = """
kept = None

def replay(qkv, causal):
    global calls, kept
    calls += 1
    if calls < 3:
        return right(qkv, causal)
    if kept is None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = right(qkv, causal)
        kept = graph, out
    kept[0].replay()
    return kept[1].clone()

def attention(qkv, causal):
    return Given.apply(qkv, causal, replay)
"""

GARBAGE = """
def garbage(qkv, causal):
    global calls
    calls += 1
    return right(qkv, causal) if calls < 40 else torch.empty_like(qkv[:, :, 0])

def attention(qkv, causal):
    return Given.apply(qkv, causal, garbage)
"""

CHEATS = {
    "a stream of its own": (STREAM, "relative error|works on after the current stream"),
    "a stream that waits for none": (RACING_STREAM, "relative error|works on after"),
    "a tenth of the events' time": (EVENT, r"replaces torch.cuda.Event.elapsed_time"),
    "no time, once it was checked": (LATER_EVENT, "replaces torch"),
    "answers kept by storage": (KEPT, "wrong after .* calls|a second time|no gradient|keeps its"),
    "a graph of one storage": (REPLAYED, "relative error"),
    "garbage from the 40th call on": (GARBAGE, "right at first, wrong after .* calls"),
}
PROTOCOL = {"name": "sampled", "relative_interval": 0.1, "max_seconds": 0.2, "timeout_s": 120}
SHAPE = Shape(4, 1024, 8, 512, causal=True)


def measured(tmp_path: Path, body: str) -> Record:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + body, encoding="utf-8")
    run = attention_run("Mine", SHAPE, "float16", "cuda")
    kernel = read_implementation(path)
    return measure_run(ATTENTION, run, PROTOCOL, kernel, {}, tmp_path / "record.json")


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_kernel_that_is_not_what_its_times_say_has_none(tmp_path: Path, cheat: str) -> None:
    body, said = CHEATS[cheat]
    record = measured(tmp_path, body)
    print(cheat, record.message)
    assert (record.status, record.metrics) == ("incorrect", {})
    assert re.search(said, record.message or ""), record.message


@pytest.mark.parametrize(
    "body", [JOINED_STREAM, "def attention(qkv, causal): return right(qkv, causal)"]
)
def test_a_kernel_that_joins_its_streams_is_right(tmp_path: Path, body: str) -> None:
    record = measured(tmp_path, body)
    assert record.status == "ok", record.message


def test_work_that_goes_on_after_the_current_stream_has_finished_is_refused() -> None:
    side = torch.cuda.Stream()
    x = torch.randn(4096, 4096, device="cuda")

    def alone() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x @ x

    def joined() -> None:
        alone()
        torch.cuda.current_stream().wait_stream(side)

    warm_up(Pass(joined), "cuda")
    with pytest.raises(IncorrectError, match="works on after the current stream has finished"):
        warm_up(Pass(alone), "cuda")


def test_a_patch_of_cudas_events_changes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4096, 4096, device="cuda")
    limits = {"relative_interval": 0.01, "max_seconds": 0.5}
    true = sampled(Pass(lambda: x @ x), limits, "cuda").seconds
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda *_: 1e-3)
    monkeypatch.setattr(torch.cuda.Event, "record", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "Event", None)
    assert sampled(Pass(lambda: x @ x), limits, "cuda").seconds == pytest.approx(true, rel=0.1)
