"""The machine's devices and software versions, found without importing torch."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

NVML_LIBRARY = "libnvidia-ml.so.1"
"""A library that every NVIDIA driver installs, and nothing else does."""


class MachineError(Exception):
    """A device that was asked for and is not there, or that cannot be looked for."""


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as NVML names it."""

    uuid: str
    name: str


def _driver_is_installed() -> bool:
    try:
        ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return False
    return True


def _import_pynvml() -> Any:
    """The module pynvml; None where it is not installed and there is no driver for it to ask.

    It is imported only here, so that Snakemake can read the rules where nothing else is installed.
    """
    try:
        import pynvml
    except ImportError as error:
        if not _driver_is_installed():
            return None
        raise MachineError(
            "This machine has an NVIDIA driver, but the Python package nvidia-ml-py, which asks "
            "the driver for its GPUs, is not installed. Run python -m pip install nvidia-ml-py, "
            "or let ./run set up everything."
        ) from error
    return pynvml


@contextmanager
def nvml() -> Iterator[Any]:
    """The module pynvml, initialised for the block; None where there is no driver.

    Raises:
        MachineError: there is a driver, but no package to ask it with.
    """
    pynvml = _import_pynvml()
    if pynvml is None:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def gpus() -> list[Gpu]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES leaves visible, in its order.

    One that has fallen off the bus is left out.
    """
    with nvml() as pynvml:
        if pynvml is None:
            return []
        listed = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError_GpuIsLost):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                name = pynvml.nvmlDeviceGetName(handle)
                listed.append(Gpu(pynvml.nvmlDeviceGetUUID(handle), name))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return listed
    chosen = []
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        if entry.isdigit() and int(entry) < len(listed):
            chosen.append(listed[int(entry)])
        else:
            named = [gpu for gpu in listed if gpu.uuid.startswith(entry)]
            if not named:
                break  # as CUDA does
            chosen += named
    return chosen


@cache
def driver_version() -> str | None:
    with nvml() as pynvml:
        return None if pynvml is None else str(pynvml.nvmlSystemGetDriverVersion())


def commit_here() -> dict[str, Any]:
    """The ``commit`` of this code and whether it is ``dirty``; None where git does not say."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


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


@cache
def boot_id() -> str | None:
    """Linux's identifier of this boot of the system; None elsewhere."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


@cache
def cpu_model() -> str:
    """The processor's name, as the system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return " ".join(line.split(":", 1)[1].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


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
        listed = gpus()
        return listed[0].name if listed else "a machine without a visible NVIDIA GPU"
    return f"{cpu_model()} ({cpu_count()} CPUs)"


def kind_of(name: str) -> str:
    """The kind of a device by its `device_name`, of which only CPUs are counted."""
    return "cpu" if re.search(r" \(\d+ CPUs\)$", name) else "cuda"


PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "nvidia-cudnn-cu13", "numpy")
"""The distributions whose versions a record's environment states."""


def surroundings(name: str, gpu_uuid: str | None) -> dict[str, Any]:
    """The part of a record's environment that is known without torch, for a device of this name.

    `gpu_uuid` and ``boot`` tell which runs were measured in one sitting; neither decides a number.
    """
    return {
        "device_name": name,
        "gpu_uuid": gpu_uuid,
        "boot": boot_id(),
        "cpu": cpu_model(),
        "cpu_count": cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "driver": driver_version() if gpu_uuid else None,
        **commit_here(),
    }
