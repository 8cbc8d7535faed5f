"""The kernel engineer's first command: one implementation against the float64 reference.

Every dtype, head_dim and mask, at sequence lengths that fill their tiles and that do not.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from flashlab.measuring.child import describe_failure, load_kernel
from flashlab.measuring.gate import TOLERANCES, check_correctness
from flashlab.records import Shape

DTYPES = {"cuda": ("float16", "bfloat16"), "cpu": ("float32", "bfloat16")}
HEAD_DIMS = (32, 64, 128, 256)
SEQ_LENS = (1, 37, 128, 129, 1000)
BATCH_SIZE, NUM_HEADS = 2, 3


@dataclass(frozen=True)
class Case:
    """One comparison: where, how it went (``ok`` or a record's status), and both errors."""

    dtype: str
    shape: Shape
    status: str
    message: str
    out_error: float | None
    dqkv_error: float | None

    def row(self) -> str:
        """The case as a line of the printed table."""
        shape, errors = self.shape, (self.out_error, self.dqkv_error)
        cells = "  ".join("       –" if error is None else f"{error:8.1e}" for error in errors)
        mask = "causal" if shape.causal else "full"
        return (
            f"{self.dtype:8}  {shape.head_dim:8}  {shape.seq_len:7}  {mask:6}  {cells}  "
            f"{TOLERANCES[self.dtype]:9.0e}  {self.status}"
            + (f": {self.message}" if self.message else "")
        )


HEADER = "dtype     head_dim  seq_len  mask    out       dqkv      tolerance  status"


def check(kernel: Path, device: str) -> Iterator[Case]:
    """Compare the kernel in a file with the reference, case by case."""
    attention = load_kernel(kernel).attention
    cases = itertools.product(DTYPES[device], HEAD_DIMS, SEQ_LENS, (False, True))
    for dtype, head_dim, seq_len, causal in cases:
        shape = Shape(BATCH_SIZE, seq_len, NUM_HEADS, NUM_HEADS * head_dim, causal)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                errors = check_correctness(attention, shape, dtype, device)["errors"]
            except Exception as error:  # the kernel is another's code
                reasons = [str(warning.message) for warning in caught]
                status, message = describe_failure(error, reasons)
                first_line = message.splitlines()[0]
                yield Case(dtype, shape, status, first_line, None, None)
                continue
        yield Case(dtype, shape, "ok", "", errors["out"], errors["dqkv"])


def print_check(kernel: Path, device: str) -> bool:
    """Print the table as it grows; whether every case that is supported was right."""
    place = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    print(f"{kernel} on {place}, against float64, batch_size {BATCH_SIZE}, num_heads {NUM_HEADS}")
    print(HEADER)
    statuses = []
    for case in check(kernel, device):
        print(case.row(), flush=True)
        statuses.append(case.status)
    counts = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
    print(f"{len(statuses)} cases: {counts}")
    return all(status in ("ok", "unsupported") for status in statuses)
