"""Kernels on a GPU that are right when first checked, and not what their times say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from measuring.conftest import CHEATS, HEAD, refused_on

from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.failures import IncorrectError
from flashlab.measuring.protocols import Pass, sampled, warm_up
from flashlab.records import Record

pytestmark = pytest.mark.gpu

PROTOCOL = {"name": "sampled", "relative_interval": 0.1, "max_seconds": 0.2, "timeout_s": 120}
SHAPE = Shape(4, 1024, 8, 512, causal=True)


@pytest.fixture
def measured_body(tmp_path: Path, measured: Callable[..., Record]) -> Callable[[str], Record]:
    """Measures a kernel given as text."""

    def measure(body: str) -> Record:
        path = tmp_path / "mine.py"
        path.write_text(HEAD + body, encoding="utf-8")
        return measured(path, SHAPE, PROTOCOL)

    return measure


@pytest.mark.parametrize("name", refused_on("cuda"))
def test_a_cheat_has_no_times(measured_body: Callable[[str], Record], name: str) -> None:
    record = measured_body(CHEATS[name]["body"])
    print(name, record.message)
    assert (record.status, record.metrics) == ("incorrect", {})
    assert re.search(CHEATS[name]["said"], record.message or ""), record.message


@pytest.mark.parametrize("body", ["", CHEATS["a stream that is waited for"]["body"]])
def test_joined_streams_are_right(measured_body: Callable[[str], Record], body: str) -> None:
    record = measured_body(body)
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
