"""The status and message of a run that ended in an exception, if it is recorded."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_NO_KERNEL = ("No available kernel", "No viable backend")
_ALLOCATION_FAILURES = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
_OF_SYSTEM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENFILE)

_MACHINE_FAILURES = (
    *map(os.strerror, _OF_SYSTEM),
    # Messages of the CUDA runtime, NVML and PyTorch about a GPU or a driver that is gone.
    *("device lost", "GPU is lost", "fallen off the bus", "CUDA error: unknown error"),
    *("No CUDA GPUs are available", "no CUDA-capable device", "busy or unavailable"),
    *("uncorrectable ECC error", "uncorrectable NVLink error", "CUDA unknown error"),
    *("Found no NVIDIA driver", "driver version is insufficient", "unsupported display driver"),
)
"""Parts of the messages of exceptions that no kernel causes: a full disk, a lost GPU."""


class IncorrectError(Exception):
    """An implementation whose result is wrong; `compared` holds its errors, where it has some."""

    def __init__(self, message: str, compared: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.compared = compared


def is_of_the_machine(error: BaseException) -> bool:
    """True if an exception, or one of its causes, is a failure of the machine, not of the run."""
    text, cause = str(error).lower(), error.__cause__ or error.__context__
    is_so = any(part.lower() in text for part in _MACHINE_FAILURES)
    return is_so or (cause is not None and is_of_the_machine(cause))


def describe_failure(error: BaseException, reasons: Sequence[str]) -> tuple[str, str]:
    """Status and message of a run that ended in an exception, after these warnings.

    PyTorch states in warnings why none of the kernels that a backend has will do.
    """
    text = str(error) or type(error).__name__
    if any(part in text for part in _NO_KERNEL):
        return "unsupported", "; ".join([text, *reasons])
    if isinstance(error, IncorrectError):
        return "incorrect", text
    if isinstance(error, NotImplementedError):
        return "unsupported", text
    failed = isinstance(error, RuntimeError) and any(part in text for part in _ALLOCATION_FAILURES)
    if failed or isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return "oom", text
    return "error", f"{type(error).__name__}: {text}"
