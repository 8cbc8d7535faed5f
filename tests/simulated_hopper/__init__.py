"""A Hopper GPU on a CPU: FlashLab's kernels compiled by g++ with `sm90.h`, a simulator, a driver.

The driver's functions that FlashLab calls are here in Python: tensors are described to the copy
engine's stand-in, and a launch runs the kernel's blocks one after the other.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

HEADER = Path(__file__).with_name("sm90.h")
SIMULATOR = Path(__file__).with_name("simulator.cpp")
KERNELS = {
    "forward": ("forward",),
    "backward": ("backward", "prepare", "finish"),
    "queries": ("queries",),
    "wide": ("wide", "prepare", "finish"),
}
"""The kernels of each file of kernels/flashlab/cuda."""

COMPILE = ("g++", "-std=c++17", "-fPIC", "-shared", "-w", "-Wno-psabi", "-U_FORTIFY_SOURCE")


class _Map(ctypes.Structure):
    """The header's TensorMap."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("sizes", ctypes.c_long * 4),
        ("strides", ctypes.c_long * 4),
        ("rows", ctypes.c_int),
    )


class Driver:
    """Stands in for libcuda; `launched` has the name and the number of blocks of each launch."""

    def __init__(self) -> None:
        self.seed, self.processors = 0, 2
        self.launched: list[tuple[str, int]] = []
        self._libraries: list[ctypes.CDLL] = []
        self._functions: list[tuple[Any, str]] = []
        self._shared_bytes: dict[int | None, int] = {}

    def cuModuleLoadData(self, handle: Any, code: bytes) -> int:
        self._libraries.append(ctypes.CDLL(code.decode()))
        handle._obj.value = len(self._libraries)
        return 0

    def cuModuleGetFunction(self, found: Any, module: ctypes.c_void_p, name: bytes) -> int:
        library = self._libraries[(module.value or 0) - 1]
        self._functions.append((library[f"launch_{name.decode()}"], name.decode()))
        found._obj.value = len(self._functions)
        return 0

    def cuFuncSetAttribute(self, function: ctypes.c_void_p, _: int, shared_bytes: int) -> int:
        self._shared_bytes[function.value] = shared_bytes
        return 0

    def cuTensorMapEncodeTiled(
        self, place: int, dtype: int, rank: int, base: int, sizes: Any, strides: Any, box: Any,
        *_: Any,
    ) -> int:  # fmt: skip
        assert base % 16 == 0 and all(stride % 16 == 0 for stride in strides) and rank == 4
        assert list(box) == [64, 1, box[2], 1] and box[2] <= 256
        tensor_map = _Map.from_address(place)
        tensor_map.base, tensor_map.rows = base, box[2]
        tensor_map.sizes[:], tensor_map.strides[:] = [*sizes], [2, *strides]
        return 0

    def cuTensorMapReplaceAddress(self, place: int, base: int) -> int:
        assert base % 16 == 0
        _Map.from_address(place).base = base
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = 1
        return 0

    def cuLaunchKernelEx(
        self, place: int, function: ctypes.c_void_p, arguments: int, _: None
    ) -> int:
        from kernels.flashlab.launching import _Attribute, _Configuration

        given = _Configuration.from_address(place)
        (blocks, *ones), (threads, *more_ones) = given.blocks, given.threads
        launch, name = self._functions[(function.value or 0) - 1]
        allowed = self._shared_bytes.get(function.value, 0)
        assert [*ones, *more_ones] == [1] * 4 and given.shared_bytes == allowed <= 227 * 1024
        self.launched.append((name, blocks))
        (argument,) = (ctypes.c_void_p * 1).from_address(arguments)
        early = _Attribute.from_address(given.attributes).value
        launch(blocks, threads, allowed, self.seed, early, ctypes.c_void_p(argument))
        return 0


def compiler(folder: Path) -> Callable[[str, str], bytes]:
    """In place of `compiling.cubin`: the path of a library in a folder."""
    from kernels.flashlab import compiling

    sm90 = (compiling.FOLDER / "sm90.cuh").read_text(encoding="utf-8")

    def cubin(name: str, text: str) -> bytes:
        assert sm90 in text
        text = text.replace(sm90, HEADER.read_text(encoding="utf-8"))
        text += "".join(
            f'extern "C" void launch_{kernel}'
            "(int blocks, int size, int shared, int seed, int early, const Arguments* a) {\n"
            f"  auto called = [](const void* given) {{ {kernel}(*(const Arguments*)given); }};\n"
            "  simulated::launch(blocks, size, shared, seed, early, BF16, called, a);\n"
            "}\n"
            for kernel in KERNELS[name]
        )
        library = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
        if not library.exists():
            simulator = folder / "simulator.so"
            if not simulator.exists():
                command = [*COMPILE, "-O2", str(SIMULATOR), "-o", str(simulator)]
                subprocess.run(command, check=True)
            command = [*COMPILE, "-O1", "-x", "c++", "-", "-x", "none", str(simulator)]
            subprocess.run([*command, "-o", str(library)], input=text, text=True, check=True)
        return str(library).encode()

    return cubin


def install(monkeypatch: Any, folder: Path) -> Driver:
    """Let FlashLab's Hopper kernels run on tensors of the CPU."""
    from kernels.flashlab import compiling, hopper, launching

    driver = Driver()

    def gpu(_: int) -> SimpleNamespace:
        return SimpleNamespace(multi_processor_count=driver.processors, L2_cache_size=2**20)

    monkeypatch.setattr(launching, "_driver", lambda: driver)
    monkeypatch.setattr(compiling, "cubin", compiler(folder))
    monkeypatch.setattr(compiling, "product", lambda *_: "")
    monkeypatch.setattr(torch.cuda, "get_device_properties", gpu)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    monkeypatch.setattr(hopper, "_counters", {})
    monkeypatch.setattr(launching, "_this_thread", threading.local())
    for cached in (hopper._module, hopper._forward_pass, hopper._backward_pass):
        cached.cache_clear()
    return driver


def functions(driver: Driver) -> list[Any]:
    """The C functions of the C++ launcher: `FUNCTIONS` of kernels/flashlab/launcher.py."""
    integer, pointer, function = ctypes.c_int, ctypes.c_void_p, ctypes.CFUNCTYPE

    def launch(place: int, launched: int, arguments: int, rest: None) -> int:
        return driver.cuLaunchKernelEx(place, pointer(launched), arguments, rest)

    def found(*given: Any) -> int:
        """A context, 1, where that alone is asked for; else neither a capture nor a stream, 0."""
        given[-1].contents.value = int(len(given) == 1)
        return 0

    return [
        function(integer, *[pointer] * 4)(launch),
        function(integer, pointer, pointer)(driver.cuTensorMapReplaceAddress),
        function(integer, ctypes.POINTER(pointer))(found),
        function(integer, pointer, ctypes.POINTER(integer))(found),
        function(integer, ctypes.c_int32, ctypes.POINTER(pointer))(found),
    ]
