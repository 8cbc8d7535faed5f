from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS, find_implementations
from flashlab.measuring.child import measure
from flashlab.measuring.kernel import load_kernel

PATHS = sorted(KERNELS.glob("*.py"))
NAMES = ("Pytorch", "Flash2", "SdpaMath")


def attention(name: str) -> Callable[..., torch.Tensor]:
    found: Callable[..., torch.Tensor] = load_kernel(find_implementations()[name].path).attention
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_kernel_explains_itself_and_the_shapes_of_its_tensors(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    takes = {"attention": ["qkv", "causal"], "separate_attention": ["q", "k", "v", "causal"]}
    for name, arguments in takes.items():
        assert "(B, N, H, D)" in (ast.get_docstring(functions[name]) or "")
        assert [argument.arg for argument in functions[name].args.args] == arguments


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_output_has_the_shape_and_dtype_that_was_asked_for(
    name: str, dtype: torch.dtype
) -> None:
    qkv = torch.randn(2, 37, 3, 4, 16, dtype=dtype, requires_grad=True)
    out = attention(name)(qkv, causal=True)
    assert (out.shape, out.dtype) == ((2, 37, 4, 16), dtype)
    out.backward(torch.ones_like(out))
    assert qkv.grad is not None and qkv.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_causal_position_does_not_see_what_comes_after_it(name: str) -> None:
    qkv = torch.randn(1, 40, 3, 2, 8)
    later = qkv.clone()
    later[:, 20:] += 1
    run = attention(name)
    torch.testing.assert_close(run(qkv, True)[:, :20], run(later, True)[:, :20])
    assert not torch.allclose(run(qkv, False)[:, :20], run(later, False)[:, :20])


@pytest.mark.parametrize("name", NAMES)
def test_equal_keys_give_the_mean_of_the_values(name: str) -> None:
    qkv = torch.randn(1, 16, 3, 2, 8)
    qkv[:, :, 1] = 1.0
    out = attention(name)(qkv, False)
    torch.testing.assert_close(out, qkv[:, :, 2].mean(1, keepdim=True).expand_as(out))


@pytest.mark.parametrize("causal", [False, True])
def test_the_implementations_agree(causal: bool) -> None:
    qkv = torch.randn(2, 129, 3, 4, 32)
    naive, *others = (attention(name)(qkv, causal) for name in NAMES)
    for other in others:
        torch.testing.assert_close(naive, other, atol=1e-5, rtol=1e-4)


def test_flash2_says_whose_kernel_it_is() -> None:
    provider = load_kernel(find_implementations()["Flash2"].path).provider
    assert provider("cpu") == f"torch {torch.__version__} SDPBackend.FLASH_ATTENTION (CPU)"


@pytest.mark.parametrize("name", ["SdpaEfficient", "SdpaCudnn", "Flash4", "Flex", "FlashLab"])
def test_what_needs_a_gpu_is_unsupported_without_one_and_says_so(name: str) -> None:
    run = attention_run(name, Shape(1, 16, 2, 32, False), "float32", "cpu")
    order = {
        "run": run.to_json(),
        "protocol": {"name": "lab5", "repeats": 1},
        "kernel": str(find_implementations()[name].path),
        "measure": ATTENTION.measure,
    }
    answer = measure(order)
    assert answer["status"] == "unsupported"
    assert len(answer["message"]) > 20


def test_what_flash2_does_not_support_is_said_with_the_librarys_reason() -> None:
    qkv = torch.ones(1, 8, 3, 2, 8, dtype=torch.int32)
    with (
        pytest.warns(UserWarning, match="Got Query dtype: int"),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        attention("Flash2")(qkv, False)


def test_flash_attn_4_alone_is_no_flash_attn_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the folder, which is a package then, without the functions of the other."""
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    kernel = load_kernel(find_implementations()["Flash2"].path)
    assert kernel.provider("cuda").startswith("torch ")
