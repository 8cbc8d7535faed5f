"""What surrounds FlashLab's kernels on the host, without a GPU: the operator and the launches."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="Triton, locked in envs/ for Linux, has no wheel for this system",
)


def exact(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention by PyTorch's own operators, (B, N, 3, H, D) → (B, N, H, D)."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    return scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).contiguous()


@pytest.fixture(scope="module")
def operator() -> ModuleType:
    """The operator, with stand-ins for the kernels on the CPU."""
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import operator as loaded

    def forward(
        qkv: torch.Tensor, causal: bool, deterministic: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = loaded._outputs(qkv)
        return out.copy_(exact(qkv, causal)), lse.zero_()

    def backward(
        grad: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, causal: bool,
        deterministic: bool,
    ) -> torch.Tensor:  # fmt: skip
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, H, N, D)
        do = grad.transpose(1, 2)
        s = q @ k.mT * q.shape[-1] ** -0.5
        p = s.masked_fill(torch.ones_like(s).triu(1).bool() & causal, -torch.inf).softmax(-1)
        dp = do @ v.mT
        ds = p * (dp - (dp * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        return torch.stack([ds @ k, ds.mT @ q, p.mT @ do]).permute(1, 3, 0, 2, 4).contiguous()

    loaded._library.impl("attention", forward, "CPU")
    loaded._library.impl("attention_backward", backward, "CPU")
    return loaded


def test_the_operator_has_a_gradient_and_passes_pytorchs_own_checks(operator: ModuleType) -> None:
    qkv = torch.randn(2, 5, 3, 2, 16, requires_grad=True)
    out, lse = operator.attention_forward(qkv, True, False)
    assert out.requires_grad and not lse.requires_grad
    grad = torch.randn_like(out)
    (mine,) = torch.autograd.grad(out, qkv, grad)
    (right,) = torch.autograd.grad(exact(qkv, True), qkv, grad)
    torch.testing.assert_close(mine, right)
    torch.library.opcheck(operator.attention_forward, (qkv, True, False))
    arguments = (grad, qkv.detach(), out.detach(), lse, True, False)
    torch.library.opcheck(
        operator.attention_backward, arguments, test_utils=("test_schema", "test_faketensor")
    )


def test_a_second_derivative_is_refused(operator: ModuleType) -> None:
    qkv = torch.randn(1, 3, 3, 1, 16, requires_grad=True)
    out, _ = operator.attention_forward(qkv, False, False)
    (grad,) = torch.autograd.grad(out.square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize(("shape", "kept"), [((8, 37), False), ((8, 40), True)])
def test_a_saved_lse_that_was_copied_gets_its_rows_back(
    operator: ModuleType, shape: tuple[int, int], kept: bool
) -> None:
    copied = torch.arange(float(shape[0] * shape[1])).view(shape)
    found = operator._padded(copied)
    assert torch.equal(found, copied)
    assert found.stride() == (40, 1)
    assert (found is copied) == kept


Launched = dict[str, tuple[str, Any]]
"""The arguments of a launch by name, each with the type that the kernel was compiled for."""


@pytest.fixture
def launches(operator: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Launched]:
    """What is launched on a Hopper GPU where kernels compile to nothing."""
    import triton.compiler
    from kernels.flashlab import hopper
    from triton.backends.compiler import GPUTarget
    from triton.compiler import CompiledKernel
    from triton.runtime import driver

    launched: list[Launched] = []

    def compiled(source: Any, **_: Any) -> CompiledKernel:
        kernel = CompiledKernel.__new__(CompiledKernel)
        kernel.src, kernel.name, kernel.packed_metadata = source, source.name, ()
        kernel.module, kernel.function = 1, 1  # as if loaded
        types = source.signature.values()

        def run(*arguments: Any) -> None:
            given = arguments[-len(types) :]
            named = zip(source.fn.arg_names, zip(types, given, strict=True), strict=True)
            launched.append(dict(named))

        kernel._run = run
        return kernel

    gpu = SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda _: 0)
    gpu.get_current_target = lambda: GPUTarget("cuda", 90, 32)
    monkeypatch.setattr(driver, "_active", gpu)
    monkeypatch.setattr(triton.compiler, "compile", compiled)
    properties = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    for name in ("forward", "queries", "keys", "prepare", "finish"):
        kernel = getattr(hopper, f"{name}_kernel")
        monkeypatch.setattr(kernel, "device_caches", {0: kernel.create_binder()})
    for prepared in (
        hopper._forward_launch, hopper._queries_launch, hopper._keys_launch,
        hopper._prepare_launch, hopper._finish_launch,
    ):  # fmt: skip
        prepared.cache_clear()
    return launched


def test_a_prepared_launch_is_the_one_that_triton_makes(launches: list[Launched]) -> None:
    from kernels.flashlab import choices, hopper
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    qkv = torch.empty(2, 48, 3, 4, 64, dtype=torch.float16)
    out, lse = torch.empty(2, 48, 4, 64, dtype=torch.float16), torch.empty(8, 48)
    hopper.forward(qkv, False, out, lse)
    tile = choices.hopper_forward(64, 48, False)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=3)

    def rows(x: torch.Tensor, box: int) -> TensorDescriptor:
        flat = x.view(2, 48, -1)
        return TensorDescriptor(flat, list(flat.shape), list(flat.stride()), [1, box, 64], layout)

    hopper.forward_kernel[(8,)](
        rows(qkv, 64), rows(qkv, tile.keys), rows(out, 64), lse, lse, 48, 48, 4, 8, 8, D=64,
        BN=tile.keys, C=tile.consumers, RING=tile.ring, CAUSAL=False, RAGGED=True, QUEUED=False,
        REGISTERS=tile.registers, num_warps=4, maxnreg=tile.max_registers,
    )  # fmt: skip
    prepared, theirs = launches
    assert len(hopper.forward_kernel.device_caches[0][0]) == 1  # the same key: compiled once
    for name, (kind, mine) in prepared.items():
        _, right = theirs[name]
        if kind.startswith("tensordesc"):
            assert mine.base.data_ptr() == right.base.data_ptr()
            assert (list(mine.shape), list(mine.strides)) == (right.shape, right.strides)
            assert mine.padding == right.padding
        else:
            assert mine is right or mine == right


@pytest.mark.parametrize(
    ("seq_len", "deterministic", "kernels"),
    [(37, False, 2), (640, True, 2), (2048, False, 3), (2048, True, 2)],
)
def test_a_backward_gives_each_kernel_tensors_of_the_types_that_it_was_compiled_for(
    launches: list[Launched], operator: ModuleType, seq_len: int, deterministic: bool, kernels: int
) -> None:
    from kernels.flashlab import hopper
    from triton._utils import canonicalize_dtype, canonicalize_ptr_dtype

    qkv = torch.empty(1, seq_len, 3, 2, 64, dtype=torch.bfloat16)
    out, lse = operator._outputs(qkv)
    for _ in range(2):
        hopper.backward(
            torch.empty_like(out), qkv, out, lse, True, deterministic, torch.empty_like(qkv)
        )
    assert len(launches) == 2 * kernels
    for launched in launches:
        for kind, given in launched.values():
            if kind.startswith("tensordesc"):
                dtype = canonicalize_dtype(given.base.dtype)
                assert given.base.numel() == torch.Size(given.shape).numel()
                assert kind.startswith(f"tensordesc<{dtype}[")
            elif kind.startswith("*"):
                assert kind == canonicalize_ptr_dtype(given.dtype, False)
                assert given.data_ptr() % 16 == 0
