"""What a run that ended in an exception is recorded as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_NO_KERNEL = ("No available kernel", "No viable backend")
_ALLOCATION_FAILURES = ("can't allocate memory", "out of memory", "ALLOC_FAILED")


class IncorrectError(Exception):
    """An implementation whose result is wrong; `compared` holds its errors, where it has some."""

    def __init__(self, message: str, compared: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.compared = compared


def describe_failure(error: BaseException, reasons: Sequence[str]) -> tuple[str, str]:
    """Status and message of a run that ended in an exception, after these warnings.

    PyTorch states in warnings why none of the kernels that a backend has will do.
    """
    text = str(error) or type(error).__name__
    if any(part in text for part in _NO_KERNEL):
        return "unsupported", "; ".join([text, *reasons])
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return "oom", text
    if isinstance(error, IncorrectError):
        return "incorrect", text
    if isinstance(error, NotImplementedError):
        return "unsupported", text
    if isinstance(error, RuntimeError) and any(part in text for part in _ALLOCATION_FAILURES):
        return "oom", text
    return "error", f"{type(error).__name__}: {text}"
