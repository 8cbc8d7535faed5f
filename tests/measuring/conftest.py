"""Kernels written for a test, and orders to measure them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.implementations import Implementation, read_implementation
from flashlab.calls.watching import WORKFLOW_PID

HEAD = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
import torch

def naive(qkv, causal, scale=None):
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    scores = q @ k.mT * (D**-0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)
"""


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device locks of the test's own, so that it waits for no measurement outside it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv(WORKFLOW_PID, raising=False)


@pytest.fixture(autouse=True)
def _forked(forking_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring processes and their warm parents are forks that have imported torch."""
    monkeypatch.setattr(sys, "executable", forking_python)


@pytest.fixture(scope="session")
def workflow() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of Snakemake's, which lives as long as the tests do."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


@pytest.fixture
def in_workflow(
    workflow: subprocess.Popen[bytes], _shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Makes this process a job of the workflow, whose jobs share a warm parent."""
    monkeypatch.setenv(WORKFLOW_PID, str(workflow.pid))
    monkeypatch.setenv("TMPDIR", str(_shared))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def hang() -> str:
    """Body of a kernel that hangs, once it has written its process id beside its file."""
    return "import os, time; open(__file__ + '.pid', 'w').write(str(os.getpid())); time.sleep(600)"


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[[str], Implementation]:
    """Writes a kernel with this body of `attention(qkv, causal)`."""

    def write(body: str) -> Implementation:
        path = tmp_path / "mine.py"
        body = textwrap.indent(textwrap.dedent(body), "    ")
        path.write_text(f"{HEAD}\ndef attention(qkv, causal):\n{body}\n", encoding="utf-8")
        return read_implementation(path)

    return write


@pytest.fixture
def protocol() -> dict[str, Any]:
    """The sampled protocol, cut as short as it goes."""
    return {
        "name": "sampled",
        "relative_interval": 0.5,
        "max_seconds": 0.02,
        "timeout_s": 60,
    }
