"""Launches the Hopper kernels from C++ (`launcher.cpp`), where the host has a compiler.

Trainings are often limited by the host, and each call has other tensors. From the second call at a
problem on, C++ takes a fifth of Python's time. The first call runs in Python, which then describes
the pass to the launcher.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from kernels.flashlab import compiling, launching
from kernels.flashlab.launching import Pass

SOURCE = Path(__file__).with_name("launcher.cpp")
FUNCTIONS = (
    "cuLaunchKernelEx", "cuTensorMapReplaceAddress", "cuCtxGetCurrent", "cuStreamIsCapturing",
    "aoti_torch_get_current_cuda_stream",
)  # fmt: skip
"""What it calls besides PyTorch: the last is one of libtorch_cuda."""

OPERATORS: Mapping[str, tuple[str, ...]] = {
    "attention": ("q", "k", "v", "o", "lse"),
    "attention_backward": ("do", "q", "k", "v", "o", "lse", "dq", "dk", "dv"),
    "packed_attention": ("qkv", "o", "lse"),
    "packed_attention_backward": ("do", "qkv", "o", "lse", "dqkv"),
}
"""The tensors of each operator: those that it takes, then those that it returns."""

MOST = 1024
"""How many passes are described to it: as many problems as a program is likely to have."""


class Launcher:
    """The C++ launcher, by which the operators run under a dispatch key from here on.

    Args:
        library: `launcher.cpp`, compiled.
        functions: the addresses of `FUNCTIONS`.
        key: the dispatch key.
    """

    def __init__(self, library: ctypes.PyDLL, functions: Sequence[int], key: str) -> None:
        self._library = library
        self._known: set[tuple[int, ...]] = set()
        names = (ctypes.c_char_p * len(OPERATORS))(*(name.encode() for name in OPERATORS))
        called = (ctypes.c_void_p * len(functions))(*functions)
        library.attach(names, ctypes.c_int64(len(names)), key.encode(), called)

    def keep(
        self, name: str, given: Sequence[torch.Tensor], flags: Sequence[bool],
        returned: Sequence[torch.Tensor], ran: Pass,
    ) -> None:  # fmt: skip
        """Describe a pass that an operator ran on the current GPU, each tensor where it lay."""
        tensors = (word for x in given for word in (_device(x), *_described(x), *x.stride()))
        key = ([*OPERATORS].index(name), *tensors, *map(int, flags))
        if key in self._known or len(self._known) == MOST:
            return
        self._known.add(key)
        words = [*_words(name, given, returned, ran)]
        self._library.keep(
            (ctypes.c_int64 * len(key))(*key), ctypes.c_int64(len(key)),
            (ctypes.c_int64 * len(words))(*words),
        )  # fmt: skip

    def count(self, counter: torch.Tensor, stream: int) -> None:
        """Say which counter of tiles a stream has."""
        self._library.count(
            ctypes.c_int64(_device(counter)), ctypes.c_void_p(stream),
            ctypes.c_int64(counter.data_ptr()),
        )  # fmt: skip


_SCALAR_TYPES = {torch.float16: 5, torch.float32: 6, torch.bfloat16: 15}
"""Their numbers in C++."""


def _device(x: torch.Tensor) -> int:
    return -1 if x.device.index is None else x.device.index


def _described(x: torch.Tensor) -> tuple[int, ...]:
    return (_SCALAR_TYPES[x.dtype], *x.shape)


class _Place(NamedTuple):
    """An address: one of an operator's tensors, and the bytes from its beginning."""

    tensor: int
    offset: int


def _places(name: str, tensors: Sequence[torch.Tensor], ran: Pass) -> dict[str, _Place]:
    """The place of each named argument of the kernels; memory and counter follow the tensors."""
    memory, counter = len(tensors), len(tensors) + 1
    found = {
        "sums": _Place(memory, 0),
        "delta": _Place(memory, 4 * ran.sums),
        "counter": _Place(counter, 0),
    }
    for i, (role, x) in enumerate(zip(OPERATORS[name], tensors, strict=True)):
        if role.endswith("qkv"):
            step = x.stride(2) * x.element_size()
            found |= {role[:-3] + part: _Place(i, j * step) for j, part in enumerate("qkv")}
        else:
            found[role] = _Place(i, 0)
    return found


def _words(
    name: str, given: Sequence[torch.Tensor], returned: Sequence[torch.Tensor], ran: Pass
) -> Iterator[int]:
    """A pass as `keep` of launcher.cpp reads it."""
    places = _places(name, (*given, *returned), ran)
    yield from (launching.context(), ran.queued, ran.floats, len(returned))
    for x in returned:
        dtype, *sizes = _described(x)
        yield from (dtype, len(sizes), *sizes)
    yield len(ran.runs)
    for run in ran.runs:
        argument = memoryview(run.argument()).cast("q")
        yield from (len(argument), *argument, run.maps, run.pointers_at, len(run.names))
        for role in run.names:
            yield from places[role]
        yield len(run.launches)
        for function, *numbers in run.launches:
            yield from (function.value or 0, *map(int, numbers))


# --- Compiled -------------------------------------------------------------------------------------


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "c++"))


def compiled() -> Path:
    """`launcher.cpp` as a library, from the cache where it is.

    OSError or subprocess.CalledProcessError where it cannot be compiled.
    """
    package = Path(torch.__file__).parent
    command = [
        _compiler() or "c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", str(SOURCE),
        f"-I{package / 'include'}", f"-L{package / 'lib'}", "-ltorch_cpu", "-lc10",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    ]  # fmt: skip
    known = (SOURCE.read_text(encoding="utf-8"), command, torch.__version__)
    digest = hashlib.sha256(repr(known).encode()).hexdigest()
    kept = compiling.cache() / f"launcher-{digest[:32]}.so"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder, kept.name)
            subprocess.run([*command, "-o", str(made)], check=True, capture_output=True)
            made.replace(kept)
    return kept


def addresses() -> list[int]:
    """The addresses of `FUNCTIONS`; OSError or AttributeError where one is missing."""
    driver = ctypes.PyDLL("libcuda.so.1")
    pytorch = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"))
    found = [driver[name] for name in FUNCTIONS[:-1]] + [pytorch[FUNCTIONS[-1]]]
    return [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found]


class _LauncherError(RuntimeError):
    """There is no C++ launcher, and why."""


def _parts() -> tuple[Path, list[int]]:
    """The library and what it calls."""
    if not _compiler():
        raise _LauncherError("there is no C++ compiler")
    try:
        library = compiled()
    except (OSError, subprocess.CalledProcessError) as error:
        raise _LauncherError("launcher.cpp could not be compiled") from error
    try:
        return library, addresses()
    except (OSError, AttributeError) as error:
        raise _LauncherError(f"what it calls is missing: {error}") from error


def reason_for_python() -> str | None:
    """Why launches are Python's on a host of Hopper GPUs; None where they are C++'s."""
    try:
        _parts()
    except _LauncherError as error:
        return str(error)
    return None


loaded: Launcher | None = None
"""Where it is in use."""


def load() -> None:
    """Let the operators run in C++ on CUDA, where that can be."""
    global loaded
    try:
        library, called = _parts()
    except _LauncherError:
        return
    loaded = Launcher(ctypes.PyDLL(str(library)), called, "CUDA")
