"""A step of the ladder on arrays of the host: its copies to and from the device, and its kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Timed = Callable[[str], AbstractContextManager[None]]
"""What times a part: ``copy_in``, ``kernel`` and ``copy_out``, or ``overlapped``."""


def _untimed(part: str) -> AbstractContextManager[None]:
    return nullcontext()


def fill(random: np.random.Generator, *arrays: Array) -> None:
    """Random values in [-3, 3), as the assignment's are."""
    for array in arrays:
        random.random(dtype=np.float32, out=array)
        array -= np.float32(0.5)
        array *= np.float32(6)


class Step:
    """A step with the device that it is for; all but `launch` ends with its work done.

    q, k, v and out are (B, N, d), of the host. NotImplementedError without that device.
    """

    def __init__(self, kernel: ModuleType) -> None:
        self.kernel = kernel
        self.is_on_cpu = bool(kernel.DEVICE == "cpu")
        self.arrays: list[Any] = []
        if not self.is_on_cpu:
            self.library: Any = importlib.import_module("kernels.lib.device")
            self.library.require_gpu()
            self.library.synchronize()  # the device is opened now

    def host_array(self, shape: tuple[int, ...]) -> Array:
        """An empty array as the step wants it on the host: page-locked where it defines that."""
        make: Callable[[tuple[int, ...]], Array] = getattr(
            self.kernel, "host_array", lambda shape: np.empty(shape, np.float32)
        )
        return make(shape)

    def copy_in(self, q: Array, k: Array, v: Array, out: Array) -> None:
        """Copy q, k and v to the device, and make room for the output; nothing on the CPU."""
        self.arrays = [q, k, v, out]
        if not self.is_on_cpu:
            copies = [self.library.copy_in(array) for array in (q, k, v)]
            self.arrays = [*copies, self.library.empty(out.shape)]
            self.library.synchronize()

    def launch(self) -> None:
        """The kernel alone, on what was copied."""
        self.kernel.attention(*self.arrays)

    def run(self) -> None:
        """The kernel alone, to its end."""
        self.launch()
        if not self.is_on_cpu:
            self.library.synchronize()

    def copy_out(self, out: Array) -> None:
        """Copy the output to the host; nothing on the CPU."""
        if not self.is_on_cpu:
            self.library.copy_out(self.arrays[3], out)
            self.library.synchronize()

    def copy_and_run(self, *qkv_out: Array, timed: Timed = _untimed) -> None:
        """The kernel with its copies, one after the other, each within ``timed(part)``."""
        of_copies = _untimed if self.is_on_cpu else timed
        with of_copies("copy_in"):
            self.copy_in(*qkv_out)
        with timed("kernel"):
            self.run()
        with of_copies("copy_out"):
            self.copy_out(qkv_out[3])

    def compute(self, *qkv_out: Array, timed: Timed = _untimed) -> None:
        """From q, k, v to out: as the step does it where it overlaps its copies with its kernel."""
        if not hasattr(self.kernel, "attention_on_host"):
            return self.copy_and_run(*qkv_out, timed=timed)
        with timed("overlapped"):
            self.kernel.attention_on_host(*qkv_out)
