"""Kernels without a GPU: how they explain themselves, and what they refuse with a reason."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS, find_implementations
from flashlab.measuring.child import measure
from flashlab.measuring.kernel import load_kernel

FLASH2 = KERNELS / "flash2.py"
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
    assert answer["status"] == "unsupported"
    assert len(answer["message"]) > 20


def test_what_flash2_does_not_support_is_said_with_the_librarys_reason() -> None:
    qkv = torch.ones(1, 8, 3, 2, 8, dtype=torch.int32)
    with (
        pytest.warns(UserWarning, match="Got Query dtype: int"),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        load_kernel(FLASH2).attention(qkv, False)


def test_flash_attn_4_alone_is_no_flash_attn_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the folder, which is a package then, without the functions of the other."""
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    assert load_kernel(FLASH2).provider("cuda").startswith("torch ")
