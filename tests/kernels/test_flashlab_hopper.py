"""FlashLab's kernels for Hopper on a CPU, in a simulation of their instructions.

Threads take turns in a random order, and the copy engine and the products do their work at a random
time, so that a missing wait gives a wrong result, NaN or a deadlock.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import simulated_hopper
import torch
from attention_reference import reference_passes

from flashlab.benchmarks.attention.gate import relative_error
from flashlab.benchmarks.implementations import KERNELS
from flashlab.measuring.kernel import load_kernel

WRONG = 3
"""The exit status of a process whose kernels gave a wrong result."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the simulation switches threads as glibc does"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what g++ has compiled."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> simulated_hopper.Driver:
    """Problems as small as these are computed in the ways of larger ones."""
    load_kernel(KERNELS / "flash_lab.py")
    from kernels.flashlab import choices

    ways = {d: (replace(alone, takes=1e9), added) for d, (alone, added) in choices.WIDE.items()}
    monkeypatch.setattr(choices, "WIDE", ways)
    monkeypatch.setattr(choices, "SUMS", dict.fromkeys(choices.SUMS, 2.0))
    monkeypatch.setattr(choices, "WORTH", dict.fromkeys(choices.WORTH, 1.0))
    return simulated_hopper.install(monkeypatch, folder)


