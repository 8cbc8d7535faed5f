"""The checking process: imports torch and the kernel once, then compares case by case.

It sends ``started`` when torch is imported, then ``ready`` or ``failed`` for the kernel, then the
outcome of each case. It dies with the process that started it.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from flashlab.benchmarks.attention.gate import TOLERANCES, Attention, check_correctness
from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.cases import Case, Outcome
from flashlab.measuring.child import die_with_parent
from flashlab.measuring.failures import describe_failure
from flashlab.measuring.kernel import load_kernel
from flashlab.measuring.start import read_message, send_message

SEED = 0
"""Seeds every case, so that a failed case has the same inputs when it is repeated."""


def _kernel_traceback(error: BaseException, kernel: Path) -> str:
    """The exception as Python prints it, starting at the kernel's first frame, if any."""
    start: TracebackType | None = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != str(kernel):
        start = start.tb_next
    if start is not None or isinstance(error, SyntaxError):
        error = error.with_traceback(start)
    return "".join(traceback.format_exception(error)).rstrip()


def _device_is_lost(device: str) -> bool:
    """Whether an error has left a CUDA context in which every further call fails."""
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception:
        return True
    return False


def compare(attention: Attention, case: Case, device: str, kernel: Path) -> Outcome:
    """One comparison; whatever the kernel raises is an outcome."""
    shape, tolerance = case.shape, TOLERANCES[case.dtype]
    torch.manual_seed(SEED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = check_correctness(attention, shape, case.dtype, device)
        except BaseException as error:  # the kernel is third-party code, and may call sys.exit
            status, message = describe_failure(error, [str(warning.message) for warning in caught])
            return Outcome(
                status,
                message.strip().partition("\n")[0],
                tolerance=tolerance,
                traceback=_kernel_traceback(error, kernel) if status == "error" else "",
                fatal=_device_is_lost(device),
            )
    checked = [found[name] for name in ("batch_size", "seq_len", "num_heads")]
    whole = checked == [shape.batch_size, shape.seq_len, shape.num_heads]
    reduced = "B{},N{},H{}".format(*checked)
    message = "" if whole else f"compared at {reduced}, the most that the reference can compute"
    return Outcome("ok", message, found["errors"], tolerance)


def _loaded(kernel: Path) -> tuple[Attention | None, dict[str, Any]]:
    """The kernel's function, and the message that confirms it or says why there is none."""
    try:
        module = load_kernel(kernel)
    except BaseException as error:
        return None, {"failed": f"cannot be imported:\n{_kernel_traceback(error, kernel)}"}
    attention = getattr(module, "attention", None)
    if not callable(attention):
        return None, {"failed": "has no function attention(qkv, causal)"}
    return attention, {"ready": True}


def main() -> None:
    """Compare the cases that arrive on the socket until it closes."""
    kernel, device = Path(sys.argv[1]), sys.argv[2]
    connection_fd, lifeline, trace = map(int, sys.argv[3:])
    die_with_parent(lifeline)
    faulthandler.enable(trace, all_threads=False)
    with socket.socket(fileno=connection_fd) as connection:
        send_message(connection, {"started": True})
        attention, message = _loaded(kernel)
        send_message(connection, message)
        while attention is not None and (order := read_message(connection)) is not None:
            case = Case(order["dtype"], Shape(**order["shape"]))
            send_message(connection, asdict(compare(attention, case, device, kernel)))


if __name__ == "__main__":
    main()
