"""The machine's devices and software versions, found without importing torch."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NVML_LIBRARY = "libnvidia-ml.so.1"
"""A library that every NVIDIA driver installs, and nothing else does."""


class MachineError(Exception):
    """A device that was asked for and is not there, or that cannot be looked for."""


class Gpu(NamedTuple):
    """One NVIDIA GPU as NVML names it."""

    uuid: str
    name: str


@cache
def nvml() -> Any:
    """The module pynvml, initialised until this process ends; None where there is no driver.

    It is imported only here, so that Snakemake can read the rules where nothing else is installed.
    MachineError where there is a driver, but no package to ask it with.
    """
    try:
        import pynvml
    except ImportError as error:
        with suppress(OSError):
            ctypes.CDLL(NVML_LIBRARY)
            raise MachineError(
                "This machine has an NVIDIA driver, but the Python package nvidia-ml-py, which "
                "asks the driver for its GPUs, is not installed. Run python -m pip install "
                "nvidia-ml-py, or let ./run set up everything."
            ) from error
        return None
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return pynvml
    return None


def gpus() -> list[Gpu]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES leaves visible, in its order.

    One that has fallen off the bus is left out.
    """
    pynvml = nvml()
    if pynvml is None:
        return []
    listed = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        with suppress(pynvml.NVMLError_GpuIsLost):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            listed.append(Gpu(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return listed
    chosen: list[Gpu] = []
    for entry in filter(None, map(str.strip, visible.split(","))):
        named = [gpu for gpu in listed if gpu.uuid.startswith(entry)]
        if entry.isdigit():
            named = listed[int(entry) :][:1]
        if not named:
            break  # as CUDA does
        chosen += named
    return chosen


def driver_version() -> str:
    """The version of the NVIDIA driver that is there."""
    return str(nvml().nvmlSystemGetDriverVersion())


def commit_here() -> dict[str, Any]:
    """The ``commit``, and whether code is ``dirty``, new files too; None where git is silent."""
    of = ["git", "--no-optional-locks", "-C", str(Path(__file__).parents[2]), "status", "--branch"]
    try:
        command = [*of, "--porcelain=v2", "-unormal", "--", "kernels", "workflow"]
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    head, *lines = done.stdout.splitlines()  # bytes: names of files may be in any encoding
    dirty = not all(line.startswith(b"#") for line in lines)
    return {"commit": head.split()[-1].decode(), "dirty": dirty}


@cache
def package_version(name: str) -> str | None:
    """The installed version of a distribution, None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def torch_has_cuda() -> bool:
    """True if the installed torch is a CUDA build, by its files, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    version = Path(spec.origin).parent / "version.py"
    return re.search(r"^cuda[^=]*= *['\"]", version.read_text(), re.MULTILINE) is not None


def cpu_count() -> int:
    """Logical CPUs that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        return os.cpu_count() or 1


def _told(path: str, pattern: str) -> str | None:
    """What Linux tells in a file after the first match of a pattern; None elsewhere."""
    try:
        match = re.search(rf"{pattern}(.+)", Path(path).read_text())
    except OSError:
        return None
    return " ".join(match[1].split()) if match else None


@cache
def cpu_model() -> str:
    """The processor's name, as the system reports it."""
    named = _told("/proc/cpuinfo", r"(?m:^(?:model name|Model)\s*:)")
    return named or platform.processor() or platform.machine()


def detect_device(wanted: str) -> str:
    """``cuda`` or ``cpu`` for the config's ``auto``, ``cuda`` or ``cpu``.

    ``auto`` takes CUDA where there is a visible GPU and torch is built for it; ``cuda`` without
    them raises MachineError naming the one that is missing.
    """
    if wanted == "cpu":
        return "cpu"
    present, built = bool(gpus()), torch_has_cuda()
    if present and built:
        return "cuda"
    if wanted == "cuda":
        lacking = "this torch is built without CUDA" if present else "no NVIDIA GPU is visible"
        raise MachineError(
            f"config: device: cuda was asked for, but {lacking}. "
            "Use device: auto or device: cpu, or render a recorded dataset."
        )
    return "cpu"


def device_name(device: str) -> str:
    """The name that identifies the measured device: the GPU's, or the CPU's with its count."""
    if device == "cuda":
        return next((gpu.name for gpu in gpus()), "a machine without a visible NVIDIA GPU")
    return f"{cpu_model()} ({cpu_count()} CPUs)"


def kind_of(name: str) -> str:
    """The kind of a device by its `device_name`, of which only CPUs are counted."""
    return "cpu" if re.search(r" \(\d+ CPUs\)$", name) else "cuda"


PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "nvidia-cudnn-cu13", "numpy")
"""The distributions whose versions a record's environment states."""


def surroundings() -> dict[str, Any]:
    """The part of a record's environment that is known without torch, but for the device.

    ``boot``, Linux's identifier of one, tells which runs were measured in one sitting.
    """
    return {
        "boot": _told("/proc/sys/kernel/random/boot_id", ""),
        "cpu": cpu_model(),
        "cpu_count": cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        **commit_here(),
    }
