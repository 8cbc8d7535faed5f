"""Launches of the Hopper kernels, prepared once for each problem.

Triton's own launch inspects every argument at every call, and a tensor descriptor checks itself.
Short kernels are done before that. From call to call only the tensors' addresses change, and the
rest follows from the problem. So a kernel is compiled and its arguments are checked once, and a
call fills in the tensors.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.runtime.jit import JITFunction, MockTensor


class Boxes(NamedTuple):
    """A tensor in the boxes that the copy engine moves: sizes, strides and a box, in elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    def checked(self) -> TensorDescriptor:
        """What Triton compiles for; AssertionError where the copy engine cannot take it."""
        size = self.dtype.itemsize
        rank = len(self.box)
        layout = gl.NVMMASharedLayout(
            swizzle_byte_width=min(128, size * self.box[-1]) if rank == 3 else 0,
            element_bitwidth=8 * size,
            rank=rank,
        )
        shape, strides, box = list(self.shape), list(self.strides), list(self.box)
        return TensorDescriptor(MockTensor(self.dtype), shape, strides, box, layout)


class Descriptor(NamedTuple):
    """What Triton's launcher reads of a tensor descriptor."""

    base: torch.Tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str = "zero"


class Launch:
    """A kernel compiled for one problem on the current GPU, which a call gives the tensors.

    Args:
        kernel: takes tensors first, then integers, then constants.
        programs: how many are launched.
        tensors: how the kernel takes each of its tensors, as boxes or as a pointer to a dtype.
        integers: the arguments after the tensors.
        constants: the compile-time arguments and the options of compilation.
    """

    def __init__(
        self, kernel: JITFunction[Any], programs: int, tensors: Sequence[Boxes | torch.dtype],
        integers: Sequence[int], **constants: Any,
    ) -> None:  # fmt: skip
        taken = [x.checked() if isinstance(x, Boxes) else x for x in tensors]
        self._grid = (programs, 1, 1)
        self._kernel = kernel.warmup(*taken, *integers, grid=self._grid, **constants)
        self._boxes = [x if isinstance(x, Boxes) else None for x in tensors]
        names = kernel.arg_names[len(tensors) + len(integers) :]
        self._rest = (*integers, *(constants[name] for name in names))

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Launch on the current stream; every tensor at an address that is a multiple of 16."""
        taken = [
            x if boxes is None else Descriptor(x, boxes.shape, boxes.strides)
            for x, boxes in zip(tensors, self._boxes, strict=True)
        ]
        self._kernel[self._grid](*taken, *self._rest)
