"""Launches of the Hopper kernels, prepared once for each problem.

Short kernels are done in less time than it takes to check and convert arguments. From call to call
only the tensors' addresses change, if at all, since PyTorch's allocator hands the same memory out
again. So a problem's argument stays, and a call changes the addresses that differ.
"""

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch

MAP_BYTES = 128
"""Of what the copy engine knows of a tensor, at an address that is a multiple of 64."""

FLOAT16, BFLOAT16 = 6, 9  # CU_TENSOR_MAP_DATA_TYPE_…
SWIZZLE_128B, PROMOTE_TO_128B = 3, 2
MAX_DYNAMIC_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STARTS_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


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
    driver.cuTensorMapReplaceAddress.argtypes = [pointer, pointer]
    driver.cuLaunchKernelEx.argtypes = [pointer] * 4
    return driver


_this_thread = threading.local()


def bind(device: int) -> None:
    """Let this thread call the driver for a GPU: autograd's threads have not called it yet."""
    if getattr(_this_thread, "bound", False):
        return
    context, handle = ctypes.c_void_p(), ctypes.c_int()
    _check(_driver().cuCtxGetCurrent(ctypes.byref(context)), "asking for the context")
    if not context.value:
        _check(_driver().cuDeviceGet(ctypes.byref(handle), device), f"no GPU {device}")
        status = _driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
        _check(status, f"the context of GPU {device}")
        _check(_driver().cuCtxSetCurrent(context), f"the context of GPU {device}")
    _this_thread.bound = True


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


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int64), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class _Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("blocks", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("number_of_attributes", ctypes.c_uint),
    )  # fmt: skip


class Launch:
    """A kernel as it is launched.

    Args:
        function: of a `Module`.
        programs: how many blocks of threads.
        threads: in each.
        shared_bytes: of shared memory for each.
        starts_early: whether it may start while programs of the kernel before it still run: it
            waits for their end by itself, with `wait_for_kernel_before`.
    """

    def __init__(
        self, function: ctypes.c_void_p, programs: int, threads: int, shared_bytes: int,
        starts_early: bool = False,
    ) -> None:  # fmt: skip
        self._function = function
        self._attribute = _Attribute(STARTS_EARLY, starts_early)
        self._configuration = _Configuration(
            (programs, 1, 1), (threads, 1, 1), shared_bytes, None,
            ctypes.addressof(self._attribute), 1,
        )  # fmt: skip
        self._place = ctypes.addressof(self._configuration)

    def __call__(self, stream: int, argument: int) -> None:
        """Launch on a stream, with the argument that the pointer at `argument` points to."""
        self._configuration.stream = stream
        _check(
            _driver().cuLaunchKernelEx(self._place, self._function, argument, None),
            "launching a kernel",
        )


class Arguments:
    """The one argument of a problem's kernels: what the copy engine needs, integers, pointers.

    Args:
        boxes: how the kernels take the tensors that come first.
        integers: what follows from the problem.
        pointers: how many tensors come after those, as pointers.
        device: on whose current stream the kernels run.
    """

    def __init__(
        self, boxes: Sequence[Boxes], integers: Sequence[int], pointers: int, device: int
    ) -> None:
        integers_at = len(boxes) * MAP_BYTES
        pointers_at = (integers_at + 4 * len(integers) + 7) // 8 * 8
        self._buffer = ctypes.create_string_buffer(pointers_at + 8 * pointers + 63)
        self._place = (ctypes.addressof(self._buffer) + 63) // 64 * 64
        (ctypes.c_int32 * len(integers)).from_address(self._place + integers_at)[:] = integers
        self._pointers = (ctypes.c_void_p * pointers).from_address(self._place + pointers_at)
        self._argument = ctypes.c_void_p(self._place)
        self._argument_at = ctypes.addressof(self._argument)
        self._device = device
        self._boxes = boxes
        self._addresses: tuple[int, ...] | None = None
        self._lock = threading.Lock()

    def launch(self, launches: Sequence[Launch], *addresses: int) -> None:
        """Launch one kernel after the other with the tensors at these addresses."""
        stream = torch._C._cuda_getCurrentRawStream(self._device)
        # Held until the driver has copied the argument.
        with self._lock:
            if addresses != self._addresses:
                self._change(addresses)
            for launch in launches:
                launch(stream, self._argument_at)

    def _change(self, addresses: tuple[int, ...]) -> None:
        before, self._addresses = self._addresses, None
        for i, (dtype, sizes, strides, box) in enumerate(self._boxes):
            place = self._place + i * MAP_BYTES
            if before is None:
                status = _driver().cuTensorMapEncodeTiled(
                    place, dtype, 4, addresses[i], sizes, strides, box, _ONES, 0, SWIZZLE_128B,
                    PROMOTE_TO_128B, 0,
                )  # fmt: skip
            elif before[i] != addresses[i]:
                status = _driver().cuTensorMapReplaceAddress(place, addresses[i])
            else:
                continue
            _check(status, f"tensor {i} of {[*sizes]} with strides {[*strides]}")
        self._pointers[:] = addresses[len(self._boxes) :]
        self._addresses = addresses


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