@pytest.fixture
def operator(
    driver: simulated_hopper.Driver, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The operators on tensors of the CPU, launched from Python."""
    from kernels.flashlab import hopper
    from kernels.flashlab import operator as loaded

    monkeypatch.setattr(loaded, "_on", lambda _: nullcontext())
    monkeypatch.setattr(loaded, "_kernels", lambda _: hopper)
    library = torch.library.Library("flashlab", "IMPL")
    loaded._implement(library, "CPU")
    yield loaded
    library._destroy()


@pytest.fixture(scope="module")
def launcher_library() -> ctypes.PyDLL:
    """The C++ launcher."""
    from kernels.flashlab import launcher

    return ctypes.PyDLL(str(launcher.compiled()))


@pytest.fixture
def launched(
    driver: simulated_hopper.Driver, monkeypatch: pytest.MonkeyPatch, launcher_library: ctypes.PyDLL
) -> Iterator[ModuleType]:
    """The operators on tensors of the CPU, launched from C++ from the second call on."""
    from kernels.flashlab import hopper, launcher
    from kernels.flashlab import operator as loaded

    monkeypatch.setattr(loaded, "_on", lambda _: nullcontext())
    monkeypatch.setattr(loaded, "_kernels", lambda _: hopper)
    functions = simulated_hopper.functions(driver)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    monkeypatch.setattr(launcher, "loaded", launcher.Launcher(launcher_library, addresses, "CPU"))
    library = torch.library.Library("flashlab", "IMPL")
    loaded._implement(library, "CPU")
    yield loaded
    library._destroy()
    launcher_library.attach(None, ctypes.c_int64(0), b"CPU", (ctypes.c_void_p * len(addresses))())


def random_qkv(*size: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """(B, N, 3, H, D) of the given B, N, H, D."""
    B, N, H, D = size
    return torch.randn(B, N, 3, H, D, dtype=dtype)


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "causal", "deterministic", "dtype", "kernels"),
    [
        (64, 1, True, False, torch.float16, "forward backward"),
        (64, 130, True, False, torch.float16, "forward backward"),
        (64, 600, True, False, torch.float16, "forward prepare backward finish"),
        (8, 300, False, True, torch.bfloat16, "forward backward"),
        (96, 100, True, False, torch.float16, "forward backward"),
        (80, 530, False, False, torch.bfloat16, "forward prepare backward finish"),
        (128, 520, True, True, torch.float16, "forward queries backward"),
        (256, 100, False, False, torch.float16, "forward prepare wide finish"),
        (136, 300, True, False, torch.bfloat16, "forward prepare wide finish"),
        (192, 130, True, True, torch.float16, "forward queries wide"),
        (256, 330, True, True, torch.bfloat16, "forward queries wide"),
    ],
)
def test_both_passes_agree_with_float64(
    driver: simulated_hopper.Driver, operator: ModuleType, head_dim: int, seq_len: int,
    causal: bool, deterministic: bool, dtype: torch.dtype, kernels: str,
) -> None:  # fmt: skip
    from kernels.flashlab import hopper

    # Of the long ones, one has several sequences and heads.
    batch_size, num_heads = {530: (2, 1), 520: (1, 2)}.get(seq_len, (2, 2))
    qkv = random_qkv(batch_size, seq_len, num_heads, head_dim, dtype=dtype)
    grad = torch.randn(batch_size, seq_len, num_heads, head_dim, dtype=dtype)
    expected = reference_passes(qkv, grad, causal)
    for driver.seed in range(2):
        driver.launched.clear()
        out, lse = operator.packed_forward(qkv, causal, deterministic)
        found = out, operator.packed_backward(grad, qkv, out, lse, causal, deterministic)
        assert [name for name, *_ in driver.launched] == kernels.split()
        for mine, right in zip(found, expected, strict=True):
            assert relative_error(mine, right) <= (1e-3 if dtype == torch.float16 else 8e-3)
    # The tiles of each launch were numbered from 0 on.
    assert not any(counter.any() for counter in hopper._counters.values())


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "num_heads", "causal", "dtype", "processors"),
    [
        (64, 600, 1, False, torch.float16, 14),  # fewer tiles than multiprocessors
        (80, 600, 3, False, torch.bfloat16, 7),  # one more than two for each
        (128, 530, 1, False, torch.float16, 4),  # one more
        (128, 640, 1, True, torch.bfloat16, 5),  # the longest is the whole time
        (96, 530, 2, True, torch.float16, 14),
    ],
)
def test_tiles_that_do_not_come_out_even_are_shared_out(
    driver: simulated_hopper.Driver, operator: ModuleType, head_dim: int, seq_len: int,
    num_heads: int, causal: bool, dtype: torch.dtype, processors: int,
) -> None:  # fmt: skip
    driver.processors = processors
    qkv = random_qkv(1, seq_len, num_heads, head_dim, dtype=dtype)
    grad = torch.randn(1, seq_len, num_heads, head_dim, dtype=dtype)
    expected = reference_passes(qkv, grad, causal)
    for driver.seed in range(2):
        driver.launched.clear()
        out, lse = operator.packed_forward(qkv, causal, False)
        found = out, operator.packed_backward(grad, qkv, out, lse, causal, False)
        programs = {name: programs for name, programs, _ in driver.launched}
        assert programs["finish"] > programs["prepare"]  # it sums dK and dV up as well
        for mine, right in zip(found, expected, strict=True):
            assert relative_error(mine, right) <= (1e-3 if dtype == torch.float16 else 8e-3)


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "processors", "splits"),
    [
        (64, 200, 2, False),
        (64, 600, 2, True),
        (64, 600, 9, False),
        (80, 300, 9, True),
        (160, 150, 2, False),
        (200, 150, 2, True),
    ],
)
def test_separate_tensors_and_heads_that_share_keys(
    driver: simulated_hopper.Driver, operator: ModuleType, monkeypatch: pytest.MonkeyPatch,
    head_dim: int, seq_len: int, processors: int, splits: bool,
) -> None:  # fmt: skip
    from kernels.flashlab import choices

    added = choices.WIDE[256][1]
    monkeypatch.setattr(choices, "splits", lambda *_: splits)
    monkeypatch.setattr(choices, "wide", lambda *_: replace(added, splits=splits))
    driver.processors = processors
    q = torch.randn(1, 4, seq_len, head_dim, dtype=torch.float16).transpose(1, 2)
    k, v = torch.randn(1, seq_len, 2, 2, head_dim, dtype=torch.float16).unbind(3)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    grad = torch.randn(1, seq_len, 4, head_dim, dtype=torch.float16)
    out, _ = operator.separate_forward(*inputs, True, False)
    dq, dk, dv = torch.autograd.grad(out, inputs, grad)
    same = torch.stack([q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)], 2)
    right, dqkv = reference_passes(same, grad, True)
    expected = dqkv.unbind(2)
    assert relative_error(out.detach(), right) <= 1e-3
    assert relative_error(dq, expected[0]) <= 1e-3
    for mine, each in ((dk, expected[1]), (dv, expected[2])):
        assert relative_error(mine, each.unflatten(2, (2, 2)).sum(3)) <= 1e-3


def test_heads_that_are_left_over_come_first(
    operator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.flashlab import choices

    monkeypatch.setattr(choices, "heads_together", lambda *_: 2)
    qkv = random_qkv(1, 200, 5, 64)
    out, _ = operator.packed_forward(qkv, True, False)
    expected, _ = reference_passes(qkv, torch.zeros_like(out), True)
    assert relative_error(out, expected) <= 1e-3


@pytest.mark.parametrize("seq_len", [130, 320, 600])
def test_tiles_that_do_not_come_out_even_end_where_the_rows_do(
    operator: ModuleType, monkeypatch: pytest.MonkeyPatch, seq_len: int
) -> None:
    from kernels.flashlab import choices

    tile = choices.Forward(consumers=3, keys=80, stages=3)
    monkeypatch.setattr(choices, "forward", lambda *_: tile)
    qkv = random_qkv(1, seq_len, 2, 128)
    out, lse = operator.packed_forward(qkv, True, False)
    expected, _ = reference_passes(qkv, torch.zeros_like(out), True)
    assert lse.isfinite().all() and relative_error(out, expected) <= 1e-3


def test_an_unaligned_tensor_is_copied(operator: ModuleType) -> None:
    wide = torch.randn(1, 40, 3, 1, 65, dtype=torch.float16)
    out, _ = operator.packed_forward(wide[..., 1:], True, False)
    expected, _ = reference_passes(wide[..., 1:], torch.zeros_like(out), True)
    assert relative_error(out, expected) <= 1e-3


@pytest.mark.parametrize("size", [(0, 5, 2, 64), (2, 0, 2, 64), (2, 5, 0, 64)])
def test_nothing_gives_nothing(operator: ModuleType, size: tuple[int, ...]) -> None:
    qkv = random_qkv(*size).requires_grad_()
    out, _ = operator.packed_forward(qkv, True, False)
    (dqkv,) = torch.autograd.grad(out, qkv, torch.ones_like(out))
    assert out.shape == size and dqkv.shape == qkv.shape


def test_a_call_changes_the_addresses_that_differ(
    driver: simulated_hopper.Driver, operator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.flashlab import hopper

    called = []
    for name in ("cuTensorMapEncodeTiled", "cuTensorMapReplaceAddress"):
        function = getattr(driver, name)
        monkeypatch.setattr(
            driver, name, lambda *a, n=name, f=function: (called.append(n), f(*a))[1]
        )
    one, other = (random_qkv(1, 20, 1, 64) for _ in range(2))
    out, lse = operator._outputs(one, 1, 20, 1, 64)
    changes = []
    for qkv in (one, one, other, one):
        called.clear()
        hopper.packed_forward(qkv, True, out, lse)
        changes.append([name.removeprefix("cuTensorMap") for name in called])
        expected, _ = reference_passes(qkv, torch.zeros_like(out), True)
        assert relative_error(out, expected) <= 1e-3
    assert changes == [["EncodeTiled"] * 4, [], *[["ReplaceAddress"] * 3] * 2]


def test_the_operators_pass_pytorchs_own_checks(operator: ModuleType) -> None:
    qkv = random_qkv(1, 5, 2, 64).requires_grad_()
    out, lse = operator.packed_forward(qkv, True, False)
    assert out.requires_grad and not lse.requires_grad
    torch.library.opcheck(operator.packed_forward, (qkv, True, False))
    separate = tuple(x.detach().requires_grad_() for x in qkv.unbind(2))
    torch.library.opcheck(operator.separate_forward, (*separate, True, False))
    checks = ("test_schema", "test_faketensor")
    given = (torch.randn_like(out), qkv.detach(), out.detach(), lse, True, False)
    torch.library.opcheck(operator.packed_backward, given, test_utils=checks)
    given = (given[0], *(x.detach() for x in separate), *given[2:])
    torch.library.opcheck(operator.separate_backward, given, test_utils=checks)


def test_a_second_derivative_is_refused(operator: ModuleType) -> None:
    qkv = random_qkv(1, 3, 1, 64).requires_grad_()
    out, _ = operator.packed_forward(qkv, True, False)
    (grad,) = torch.autograd.grad(out.square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_tensors_that_were_saved_as_copies_give_the_same_gradient(operator: ModuleType) -> None:
    qkv = random_qkv(1, 37, 2, 64).requires_grad_()
    grads = []
    for unpack in (lambda x: x, torch.clone):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, unpack):
            out, _ = operator.packed_forward(qkv, True, False)
        grads += torch.autograd.grad(out, qkv, torch.ones_like(out))
    assert torch.equal(*grads)


@pytest.mark.scheduled  # that the simulation shows what is wrong; the kernels as they are: above
@pytest.mark.parametrize(
    ("kernel", "head_dim", "deterministic", "before", "after", "processors"),
    [
        ("backward", 64, False, "d.wait_full<DS>();", "", 2),
        ("backward", 64, False, "counter[0] = counter[1] = 0", "counter[1] = 0", 2),
        ("backward", 64, False, "wait_for_kernel_before();", "", 2),
        ("backward", 128, False, "a) {\n  wait_for_kernel_before();", "a) {", 12),  # in `finish`
        ("backward", 128, False, "2 * share + (share * a.share < begin)", "2 * share", 12),
        ("wide", 160, False, "i.wait_full<P>();", "", 2),
        ("wide", 160, False, "if (ADDED) sync_turns(3, 256);", "", 2),
        ("wide", 160, True, "if (ADDED) kv.wait_full<K>();", "kv.wait_full<K>();", 2),
    ],
)
def test_a_planted_fault_is_found(
    driver: simulated_hopper.Driver, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], kernel: str, head_dim: int, deterministic: bool,
    before: str, after: str, processors: int,
) -> None:  # fmt: skip
    """With whole tiles for two processors or, up to head_dim 128, shares for twelve."""
    from kernels.flashlab import compiling, hopper
    from kernels.flashlab import operator as loaded

    whole = compiling.source

    def faulty(name: str, *given: Any) -> str:
        text = whole(name, *given)
        assert name != kernel or before in text
        return text.replace(before, after) if name == kernel else text

    monkeypatch.setattr(compiling, "source", faulty)
    driver.processors = processors
    size = 1, 600, 2, head_dim
    qkv, grad = random_qkv(*size), torch.randn(size).half()
    expected = reference_passes(qkv, grad, True)

    def is_wrong() -> bool:
        out, lse = loaded._outputs(qkv, *size)
        for output in (out, lse):  # else what is not written may be that of the call before
            output.fill_(torch.nan)
        hopper.packed_forward(qkv, True, out, lse)
        dqkv = torch.full_like(qkv, torch.nan)
        hopper.packed_backward(grad, qkv, out, lse, True, deterministic, dqkv)
        errors = map(relative_error, (out, dqkv), expected)
        return not all(error <= 1e-3 for error in errors)  # of NaN, too, which `max` passes over

    pid = os.fork()  # a deadlock ends the process
    if pid == 0:
        try:
            for driver.seed in range(10):
                if is_wrong():
                    os._exit(WRONG)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    said = capfd.readouterr().err
    assert os.waitstatus_to_exitcode(status) == WRONG or "simulated: " in said, said


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "deterministic", "kernels"),
    [
        (64, 100, False, "forward backward"),
        (64, 520, False, "forward prepare backward finish"),
        (80, 520, False, "forward prepare backward finish"),  # shared out
        (64, 520, True, "forward queries backward"),
        (160, 70, False, "forward prepare wide finish"),
        (256, 70, True, "forward queries wide"),
    ],
)
def test_later_calls_are_launched_from_cpp_with_their_own_tensors(
    driver: simulated_hopper.Driver, launched: ModuleType, monkeypatch: pytest.MonkeyPatch,
    head_dim: int, seq_len: int, deterministic: bool, kernels: str,
) -> None:  # fmt: skip
    driver.processors = 8 if head_dim == 80 else 2
    for call in range(3):
        qkv, grad = random_qkv(1, seq_len, 2, head_dim), torch.randn(1, seq_len, 2, head_dim).half()
        driver.launched.clear()
        out, lse = launched.packed_forward(qkv, True, deterministic)
        found = out, launched.packed_backward(grad, qkv, out, lse, True, deterministic)
        assert [name for name, *_ in driver.launched] == kernels.split()
        for mine, right in zip(found, reference_passes(qkv, grad, True), strict=True):
            assert relative_error(mine, right) <= 1e-3
        if not call:  # Python is asked no more
            monkeypatch.setattr(launched, "_kernels", None)
