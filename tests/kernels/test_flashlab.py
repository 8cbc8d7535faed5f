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
CASES = [
    (16, 70, 2, True), (40, 33, 1, False), (64, 65, 2, True), (96, 40, 1, True),
    (128, 40, 2, False), (256, 33, 1, True),
]  # fmt: skip
INTERPRETED = """
import json, sys
from pathlib import Path
import torch
from attention_reference import reference_passes
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
    packed = torch.stack([x.expand(-1, -1, 2, -1) for x in (q, k, v)], 2)
    right, (rq, rk, rv) = (x.unbind(2) for x in reference_passes(packed, grad, causal))
    rk, rv = (x.unflatten(2, (kv_heads, -1)).sum(3) for x in (rk, rv))
    pairs = (out, torch.stack(right, 2)), (dq, rq), (dk, rk), (dv, rv)
    errors.append([relative_error(*pair) for pair in pairs])
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def errors() -> dict[tuple[int, int, int, bool], list[float]]:
    """The relative errors of O, dQ, dK and dV, from one process that interprets Triton."""
    search = os.pathsep.join(str(KERNELS.parent / folder) for folder in ("workflow", "tests"))
    answer = subprocess.run(
        [sys.executable, "-c", INTERPRETED, str(KERNELS / "flash_lab.py"), json.dumps(CASES)],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(zip(CASES, json.loads(answer.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_plain_passes_agree_with_float64(
    errors: dict[tuple[int, int, int, bool], list[float]], case: tuple[int, int, int, bool]
) -> None:
    assert max(errors[case]) < 1e-6


@pytest.mark.parametrize("head_dim", [80, 256])
def test_the_plain_kernels_compile_and_fit_the_shared_memory_of_smaller_gpus(head_dim: int) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import choices, plain

    tiles = choices.plain_tiles(head_dim, torch.float16)
    for kernel, tile in (
        (plain.forward_kernel, tiles.forward),
        (plain.queries_kernel, tiles.queries),
        (plain.keys_kernel, tiles.keys),
    ):
        constants = {"D": head_dim, "WIDTH": plain._width(head_dim), "BM": tile.rows}
        constants |= {"BN": tile.cols, "CAUSAL": True}
        types, given = {}, {}
        for i, name in enumerate(kernel.arg_names):
            if name in constants:
                types[name], given[(i,)] = "constexpr", constants[name]
            elif name.endswith("_strides"):
                types[name], given[i, 3] = ("i32", "i32", "i32", "constexpr"), 1
            elif name.endswith("_ptr"):
                types[name] = "*fp32" if name in ("lse_ptr", "delta_ptr") else "*fp16"
            else:
                types[name] = "i32"
        compiled = triton.compile(
            ASTSource(kernel, types, given),
            target=GPUTarget("cuda", 86, 32),
            options={"num_warps": tile.warps, "num_stages": tile.stages},
        )
        assert compiled.metadata.shared <= 99 * 1024


def test_tiles_are_shared_out_where_whole_ones_take_a_round_more() -> None:
    """On 132 multiprocessors, of blocks of queries."""
    from kernels.flashlab import choices

    assert choices.shares([27] * 12, 11, 64, 132) is None
    shares = choices.shares([27] * 14, 10, 64, 132)
    assert shares and (shares.whole, shares.work, shares.pair) == (132, 8 * 27, 54)
    assert shares.blocks * (shares.number - 1) < shares.work <= shares.blocks * shares.number
    # With a mask, the longest takes longer than all do on average, and is cut; many even out.
    longest_first = range(64, 0, -1)
    shares = choices.shares(longest_first, 3, 64, 132)
    assert shares and shares.whole == 0 and 125 < shares.number <= 132 and shares.blocks < 50
    assert choices.shares(longest_first, 12, 64, 132) is None


WAYS = [
    # The way to compute dQ depends on how many multiprocessors would be idle.
    ("backward", (128, 128, False, 10, 132, False), "OWN_HEADS"),
    ("backward", (64, 512, True, 512, 132, False), "OWN_HEADS"),
    ("backward", (128, 512, False, 512, 132, False), "ADDED"),
    ("backward", (128, 333, True, 132, 132, False), "OWN_HEADS"),
    ("backward", (128, 333, True, 144, 132, False), "ADDED"),
    ("backward", (128, 640, True, 512, 132, True), "ALONE"),
    # Over 128, dQ is added up where seven products would have an emptier last round.
    ("wide", (192, 8000, False, 3, 3, 132, False), "adds"),
    ("wide", (192, 1024, True, 80, 80, 132, False), ""),
    ("wide", (256, 4096, False, 32, 32, 132, False), ""),
    ("wide", (256, 4096, True, 16, 2, 132, False), "adds splits"),
    ("wide", (256, 4096, True, 16, 2, 132, True), ""),
    # Heads that share keys go by apart where tiles would be few and long.
    ("splits", (64, 16384, True, 32, 1, 132, 50 * 2**20), "True"),
    ("splits", (64, 256, True, 32, 1, 132, 50 * 2**20), "False"),
    ("splits", (64, 4096, False, 64, 2, 132, 50 * 2**20), "True"),  # 64 tiles
    ("splits", (64, 4096, False, 128, 4, 132, 50 * 2**20), "False"),  # 128 tiles
    ("splits", (64, 2048, False, 32, 4, 132, 50 * 2**20), "False"),  # shared out within the L2
]


@pytest.mark.parametrize(("choice", "given", "way"), WAYS)
def test_the_way_is_chosen_by_how_full_the_gpu_would_be(
    choice: str, given: tuple[Any, ...], way: str
) -> None:
    from kernels.flashlab import choices

    found = getattr(choices, choice)(*given)
    if choice == "wide":
        assert way.split() == [name for name in ("adds", "splits") if getattr(found, name)]
    else:
        assert getattr(found, "name", str(found)) == way


@pytest.fixture
def operator() -> ModuleType:
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator as loaded

    return loaded


@pytest.mark.parametrize(
    ("dtype", "sizes", "said"),
    [
        (torch.float32, ((1, 8, 2, 64),) * 3, "float16 and bfloat16"),
        (torch.float16, ((1, 8, 2, 12),) * 3, "head_dim 12"),
        (torch.float16, ((1, 8, 2, 264),) * 3, "head_dim 264"),
        *(
            (torch.float16, sizes, r"q must be \(B, N, H, D\)")
            for sizes in (
                # 4 heads of q do not share 3 evenly; another length; k and v differ; none
                ((1, 8, 4, 64), (1, 8, 3, 64), (1, 8, 3, 64)),
                ((1, 8, 4, 64), (1, 9, 4, 64), (1, 9, 4, 64)),
                ((1, 8, 4, 64), (1, 8, 4, 64), (1, 8, 2, 64)),
                ((1, 8, 4, 64), (1, 8, 0, 64), (1, 8, 0, 64)),
            )
        ),
    ],
)
def test_what_there_is_no_kernel_for_is_refused(
    operator: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, sizes: Any,
    said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    tensors = (torch.empty(size, dtype=dtype) for size in sizes)
    with pytest.raises((NotImplementedError, ValueError), match=said):
        operator.separate_attention(*tensors, True)


def test_the_plain_kernels_say_why_they_run(
    operator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.flashlab import compiling, launcher

    device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 3070")
    assert "NVIDIA GeForce RTX 3070" in (operator.reason_for_plain(device) or "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(compiling, "missing", lambda: "there is no NVRTC here")
    assert operator.reason_for_plain(device) == "there is no NVRTC here"
    kernel = load_kernel(KERNELS / "flash_lab.py")
    assert kernel.provider("cuda").startswith("FlashLab (plain Triton: there is no NVRTC here)")
    monkeypatch.setattr(compiling, "missing", lambda: None)
    monkeypatch.setattr(launcher, "compiled", lambda: None)
    monkeypatch.setattr(launcher, "addresses", lambda: [])
    assert kernel.provider("cuda") == "FlashLab (CUDA C++ for Hopper)"
    monkeypatch.setenv("CXX", "there-is-none")
    said = "FlashLab (CUDA C++ for Hopper, launched from Python: there is no C++ compiler)"
    assert kernel.provider("cuda") == said


def test_every_file_of_the_kernels_is_part_of_what_identifies_a_record() -> None:
    sources = set(load_kernel(KERNELS / "flash_lab.py").SOURCES)
    cuda = {f"flashlab/cuda/{path.name}" for path in (KERNELS / "flashlab/cuda").iterdir()}
    assert sources == {*cuda, "flashlab/launcher.cpp"}
    assert set(load_kernel(KERNELS / "flash_lab_deterministic.py").SOURCES) == sources
