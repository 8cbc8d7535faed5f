"""Launches of the Hopper kernels, prepared once for each problem.

Short kernels are done in less time than it takes to check and convert arguments. From call to call
only the tensors' addresses change, if at all, since PyTorch's allocator hands the same memory out
again. So a problem's argument stays, and a call changes the addresses that differ.
"""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
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
    if not context():
        primary, handle = ctypes.c_void_p(), ctypes.c_int()
        _check(_driver().cuDeviceGet(ctypes.byref(handle), device), f"no GPU {device}")
        status = _driver().cuDevicePrimaryCtxRetain(ctypes.byref(primary), handle)
        _check(status, f"the context of GPU {device}")
        _check(_driver().cuCtxSetCurrent(primary), f"the context of GPU {device}")
    _this_thread.bound = True


def context() -> int:
    """The context that this thread's calls of the driver are for; 0 where it has none."""
    found = ctypes.c_void_p()
    _check(_driver().cuCtxGetCurrent(ctypes.byref(found)), "asking for the context")
    return found.value or 0


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


class Launch(NamedTuple):
    """A kernel as it is launched.

    Attributes:
        function: of a `Module`.
        programs: how many blocks of threads.
        threads: in each.
        shared_bytes: of shared memory for each.
        starts_early: whether it may start while programs of the kernel before it still run: it
            waits for their end by itself, with `wait_for_kernel_before`.
    """

    function: ctypes.c_void_p
    programs: int
    threads: int
    shared_bytes: int
    starts_early: bool = False


class Run:
    """Kernels that follow each other with one argument: what the copy engine needs, and pointers.

    Args:
        boxes: of the tensors that come first, how the kernels take them, by name.
        integers: what follows from the problem.
        pointers: the names of the tensors that come after those, as pointers.
        device: on whose current stream the kernels run.
        launches: the kernels.
    """

    def __init__(
        self, boxes: Mapping[str, Boxes], integers: Sequence[int], pointers: Sequence[str],
        device: int, launches: Sequence[Launch],
    ) -> None:  # fmt: skip
        integers_at = len(boxes) * MAP_BYTES
        self.names = (*boxes, *pointers)
        self.maps = len(boxes)
        self.pointers_at = (integers_at + 4 * len(integers) + 7) // 8 * 8
        self.launches = tuple(launches)
        self._bytes = self.pointers_at + 8 * len(pointers)
        self._buffer = ctypes.create_string_buffer(self._bytes + 63)
        self._place = (ctypes.addressof(self._buffer) + 63) // 64 * 64
        (ctypes.c_int32 * len(integers)).from_address(self._place + integers_at)[:] = integers
        self._pointers = (ctypes.c_void_p * len(pointers)).from_address(
            self._place + self.pointers_at
        )
        self._argument = ctypes.c_void_p(self._place)
        self._argument_at = ctypes.addressof(self._argument)
        self._device = device
        self._boxes = tuple(boxes.values())
        self._addresses_of = itemgetter(*self.names)
        self._addresses: tuple[int, ...] | None = None
        self._lock = threading.Lock()
        self._attributes = [_Attribute(STARTS_EARLY, x.starts_early) for x in launches]
        self._configurations = [
            _Configuration(
                (x.programs, 1, 1), (x.threads, 1, 1), x.shared_bytes, None,
                ctypes.addressof(attribute), 1,
            )
            for x, attribute in zip(launches, self._attributes, strict=True)
        ]  # fmt: skip
        self._calls = [
            (configuration, ctypes.addressof(configuration), x.function)
            for x, configuration in zip(launches, self._configurations, strict=True)
        ]

    def argument(self) -> bytes:
        """The argument as it was launched last."""
        return ctypes.string_at(self._place, self._bytes)

    def launch(self, addresses: Mapping[str, int]) -> None:
        """Launch one kernel after the other with the tensors at these addresses."""
        given = self._addresses_of(addresses)
        stream = torch._C._cuda_getCurrentRawStream(self._device)
        # Held until the driver has copied the argument.
        with self._lock:
            if given != self._addresses:
                self._change(given)
            for configuration, place, function in self._calls:
                configuration.stream = stream
                status = _driver().cuLaunchKernelEx(place, function, self._argument_at, None)
                _check(status, "launching a kernel")

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
        self._pointers[:] = addresses[self.maps :]
        self._addresses = addresses


class Pass(NamedTuple):
    """The runs of a problem's pass, and what they need besides the tensors.

    The memory has the float32 `sums`, of dQ, then `delta`; `queued` tells of a counter of tiles.
    """

    runs: tuple[Run, ...]
    sums: int = 0
    delta: int = 0
    queued: bool = False

    @property
    def floats(self) -> int:
        """Of the memory."""
        return self.sums + self.delta


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
