"""The steps of the kernel ladder: what they declare, and that each is right."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flashlab.hw4.program import LADDER, steps

STEPS = steps()
TENSOR_CORES = ("TensorTF32", "TensorFP16", "SplitKeys")
SIMULATED = tuple(name for name in STEPS if name not in TENSOR_CORES)
HAS_TRITON = importlib.util.find_spec("triton") is not None
HALF_PRECISION = ("TensorFP16", "SplitKeys")


@pytest.fixture(scope="module")
def simulated() -> dict[str, dict[str, float]]:
    """The errors of the steps, each at some sizes, from a process with the simulators on."""
    names = STEPS if HAS_TRITON else SIMULATED
    script = Path(__file__).with_name("simulated_ladder.py")
    done = subprocess.run(
        [sys.executable, str(script), *names],
        env={**os.environ, "PYTHONPATH": str(LADDER.parents[1] / "workflow")},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def test_the_ladder_has_no_step_beside_the_climb() -> None:
    assert len(STEPS) == len(list(LADDER.glob("*.py"))) == 12
    assert list(STEPS)[:2] == ["Sequential", "GlobalMemory"]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_says_where_it_stands_and_what_its_idea_is(name: str) -> None:
    tree = ast.parse(STEPS[name].path.read_text(encoding="utf-8"))
    text = ast.get_docstring(tree) or ""
    assert text.startswith(f"Step {list(STEPS).index(name)}: ")
    assert "B batch_size, N seq_len, d head_dim." in text
    idea = STEPS[name].idea
    assert idea is not None
    assert idea["en"].endswith(".") and idea["zh_TW"].endswith("。")


@pytest.mark.parametrize("name", SIMULATED)
def test_a_step_is_right_at_sizes_that_fill_no_tile(
    simulated: dict[str, dict[str, float]], name: str
) -> None:
    assert simulated[name]
    for sizes, error in simulated[name].items():
        assert error < 1e-5, sizes


@pytest.mark.skipif(not HAS_TRITON, reason="Triton comes with the CUDA environment")
@pytest.mark.parametrize("name", TENSOR_CORES)
def test_a_step_on_tensor_cores_is_right_in_tritons_interpreter(
    simulated: dict[str, dict[str, float]], name: str
) -> None:
    assert max(simulated[name].values()) < (2e-3 if name in HALF_PRECISION else 1e-4)


def test_numba_cuda_imports_beside_the_locked_numpy(root: Path) -> None:
    importlib.import_module("numba.cuda")
    locked = (root / "envs" / "cpu" / "requirements.txt").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^([\w-]+)==(\S+)", locked, re.MULTILINE))
    for package in ("numba", "numba-cuda", "numpy"):
        assert importlib.metadata.version(package) == versions[package]
