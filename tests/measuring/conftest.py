"""Kernels written for a test or to cheat (`cheats.toml`), and orders to measure them."""

from __future__ import annotations

import os
import subprocess
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, read_implementation
from flashlab.measuring.supervise import measure_run
from flashlab.plan.watching import WORKFLOW_PID
from flashlab.records import Record, read_record
from flashlab.runs import Run

CHEATS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("cheats.toml").read_text("utf-8"))
"""Kernels that are not what their times or memory say, and what is said of each."""

HEAD: str = CHEATS.pop("head")
RUN = attention_run("Mine", Shape(2, 37, 2, 16, True), "float32", "cpu")
Measured = Callable[..., Record]


def refused_on(device: str) -> list[str]:
    """The names of the cheats that have no times on a device."""
    return [name for name, cheat in CHEATS.items() if device in cheat.get("devices", ["cpu"])]


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device locks of the test's own, so that it waits for no measurement outside it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv(WORKFLOW_PID, raising=False)


@pytest.fixture(scope="session")
def _workflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What jobs have of a process in the place of Snakemake's, which lives as long as the tests."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield {WORKFLOW_PID: str(process.pid), "TMPDIR": str(tmp_path_factory.mktemp("warm"))}


@pytest.fixture
def in_workflow(_workflow: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process a job of the workflow, whose jobs share a server."""
    for name, value in _workflow.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)


def in_call(code: str) -> str:
    """A kernel that runs these lines at each call, before it is right."""
    lines = textwrap.indent(textwrap.dedent(code), "    ")
    return f"def attention(qkv, causal):\n{lines}\n    return naive(qkv, causal)\n"


@pytest.fixture
def protocol() -> dict[str, Any]:
    """The sampled protocol, cut as short as it goes."""
    return {"name": "sampled", "relative_interval": 0.5, "max_seconds": 0.02, "timeout_s": 60}


@pytest.fixture
def measure(protocol: dict[str, Any], tmp_path: Path) -> Measured:
    """Measures a kernel, or one with this text after `HEAD`, as a job does; reads its record."""

    def measured(of: str | Implementation = "", run: Run = RUN, **limits: Any) -> Record:
        os.environ.pop("PYTEST_CURRENT_TEST", None)  # jobs have one environment
        output, path = tmp_path / "records" / "r.json", tmp_path / "mine.py"
        if isinstance(of, str):
            path.write_text(f"{HEAD}\n{of}\n", encoding="utf-8")
        mine = read_implementation(path) if isinstance(of, str) else of
        record = measure_run(ATTENTION, run, protocol | limits, mine, {"torch": "2"}, output)
        assert read_record(output, run) == record
        assert [path.name for path in output.parent.iterdir()] == ["r.json"]
        return record

    return measured
