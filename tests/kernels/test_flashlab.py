"""FlashLab's attention without a GPU: the plain kernels interpreted, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="Triton, locked in envs/ for Linux, has no wheel for this system",
)

# head_dim, seq_len, heads of K and V, causal
CASES = [(16, 70, 2, True), (40, 33, 1, False), (96, 40, 1, True), (256, 33, 1, True)]
INTERPRETED = """
import json, sys
from pathlib import Path
import torch
from attention_reference import separate_passes
from flashlab.benchmarks.attention.gate import relative_error
from flashlab.measuring.kernel import load_kernel
load_kernel(Path(sys.argv[1]))
from kernels.flashlab import choices, plain
errors = []
for head_dim, seq_len, kv_heads, causal in json.loads(sys.argv[2]):
    q, grad = torch.randn(2, 1, seq_len, 2, head_dim)
    k, v = torch.randn(2, 1, seq_len, kv_heads, head_dim)
    out, dq, dk, dv = (torch.full_like(x, torch.nan) for x in (q, q, k, v))
    lse = torch.full((1, 2, choices.padded(seq_len)), torch.nan)
    plain.forward(q, k, v, causal, out, lse)
    plain.backward(grad, q, k, v, out, lse, causal, False, dq, dk, dv)
    right = separate_passes(q, k, v, grad, causal)
    errors.append(list(map(relative_error, (out, dq, dk, dv), right)))
print(json.dumps(errors))
"""


def test_both_plain_passes_agree_with_float64() -> None:
    """The relative errors of O, dQ, dK and dV, from one process that interprets Triton."""
    search = os.pathsep.join(str(KERNELS.parent / folder) for folder in ("workflow", "tests"))
    command = [sys.executable, "-c", INTERPRETED, KERNELS / "flash_lab.py", json.dumps(CASES)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": search}
    answer = subprocess.check_output(command, env=environment)
    for case, errors in zip(CASES, json.loads(answer), strict=True):
        assert max(errors) < 1e-6, case


def test_the_plain_kernels_compile_and_fit_the_shared_memory_of_smaller_gpus() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import choices, plain

    tiles = choices.plain_tiles(256, torch.float16)
    type_of = {  # by the end of an argument's name
        **{"_strides": ("i32", "i32", "i32", "constexpr"), "lse_ptr": "*fp32"},
        **{"delta_ptr": "*fp32", "_ptr": "*fp16", "": "i32"},
    }
    for name in ("forward", "queries", "keys"):
        kernel, tile = getattr(plain, f"{name}_kernel"), getattr(tiles, name)
        constants = {"D": 256, "WIDTH": 256, "BM": tile.rows, "BN": tile.cols, "CAUSAL": True}
        types, given = {}, {}
        for i, argument in enumerate(kernel.arg_names):
            types[argument] = next(type_of[end] for end in type_of if argument.endswith(end))
            if argument in constants:
                types[argument], given[(i,)] = "constexpr", constants[argument]
            elif argument.endswith("_strides"):
                given[i, 3] = 1
        options = {"num_warps": tile.warps, "num_stages": tile.stages}
        source, target = ASTSource(kernel, types, given), GPUTarget("cuda", 86, 32)
        compiled = triton.compile(source, target=target, options=options)
        assert compiled.metadata.shared <= 99 * 1024


@pytest.fixture
def operator() -> ModuleType:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator as loaded

    return loaded


FORM = r"q must be \(B, N, H, D\)"


@pytest.mark.parametrize(
    ("q", "k", "v", "said"),
    [
        *((*[(8, 2, d)] * 3, f"head_dim {d}") for d in (12, 264)),
        ((8, 4, 64), (8, 3, 64), (8, 3, 64), FORM),  # which 4 heads of q do not share evenly
        *(((8, 4, 64), (n, h, 64), (n, h, 64), FORM) for n, h in ((9, 4), (8, 0))),
        ((8, 4, 64), (8, 4, 64), (8, 2, 64), FORM),
    ],
)
def test_what_there_is_no_kernel_for_is_refused(
    operator: ModuleType, monkeypatch: pytest.MonkeyPatch, q: Any, k: Any, v: Any, said: str
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    tensors = [torch.empty(1, *size, dtype=torch.float16) for size in (q, k, v)]
    with pytest.raises((NotImplementedError, ValueError), match=said):
        operator.separate_attention(*tensors, True)
    with pytest.raises(NotImplementedError, match="float16 and bfloat16"):
        operator.separate_attention(*[torch.empty(1, 8, 2, 64)] * 3, True)


def test_a_record_says_what_ran(operator: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.flashlab import compiling, launcher

    provider = load_kernel(KERNELS / "flash_lab.py").provider
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 3070")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    assert "NVIDIA GeForce RTX 3070" in str(operator.reason_for_plain(torch.device("cuda")))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(compiling, "missing", lambda: "there is no NVRTC here")
    assert provider("cuda").startswith("FlashLab (plain Triton: there is no NVRTC here)")
    monkeypatch.setattr(compiling, "missing", lambda: None)
    monkeypatch.setattr(launcher, "compiled", lambda: None)
    monkeypatch.setattr(launcher, "addresses", lambda: [])
    assert provider("cuda") == "FlashLab (CUDA C++ for Hopper)"
    monkeypatch.setenv("CXX", "there-is-none")
    said = "FlashLab (CUDA C++ for Hopper, launched from Python: there is no C++ compiler)"
    assert provider("cuda") == said


def test_every_file_of_the_kernels_is_part_of_what_identifies_a_record() -> None:
    cuda = {f"flashlab/cuda/{path.name}" for path in (KERNELS / "flashlab/cuda").iterdir()}
    for name in ("flash_lab", "flash_lab_deterministic"):
        found = {*load_kernel(KERNELS / f"{name}.py").SOURCES}
        assert found == {*cuda, "flashlab/launcher.cpp"}
