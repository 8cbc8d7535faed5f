"""Launches of the Hopper kernels, prepared once for each problem.

Short kernels are done in less time than it takes to check and convert arguments. From call to call
only the tensors' addresses change, and the rest follows from the problem. So a call fills in the
addresses, has the driver encode what the copy engine needs, and launches.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch

MAP_BYTES = 128
"""Of what the copy engine knows of a tensor, at an address that is a multiple of 64."""

FLOAT16, BFLOAT16 = 6, 9  # CU_TENSOR_MAP_DATA_TYPE_…
SWIZZLE_128B, PROMOTE_TO_128B = 3, 2
MAX_DYNAMIC_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


def _check(status: int, what: str) -> None:
    if status:
        raise DriverError(f"CUDA error {status}: {what}")


@cache
def _driver() -> ctypes.PyDLL:
    """The driver. Its calls are shorter than it takes to let go of the interpreter's lock."""
    driver = ctypes.PyDLL("libcuda.so.1")
    pointer, unsigned, integer = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
    driver.cuTensorMapEncodeTiled.argtypes = [
        pointer, integer, unsigned, pointer, pointer, pointer, pointer, pointer, *[integer] * 4
    ]  # fmt: skip
    driver.cuLaunchKernel.argtypes = [pointer, *[unsigned] * 7, pointer, pointer, pointer]
    return driver


class Boxes(NamedTuple):
    """A tensor (B, N, H, D) in the boxes that the copy engine moves: rows of a head, 64 columns.

    `sizes` are those of D, H, N, B, `strides` those of H, N, B in bytes.
    """

    dtype: int
    sizes: "ctypes.Array[ctypes.c_uint64]"
    strides: "ctypes.Array[ctypes.c_uint64]"
    box: "ctypes.Array[ctypes.c_uint32]"

    @staticmethod
    def of(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], rows: int) -> "Boxes":
        """Boxes of so many rows; D's stride is 1, the others are multiples of 16 bytes."""
        B, N, H, D = shape
        b, n, h, _ = (dtype.itemsize * stride for stride in strides)
        return Boxes(
            FLOAT16 if dtype == torch.float16 else BFLOAT16,
            (ctypes.c_uint64 * 4)(D, H, N, B),
            (ctypes.c_uint64 * 3)(h, n, b),
            (ctypes.c_uint32 * 4)(64, 1, rows, 1),
        )


_ONES = (ctypes.c_uint32 * 4)(1, 1, 1, 1)


class Module:
    """Machine code on the current GPU."""

    def __init__(self, code: bytes) -> None:
        self._handle = ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(self._handle), code), "loading a kernel")

    def function(self, name: str, shared_bytes: int) -> ctypes.c_void_p:
        """A kernel by its name, which may have so much shared memory."""
        found = ctypes.c_void_p()
        status = _driver().cuModuleGetFunction(ctypes.byref(found), self._handle, name.encode())
        _check(status, f"no kernel {name}")
        status = _driver().cuFuncSetAttribute(found, MAX_DYNAMIC_SHARED_MEMORY, shared_bytes)
        _check(status, f"{shared_bytes} bytes of shared memory for {name}")
        return found


class Launch:
    """A kernel with all but the tensors' addresses.

    Its one argument is a struct: what the copy engine needs of some tensors, integers, pointers.

    Args:
        function: of a `Module`.
        programs: how many blocks of threads.
        threads: in each.
        shared_bytes: of shared memory for each.
        boxes: how the kernel takes the tensors that come first.
        integers: what follows from the problem.
        pointers: how many tensors come after those, as pointers.
    """

    def __init__(
        self, function: ctypes.c_void_p, programs: int, threads: int, shared_bytes: int,
        boxes: Sequence[Boxes], integers: Sequence[int], pointers: int,
    ) -> None:  # fmt: skip
        self._function = function
        self._shape = (programs, 1, 1, threads, 1, 1, shared_bytes)
        self._boxes = boxes
        after = len(boxes) * MAP_BYTES
        self._pointers_at = (after + 4 * len(integers) + 7) // 8 * 8
        self._pointers = ctypes.c_void_p * pointers
        self._size = self._pointers_at + 8 * pointers
        self._integers_at = after
        self._integers = (ctypes.c_int32 * len(integers))(*integers)

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Launch on the current stream: as many tensors as boxes and pointers."""
        driver = _driver()
        buffer = ctypes.create_string_buffer(self._size + 63)
        arguments = (ctypes.addressof(buffer) + 63) // 64 * 64
        addresses = [tensor.data_ptr() for tensor in tensors]
        for i, (dtype, sizes, strides, box) in enumerate(self._boxes):
            status = driver.cuTensorMapEncodeTiled(
                arguments + i * MAP_BYTES, dtype, 4, addresses[i], sizes, strides, box, _ONES,
                0, SWIZZLE_128B, PROMOTE_TO_128B, 0,
            )  # fmt: skip
            _check(status, f"the copy engine does not take tensor {i}, {tuple(tensors[i].shape)}")
        ctypes.memmove(arguments + self._integers_at, self._integers, ctypes.sizeof(self._integers))
        self._pointers.from_address(arguments + self._pointers_at)[:] = addresses[
            len(self._boxes) :
        ]
        stream = torch.cuda.current_stream().cuda_stream
        argument = ctypes.c_void_p(arguments)
        status = driver.cuLaunchKernel(
            self._function, *self._shape, stream, ctypes.addressof(argument), None
        )
        _check(status, "launching a kernel")
