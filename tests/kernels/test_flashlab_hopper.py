"""FlashLab's kernels for Hopper on a CPU, in a simulation of their instructions.

Threads take turns in a random order, and the copy engine and the products do their work at a random
time, so that a missing wait gives a wrong result, NaN or a deadlock.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from attention_reference import reference_passes, separate_passes
from simulated_hopper import Driver, functions, install

from flashlab.benchmarks.attention.gate import relative_error
from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

HALF, BRAIN = torch.float16, torch.bfloat16

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the simulation switches threads as glibc does"
)


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Problems as small as these are computed in the ways of larger ones."""
    folder = tmp_path_factory.getbasetemp() / "compiled"  # by g++, once for all tests
    folder.mkdir(exist_ok=True)
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import choices

    ways = {d: (replace(alone, takes=1e9), added) for d, (alone, added) in choices.WIDE.items()}
    monkeypatch.setattr(choices, "WIDE", ways)
    monkeypatch.setattr(choices, "SUMS", dict.fromkeys(choices.SUMS, 2.0))
    monkeypatch.setattr(choices, "WORTH", dict.fromkeys(choices.WORTH, 1.0))
    return install(monkeypatch, folder)


@pytest.fixture
def in_cpp(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets C++ launch the operators from the second call on, where it precedes `operator`."""
    from kernels.flashlab import launcher

    library = ctypes.PyDLL(str(launcher.compiled()))
    called = functions(driver)  # kept as long as the launcher may call them
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in called]
    monkeypatch.setattr(launcher, "loaded", launcher.Launcher(library, addresses, "CPU"))
    yield
    library.attach(None, ctypes.c_int64(0), b"CPU", (ctypes.c_void_p * len(addresses))())


@pytest.fixture
def operator(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The operators, implemented for tensors of the CPU; launched from Python."""
    from kernels.flashlab import hopper
    from kernels.flashlab import operator as loaded

    monkeypatch.setattr(loaded, "_on", lambda _: nullcontext())
    monkeypatch.setattr(loaded, "_kernels", lambda _: hopper)
    library = torch.library.Library("flashlab", "IMPL")
    loaded._implement(library, "CPU")
    yield loaded
    library._destroy()


def assert_right(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    for mine, right in zip(found, expected, strict=True):
        assert relative_error(mine, right) <= (1e-3 if mine.dtype == HALF else 8e-3)


def assert_passes_right(
    operator: ModuleType, size: Sequence[int], causal: bool, deterministic: bool, dtype: Any = HALF
) -> None:
    """Both passes of (B, N, H, D) agree with float64."""
    grad, (B, N, H, D) = torch.randn(size, dtype=dtype), size
    qkv = torch.randn(B, N, 3, H, D, dtype=dtype)
    out, lse = operator.packed_forward(qkv, causal, deterministic)
    assert lse.isfinite().all()
    dqkv = operator.packed_backward(grad, qkv, out, lse, causal, deterministic)
    assert_right((out, dqkv), reference_passes(qkv, grad, causal))


PLAIN, WHOLE, SHARED = "forward backward", "forward queries backward", "prepare backward finish"
WIDE = "forward prepare wide finish"


@pytest.mark.parametrize(
    "case",  # (B, N, H, D), causal, deterministic, dtype, the kernels that run, multiprocessors
    [
        ((2, 1, 2, 64), True, False, HALF, PLAIN, 2),
        ((2, 130, 2, 64), True, False, HALF, PLAIN, 2),
        ((2, 300, 2, 8), False, True, BRAIN, PLAIN, 2),
        ((2, 100, 2, 96), True, False, HALF, PLAIN, 2),
        ((2, 530, 1, 80), False, False, BRAIN, f"forward {SHARED}", 2),
        ((1, 520, 2, 128), True, True, HALF, WHOLE, 2),
        ((2, 100, 2, 256), False, False, HALF, WIDE, 2),
        ((2, 300, 2, 136), True, False, BRAIN, WIDE, 2),
        ((1, 200, 2, 256), True, True, BRAIN, "forward queries wide", 2),
        # Tiles that do not come out even are shared out: fewer than multiprocessors, one more than
        # two for each, one more, and where the longest is the whole time.
        ((1, 600, 1, 64), False, False, HALF, SHARED, 14),
        ((1, 600, 3, 80), False, False, BRAIN, SHARED, 7),
        ((1, 530, 1, 128), False, False, HALF, SHARED, 4),
        ((1, 640, 1, 128), True, False, BRAIN, SHARED, 5),
    ],
    ids=str,
)
def test_both_passes_agree_with_float64(driver: Driver, operator: ModuleType, case: Any) -> None:
    from kernels.flashlab import hopper

    size, causal, deterministic, dtype, kernels, driver.processors = case
    for driver.seed in range(2 if size[1] < 200 else 1):  # the second time with other tensors
        driver.launched.clear()
        assert_passes_right(operator, size, causal, deterministic, dtype)
        programs = dict(driver.launched)
        assert " ".join(programs).endswith(kernels)
        if driver.processors > 2:  # it sums dK and dV up as well
            assert programs["finish"] > programs["prepare"]
    # The tiles of each launch were numbered from 0 on.
    assert not any(counter.any() for counter in hopper._counters.values())


@pytest.mark.parametrize(
    "case",  # D, N, multiprocessors, whether heads that share keys go by apart
    [(64, 200, 2, False), (64, 600, 2, True), (80, 300, 9, True), (200, 150, 2, True)],
)
def test_separate_tensors_and_heads_that_share_keys(
    driver: Driver, operator: ModuleType, monkeypatch: pytest.MonkeyPatch, case: Any
) -> None:
    from kernels.flashlab import choices

    head_dim, seq_len, driver.processors, splits = case
    added = choices.WIDE[256][1]
    monkeypatch.setattr(choices, "splits", lambda *_: splits)
    monkeypatch.setattr(choices, "wide", lambda *_: replace(added, splits=splits))
    q = torch.randn(1, 4, seq_len, head_dim, dtype=HALF).transpose(1, 2)
    k, v = torch.randn(1, seq_len, 2, 2, head_dim, dtype=HALF).unbind(3)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    grad = torch.randn(1, seq_len, 4, head_dim, dtype=HALF)
    out, _ = operator.separate_forward(*inputs, True, False)
    found = [out.detach(), *torch.autograd.grad(out, inputs, grad)]
    assert_right(found, separate_passes(q, k, v, grad, True))


def test_an_unaligned_tensor_is_copied_and_nothing_gives_nothing(operator: ModuleType) -> None:
    wide = torch.randn(1, 40, 3, 1, 65, dtype=HALF)[..., 1:]
    out, _ = operator.packed_forward(wide, True, False)
    assert_right([out], [reference_passes(wide, torch.zeros_like(out), True)[0]])
    for size in ((0, 5, 2, 64), (2, 0, 2, 64), (2, 5, 0, 64)):
        qkv = torch.randn(*size[:2], 3, *size[2:], dtype=HALF, requires_grad=True)
        out, _ = operator.packed_forward(qkv, True, False)
        (dqkv,) = torch.autograd.grad(out, qkv, torch.ones_like(out))
        assert out.shape == size and dqkv.shape == qkv.shape


def test_the_operators_pass_pytorchs_own_checks(operator: ModuleType) -> None:
    qkv = torch.randn(1, 5, 3, 2, 64, dtype=HALF, requires_grad=True)
    out, lse = operator.packed_forward(qkv, True, False)
    assert out.requires_grad and not lse.requires_grad
    separate = tuple(x.detach().requires_grad_() for x in qkv.unbind(2))
    checks = ("test_schema", "test_faketensor")
    opcheck = torch.library.opcheck
    opcheck(operator.packed_forward, (qkv, True, False))
    opcheck(operator.separate_forward, (*separate, True, False), test_utils=checks)
    given = (torch.randn_like(out), qkv.detach(), out.detach(), lse, True, False)
    opcheck(operator.packed_backward, given, test_utils=checks)
    given = (given[0], *(x.detach() for x in separate), *given[2:])
    opcheck(operator.separate_backward, given, test_utils=checks)
    (grad,) = torch.autograd.grad(out.square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.usefixtures("in_cpp")
@pytest.mark.parametrize(
    "case",  # D, N, deterministic, multiprocessors, the kernels that run
    [
        (64, 100, False, 2, PLAIN),
        (80, 520, False, 8, f"forward {SHARED}"),  # shared out
        (64, 520, True, 2, WHOLE),
        (160, 70, False, 2, WIDE),
    ],
)
def test_later_calls_are_launched_from_cpp_with_their_own_tensors(
    driver: Driver, operator: ModuleType, monkeypatch: pytest.MonkeyPatch, case: Any
) -> None:
    head_dim, seq_len, deterministic, driver.processors, kernels = case
    for _ in range(3):
        driver.launched.clear()
        assert_passes_right(operator, (1, seq_len, 2, head_dim), True, deterministic)
        assert [name for name, *_ in driver.launched] == kernels.split()
        monkeypatch.setattr(operator, "_kernels", None)  # Python is asked no more
