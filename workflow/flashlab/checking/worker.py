"""The checking process: imports torch and the kernel once, then compares case by case."""

from __future__ import annotations

import faulthandler
import socket
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
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
from flashlab.benchmarks.ladder.step import Step, fill
from flashlab.benchmarks.registry import find_benchmark
from flashlab.forks import send
from flashlab.measuring.failures import IncorrectError, describe_failure, refuse_replaced, relied_on
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.protocols import check_held, right_before, synchronize, warm_up

SEED = 0
"""Seeds every case, so that a failed case has the same inputs when it is repeated."""


def _kernel_traceback(error: BaseException, file: str) -> str:
    """The exception as Python prints it, starting at the kernel's first frame, if any."""
    start = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != file:
        start = start.tb_next
    if start is not None or isinstance(error, SyntaxError):
        error = error.with_traceback(start)
    return "".join(traceback.format_exception(error)).rstrip()


def _check_attention(kernel: ModuleType, dtype: str, shape: Shape, device: str) -> dict[str, Any]:
    """Compare each form of the inputs; repeat each pass as before a timing, and compare again."""
    checked = list[dict[str, Any]]()
    for form in forms_of(kernel, shape):
        run, calls = {**asdict(shape), "dtype": dtype, "device": device, "inputs": form}, 0
        attention = attention_of(kernel, form, shape)
        checked.append(gate.check_correctness(attention, shape, dtype, device, form))
        for _, timed in measure.passes(kernel, run):
            timed.warm_up_seconds = 0
            warm_up(timed, device)
            check_held(timed, device)
            calls += timed.calls
        measure.check_again(kernel, run, calls)
    return max(checked, key=lambda compared: max(compared["errors"].values()))


def _check_step(kernel: ModuleType, dtype: str, shape: Shape, device: str) -> dict[str, Any]:
    """A step of the ladder on random inputs, as the assignment's are, then on others."""
    if dtype != "float32":
        raise NotImplementedError("a step of the ladder computes in float32")
    step, random, checked = Step(kernel), np.random.default_rng(SEED), list[dict[str, Any]]()
    size = (shape.batch_size * shape.num_heads, shape.seq_len, shape.head_dim)
    q, k, v, out = (step.host_array(size) for _ in "qkvo")
    for again in (False, True):
        fill(random, q, k, v)
        before = [array.copy() for array in (q, k, v)]
        with right_before(1) if again else nullcontext():
            step.compute(q, k, v, out)
            if not all(map(np.array_equal, (q, k, v), before)):
                raise IncorrectError(gate.OVERWRITTEN.format("q, k or v"))
            checked.append(ladder_gate.check_correctness(q, k, v, out, device, again))
    return checked[0]


def follow(
    file: str,
    name: str,
    device: str,
    trace: str,
    cases: Sequence[tuple[str, Mapping[str, Any]]],
    channel: socket.socket,
) -> None:
    """Send an empty message when torch is imported, and one for the kernel, or why it cannot be.

    Then the outcome of each case: its `status` and `message` as in a record, the relative `errors`
    of ``out`` and ``dqkv`` and the `tolerance`, where they are known, the kernel's part of an
    exception's `traceback`, and whether it is `fatal`: this process is of no more use. The kernel
    is in `file`; the traceback of a crash goes to the file `trace`.
    """
    with open(trace, "wb") as traced:
        faulthandler.enable(traced, all_threads=False)
        send(channel, {})
        relied = relied_on()
        try:
            kernel = load_kernel(Path(file))
        except BaseException as error:
            return send(channel, {"message": "", "traceback": _kernel_traceback(error, file)})
        if not callable(getattr(kernel, "attention", None)):
            lacking = f"it has no function {find_benchmark(name).entry_point}"
            return send(channel, {"message": lacking})
        send(channel, {})
        is_step = name == "ladder"
        for dtype, sizes in cases:
            shape, said = Shape(**sizes), dict[str, Any]()
            said["tolerance"] = ladder_gate.TOLERANCE if is_step else gate.TOLERANCES[dtype]
            torch.manual_seed(SEED)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    refuse_replaced(relied)
                    check = _check_step if is_step else _check_attention
                    compared = check(kernel, dtype, shape, device)
                    refuse_replaced(relied)
                    heads = shape.batch_size * shape.num_heads
                    some = compared.get("heads", compared.get("batches", heads))
                    part = f"compared {some} of {heads} heads, some of every batch"
                    said |= {"status": "ok", "message": part if some < heads else ""}
                    said["errors"] = compared["errors"]
                except BaseException as error:  # a kernel may call sys.exit, too
                    status, message = describe_failure(error, [str(w.message) for w in caught])
                    said |= {"status": status, "message": message.strip().partition("\n")[0]}
                    said["traceback"] = _kernel_traceback(error, file) if status == "error" else ""
                    said["fatal"] = True
                    with suppress(Exception):  # in a lost CUDA context every further call fails
                        synchronize(device)
                        said["fatal"] = False
            send(channel, said)
