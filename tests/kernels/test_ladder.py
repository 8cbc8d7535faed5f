"""The steps of the kernel ladder: what they declare, and that each is right."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashlab.benchmarks.implementations import KERNELS
from flashlab.hw4.program import LADDER, steps

STEPS = steps()
HAS_TRITON = importlib.util.find_spec("triton") is not None
LARGEST = {"TensorTF32": 1e-4, "TensorFP16": 2e-3, "SplitKeys": 2e-3}
"""The largest errors of the steps on tensor cores, which need Triton."""


@pytest.fixture(scope="module")
def simulated() -> dict[str, dict[str, float]]:
    """The errors of the steps, each at some sizes, from a process with the simulators on."""
    names = [name for name in STEPS if HAS_TRITON or name not in LARGEST]
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("simulated_ladder.py")), *names],
        env={**os.environ, "PYTHONPATH": str(KERNELS.parent / "workflow")},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, dict[str, float]] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_right_and_explained(simulated: dict[str, dict[str, float]], name: str) -> None:
    text = ast.get_docstring(ast.parse(STEPS[name].path.read_text(encoding="utf-8"))) or ""
    assert text.startswith(f"Step {list(STEPS).index(name)}: ")
    assert "B batch_size, N seq_len, d head_dim." in text
    idea = STEPS[name].idea or {}
    assert idea["en"].endswith(".") and idea["zh_TW"].endswith("。")
    if name in LARGEST and not HAS_TRITON:
        pytest.skip("Triton comes with the CUDA environment")
    errors = simulated[name]
    assert errors and all(error < LARGEST.get(name, 1e-5) for error in errors.values()), errors


def test_the_ladder_has_no_step_beside_the_climb() -> None:
    assert len(STEPS) == len(list(LADDER.glob("*.py"))) == 12
    assert list(STEPS)[:2] == ["Sequential", "GlobalMemory"]
