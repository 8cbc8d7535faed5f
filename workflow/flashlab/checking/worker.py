"""The checking process: imports torch and the kernel once, then compares case by case."""

from __future__ import annotations

import faulthandler
import socket
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

# At the first backward pass PyTorch would import this, for seconds that are not the kernel's.
import torch.fx.experimental.symbolic_shapes

from flashlab.benchmarks.attention import gate, measure
from flashlab.benchmarks.attention.inputs import attention_of, forms_of
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.ladder import gate as ladder_gate
from flashlab.benchmarks.ladder.step import Step
from flashlab.benchmarks.registry import find_benchmark
from flashlab.checking.cases import Case, Outcome
from flashlab.forks import send
from flashlab.measuring.failures import IncorrectError, describe_failure
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.protocols import check_held, right_before, warm_up
from flashlab.measuring.replaced import refuse_replaced, relied_on

SEED = 0
"""Seeds every case, so that a failed case has the same inputs when it is repeated."""


def _kernel_traceback(error: BaseException, kernel: Path) -> str:
    """The exception as Python prints it, starting at the kernel's first frame, if any."""
    start = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != str(kernel):
        start = start.tb_next
    if start is not None or isinstance(error, SyntaxError):
        error = error.with_traceback(start)
    return "".join(traceback.format_exception(error)).rstrip()


def _device_is_lost(device: str) -> bool:
    """True if an error has left a CUDA context in which every further call fails."""
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception:
        return True
    return False


def _takes_bfloat16_for_float16(kernel: ModuleType, head_dim: int, device: str) -> bool:
    """True if the kernel's output for bfloat16 is its output for the same bits as float16.

    So does a flash-attn that was built for float16 alone, without a word.
    """
    qkv = torch.randn(1, 128, 3, 1, head_dim, dtype=torch.bfloat16, device=device)
    with torch.no_grad():
        outs = [kernel.attention(each, False) for each in (qkv, qkv.view(torch.float16))]
    return torch.equal(*(out.view(torch.int16) for out in outs))


def _repeat(kernel: ModuleType, case: Case, device: str, form: str) -> None:
    """Call each pass a few times over, and compare again; IncorrectError where it is wrong."""
    run = {**asdict(case.shape), "dtype": case.dtype, "device": device, "inputs": form}
    calls = 0
    for _, timed in measure.passes(kernel, run):
        timed.warm_up_seconds = 0
        warm_up(timed, device)
        with right_before(timed.calls + 1):
            check_held(timed, device)
        calls += timed.calls
    measure.check_again(kernel, run, calls)


def _check_attention(kernel: ModuleType, case: Case, device: str) -> dict[str, Any]:
    """Each form of the inputs that the kernel takes (`forms_of`).

    Each pass is repeated as before a timing, and then compared again, with fresh inputs at last.
    Returns the comparison in the form with the largest error.
    """
    checked = []
    try:
        for form in forms_of(kernel, case.shape):
            attention = attention_of(kernel, form, case.shape)
            checked.append(gate.check_correctness(attention, case.shape, case.dtype, device, form))
            _repeat(kernel, case, device, form)
        return max(checked, key=lambda compared: max(compared["errors"].values()))
    except IncorrectError as error:
        may_lack_it = case.dtype == "bfloat16" and "flash-attn" in getattr(kernel, "PACKAGES", ())
        if may_lack_it and _takes_bfloat16_for_float16(kernel, case.shape.head_dim, device):
            raise NotImplementedError(
                "this flash-attn was built for float16 alone: it takes bfloat16 for it, bit by bit"
            ) from error
        raise


def _check_step(kernel: ModuleType, case: Case, device: str) -> dict[str, Any]:
    """A step of the ladder on random inputs in [-3, 3), as the assignment's are, then on others."""
    if case.dtype != "float32":
        raise NotImplementedError("a step of the ladder computes in float32")
    shape, step = case.shape, Step(kernel)
    size = (shape.batch_size * shape.num_heads, shape.seq_len, shape.head_dim)
    q, k, v, out = (step.host_array(size) for _ in range(4))
    random = np.random.default_rng(SEED)

    def compared(again: bool) -> dict[str, Any]:
        for array in (q, k, v):
            array[:] = random.uniform(-3, 3, size)
        before = [array.copy() for array in (q, k, v)]
        step.compute(q, k, v, out)
        if not all(map(np.array_equal, (q, k, v), before)):
            raise IncorrectError(gate.OVERWRITTEN.format("q, k or v"))
        return ladder_gate.check_correctness(q, k, v, out, device, again)

    first = compared(again=False)
    with right_before(1):
        compared(again=True)
    return first


def _compare(
    kernel: ModuleType,
    is_step: bool,
    case: Case,
    device: str,
    path: Path,
    before: Mapping[str, Any],
) -> Outcome:
    """One comparison; whatever the kernel raises is an outcome.

    What is relied on must be as it was `before` the kernel's import (`relied_on`).
    """
    torch.manual_seed(SEED)
    tolerance = ladder_gate.TOLERANCE if is_step else gate.TOLERANCES[case.dtype]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            refuse_replaced(before)
            compared = (_check_step if is_step else _check_attention)(kernel, case, device)
            refuse_replaced(before)
        except BaseException as error:  # the kernel is third-party code, and may call sys.exit
            status, message = describe_failure(error, [str(warning.message) for warning in caught])
            shown = _kernel_traceback(error, path) if status == "error" else ""
            said, is_lost = message.strip().partition("\n")[0], _device_is_lost(device)
            return Outcome(status, said, {}, tolerance, shown, is_lost)
    heads = case.shape.batch_size * case.shape.num_heads
    some = compared.get("heads", compared.get("batches", heads))
    said = f"compared {some} of {heads} heads, some of every batch" if some < heads else ""
    return Outcome("ok", said, compared["errors"], tolerance)


def follow(
    file: str,
    name: str,
    device: str,
    trace: str,
    cases: Sequence[Mapping[str, Any]],
    channel: socket.socket,
) -> None:
    """Send ``started`` when torch is imported, ``failed`` with why or nothing for the kernel.

    Then the outcome of each case. The kernel is in `file`; the traceback of a crash goes to the
    file `trace`.
    """
    path, benchmark = Path(file), find_benchmark(name)
    with open(trace, "wb") as traced:
        faulthandler.enable(traced, all_threads=False)
        send(channel, {"started": True})
        before = relied_on()
        try:
            kernel = load_kernel(path)
        except BaseException as error:
            said = f"cannot be imported:\n{_kernel_traceback(error, path)}"
            return send(channel, {"failed": said})
        if not callable(getattr(kernel, "attention", None)):
            return send(channel, {"failed": f"has no function {benchmark.entry_point}"})
        send(channel, {})
        for given in cases:
            case, is_step = Case(given["dtype"], Shape(**given["shape"])), name == "ladder"
            send(channel, asdict(_compare(kernel, is_step, case, device, path, before)))
