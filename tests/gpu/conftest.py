"""What the tests on a real GPU share. By hand on a GPU host: python -m pytest tests/gpu"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations, read_implementation
from flashlab.measuring.supervise import measure_run
from flashlab.records import Record


@pytest.fixture(scope="session", autouse=True)
def _on_a_gpu() -> None:
    if not machine.gpus() or not machine.torch_has_cuda():
        pytest.skip("needs a GPU and torch for CUDA")


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., Record]:
    """Measures an implementation, by its name or as a file, at a shape in float16."""

    def measure(which: str | Path, shape: Shape, protocol: Mapping[str, Any]) -> Record:
        known = isinstance(which, str)
        kernel = find_implementations()[which] if known else read_implementation(Path(which))
        run = attention_run(kernel.name, shape, "float16", "cuda")
        return measure_run(ATTENTION, run, protocol, kernel, {}, tmp_path / "record.json")

    return measure
