"""FlashLab's kernels without a GPU: the plain ones in Triton's interpreter, the others compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
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

CASES = [(16, 70, True), (32, 33, False), (64, 65, True), (128, 40, False), (256, 33, True)]
INTERPRETED = """
import json, sys
from pathlib import Path
import torch
from flashlab.benchmarks.attention.gate import reference_passes, relative_error
from flashlab.measuring.kernel import load_kernel
load_kernel(Path(sys.argv[1]))
from kernels.flashlab import plain
errors = []
for head_dim, seq_len, causal in json.loads(sys.argv[2]):
    qkv = torch.randn(1, seq_len, 3, 2, head_dim)
    grad = torch.randn(1, seq_len, 2, head_dim)
    out, dqkv = torch.full_like(grad, torch.nan), torch.full_like(qkv, torch.nan)
    lse = torch.full((2, seq_len), torch.nan)
    plain.forward(qkv, causal, out, lse)
    plain.backward(grad, qkv, out, lse, causal, dqkv)
    right = reference_passes(qkv, grad, causal)
    errors.append([relative_error(*pair) for pair in zip((out, dqkv), right, strict=True)])
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def errors() -> dict[tuple[int, int, bool], list[float]]:
    """The relative errors of both passes for each case, in one process that interprets Triton."""
    answer = subprocess.run(
        [sys.executable, "-c", INTERPRETED, str(KERNELS / "flash_lab.py"), json.dumps(CASES)],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(KERNELS.parent / "workflow")},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(zip(CASES, json.loads(answer.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_plain_passes_agree_with_float64(
    errors: dict[tuple[int, int, bool], list[float]], case: tuple[int, int, bool]
) -> None:
    assert max(errors[case]) < 1e-6


@cache
def package() -> ModuleType:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import choices, hopper_backward, hopper_forward

    found = ModuleType("kernels of FlashLab")
    found.choices, found.forward, found.backward = choices, hopper_forward, hopper_backward
    return found


def boxes(*shape: int, dtype: str = "fp16") -> str:
    """The type of a tensor descriptor as a kernel's signature states it."""
    from triton.experimental.gluon import language as gl

    bits = 16 if dtype == "fp16" else 32
    swizzle = min(128, shape[-1] * bits // 8) if len(shape) == 3 else 0
    layout = gl.NVMMASharedLayout(
        swizzle_byte_width=swizzle, element_bitwidth=bits, rank=len(shape)
    )
    return f"tensordesc<{dtype}[{', '.join(map(str, shape))}],{layout!r}>"


def spilled_bytes(kernel: Any, types: dict[str, str], constants: dict[str, Any], regs: int) -> int:
    """Compile for sm_90 as a launch does; the bytes of registers that ptxas stores in memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    integers = dict.fromkeys(kernel.arg_names, "i32")
    signature = {**integers, **types, **dict.fromkeys(constants, "constexpr")}
    place = kernel.arg_names.index
    source = GluonASTSource(
        kernel, signature, {(place(name),): value for name, value in constants.items()}
    )
    options = {"num_warps": 4, "maxnreg": regs}
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    command = [ptxas, "-v", "--gpu-name=sm_90a", "-", "-o", os.devnull]
    said = subprocess.run(command, input=ptx, capture_output=True, text=True, check=True).stderr
    assert "Potential Performance Loss" not in said  # wgmma made to wait for each other
    (stores,) = re.findall(r"(\d+) bytes spill stores", said)
    return int(stores)


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "causal"),
    [(32, 512, True), (64, 200, False), (64, 1024, True), (64, 4096, False), (128, 4096, True)],
)
def test_the_forward_for_hopper_fits_its_registers(
    head_dim: int, seq_len: int, causal: bool
) -> None:
    tile = package().choices.hopper_forward(head_dim, seq_len, causal)
    rows = boxes(1, 64, head_dim)
    types = {"qkv_rows": rows, "qkv_keys": boxes(1, tile.keys, head_dim), "out": rows}
    types |= {"lse_ptr": "*fp32", "counter": "*i32"}
    constants = {"D": head_dim, "BN": tile.keys, "C": tile.consumers, "RING": tile.ring}
    constants |= {"CAUSAL": causal, "REGISTERS": tile.registers}
    constants |= {"RAGGED": seq_len % tile.keys != 0}
    constants |= {"QUEUED": package().choices.forward_queues(head_dim, seq_len, causal)}
    kernel = package().forward.forward_kernel
    assert spilled_bytes(kernel, types, constants, tile.max_registers) == 0


@pytest.mark.parametrize(("head_dim", "reduced", "spilled"), [(64, False, 0), (128, True, 64)])
def test_the_backward_for_hopper_fits_its_registers(
    head_dim: int, reduced: bool, spilled: int
) -> None:
    # What the reduced one spills is a few bytes beside the loop's products: docs/kernel.md.
    tile = package().choices.hopper_backward(head_dim, 4096, True)
    queries = boxes(1, tile.queries, head_dim)
    rows = boxes(1, tile.queries, dtype="fp32")
    types = {"qkv_queries": queries, "qkv_keys": boxes(1, 128, head_dim), "grad": queries}
    types |= {"lse": rows, "delta": rows, "dqkv": boxes(1, 64, head_dim), "counter": "*i32"}
    types |= {"dq": boxes(1, 64, 64, dtype="fp32") if reduced else "*fp32"}
    constants = {"D": head_dim, "BM": tile.queries, "RING": tile.ring, "CAUSAL": True}
    constants |= {"RAGGED": False, "REDUCED": reduced, "QUEUED": True}
    constants |= {"REGISTERS": package().choices.TWO_CONSUMERS}
    assert spilled_bytes(package().backward.keys_kernel, types, constants, 168) <= spilled


@pytest.mark.parametrize("head_dim", [128, 256])
def test_dq_alone_for_hopper_fits_its_registers(head_dim: int) -> None:
    tile = package().choices.hopper_backward(head_dim, 4096, True)
    rows = boxes(1, 64, head_dim)
    types = {
        "qkv_rows": rows,
        "qkv_keys": boxes(1, tile.keys, head_dim),
        "grad": rows,
        "dqkv": rows,
    }
    types |= {"out_ptr": "*fp16", "lse_ptr": "*fp32", "delta_ptr": "*fp32", "counter": "*i32"}
    constants = {"D": head_dim, "BN": tile.keys, "C": 2, "RING": tile.queries_ring, "CAUSAL": True}
    constants |= {"RAGGED": False, "CARRY": tile.carry, "QUEUED": True}
    constants |= {"REGISTERS": package().choices.TWO_CONSUMERS}
    assert spilled_bytes(package().backward.queries_kernel, types, constants, 168) == 0


def test_wide_keys_for_hopper_fit_their_registers() -> None:
    from kernels.flashlab.hopper_backward_wide import wide_keys_kernel

    tile = package().choices.hopper_backward(256, 4096, True)
    queries, rows = boxes(1, tile.queries, 256), boxes(1, tile.queries, dtype="fp32")
    types = {"qkv_queries": queries, "qkv_keys": boxes(1, 64, 256), "grad": queries}
    types |= {"lse": rows, "delta": rows, "dqkv": boxes(1, 64, 256), "counter": "*i32"}
    constants = {"D": 256, "BM": tile.queries, "RING": tile.ring, "CAUSAL": True}
    constants |= {"RAGGED": False, "QUEUED": True}
    constants |= {"REGISTERS": package().choices.TWO_CONSUMERS}
    assert spilled_bytes(wide_keys_kernel, types, constants, 168) == 0


def test_torch_knows_the_output_without_running_a_kernel() -> None:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator

    qkv = torch.empty(2, 37, 3, 4, 64, dtype=torch.float16, device="meta")
    out, lse = operator.attention_forward(qkv, True, False)
    assert (out.shape, out.dtype) == ((2, 37, 4, 64), torch.float16)
    assert (lse.shape, lse.stride(), lse.dtype) == ((8, 37), (40, 1), torch.float32)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "said"),
    [(torch.float32, 64, "float16 and bfloat16"), (torch.float16, 96, "head_dim 96")],
)
def test_what_there_is_no_kernel_for_is_unsupported(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, head_dim: int, said: str
) -> None:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator

    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    with pytest.raises(NotImplementedError, match=said):
        operator.attention(torch.empty(1, 8, 3, 2, head_dim, dtype=dtype), True)


def test_another_triton_gets_the_plain_kernels_and_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator

    device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(operator.triton, "__version__", "9.9.9")
    reason = operator.reason_for_plain(device)
    assert reason == "the kernels for Hopper were tried with Triton 3.6.0, and this is 9.9.9"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 3070")
    assert "NVIDIA GeForce RTX 3070" in (operator.reason_for_plain(device) or "")
