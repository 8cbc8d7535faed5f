"""Kernels without a GPU: how they explain themselves, what they refuse, and the ladder's steps."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS, find_implementations
from flashlab.hw4.program import LADDER, steps
from flashlab.measuring.child import measure
from flashlab.measuring.kernel import load_kernel

TAKES = {"attention": ["qkv", "causal"], "separate_attention": ["q", "k", "v", "causal"]}


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.py")), ids=lambda path: path.stem)
def test_a_kernel_explains_itself_and_the_shapes_of_its_tensors(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, arguments in TAKES.items():
        assert "(B, N, H, D)" in (ast.get_docstring(functions[name]) or "")
        assert [argument.arg for argument in functions[name].args.args] == arguments


@pytest.mark.parametrize("name", ["SdpaEfficient", "SdpaCudnn", "Flash4", "Flex", "FlashLab"])
def test_what_needs_a_gpu_is_unsupported_without_one_and_says_so(name: str) -> None:
    run = attention_run(name, Shape(1, 16, 2, 32, False), "float32", "cpu").to_json()
    order = {"run": run, "protocol": {"name": "lab5", "repeats": 1}, "measure": ATTENTION.measure}
    answer = measure({**order, "kernel": str(find_implementations()[name].path)})
    assert answer["status"] == "unsupported" and len(answer["message"]) > 20


def test_flash_attn_4_alone_is_no_flash_attn_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the folder, which is a package then, without the functions of the other."""
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    assert load_kernel(KERNELS / "flash2.py").provider("cuda").startswith("torch ")


# The steps of the ladder

STEPS, HAS_TRITON = steps(), importlib.util.find_spec("triton") is not None
LARGEST = {"TensorTF32": 1e-4, "TensorFP16": 2e-3, "SplitKeys": 2e-3}
"""The largest errors of the steps on tensor cores, which need Triton."""


@pytest.fixture(scope="module")
def simulated() -> dict[str, list[float]]:
    """The errors of the steps, each at some sizes, from a process with the simulators on."""
    names = [name for name in STEPS if HAS_TRITON or name not in LARGEST]
    command = [sys.executable, Path(__file__).with_name("simulated_ladder.py"), *names]
    environment = {**os.environ, "PYTHONPATH": str(KERNELS.parent / "workflow")}
    found: dict[str, list[float]] = json.loads(subprocess.check_output(command, env=environment))
    return found


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_right_and_explained(simulated: dict[str, list[float]], name: str) -> None:
    text = ast.get_docstring(ast.parse(STEPS[name].path.read_text(encoding="utf-8"))) or ""
    assert text.startswith(f"Step {list(STEPS).index(name)}: ")
    assert "B batch_size, N seq_len, d head_dim." in text
    idea = STEPS[name].idea or {}
    assert idea["en"].endswith(".") and idea["zh_TW"].endswith("。")
    if name in LARGEST and not HAS_TRITON:
        pytest.skip("Triton comes with the CUDA environment")
    assert all(error < LARGEST.get(name, 1e-5) for error in simulated[name]), simulated[name]


def test_the_ladder_has_no_step_beside_the_climb() -> None:
    assert len(STEPS) == len([*LADDER.glob("*.py")]) == 12
