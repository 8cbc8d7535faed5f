from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
import torch

from flashlab import machine
from flashlab.machine import Gpu, MachineError

GPUS = [Gpu(f"GPU-{digit * 4}", f"NVIDIA H{digit}00") for digit in "123"]


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NVML as it answers on a machine with three GPUs, which a test cannot have for real."""
    for name, answer in {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(GPUS),
        "nvmlDeviceGetHandleByIndex": lambda index: GPUS[index],
        "nvmlDeviceGetUUID": lambda gpu: gpu.uuid,
        "nvmlDeviceGetName": lambda gpu: gpu.name,
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    machine.nvml.cache_clear()
    yield
    machine.nvml.cache_clear()


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("GPU-2222", [1]),
        ("GPU-3, 0", [2, 0]),
        ("0,7,1", [0]),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_see(
    three_gpus: None,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    expected: list[int],
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpus() == [GPUS[index] for index in expected]


def test_a_gpu_that_is_lost_is_left_out(three_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> Gpu:
        if index == 1:
            raise pynvml.NVMLError_GpuIsLost
        return GPUS[index]

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    assert machine.gpus() == [GPUS[0], GPUS[2]]


@pytest.fixture
def no_pynvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where Snakemake alone is installed."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    machine.nvml.cache_clear()
    yield
    machine.nvml.cache_clear()


def test_without_pynvml_and_without_a_driver_there_is_no_gpu(
    no_pynvml: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "NVML_LIBRARY", "libno-such-library.so.1")
    assert machine.gpus() == []
    assert machine.detect_device("auto") == "cpu"


def test_without_pynvml_a_driver_is_not_taken_for_no_gpu(
    no_pynvml: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "NVML_LIBRARY", None)  # loads, as a driver's library would
    for wanted in ("auto", "cuda"):
        with pytest.raises(MachineError, match="pip install nvidia-ml-py"):
            machine.detect_device(wanted)
    assert machine.detect_device("cpu") == "cpu"


@pytest.mark.parametrize(
    ("present", "built", "lacking"),
    [
        ([], False, "no NVIDIA GPU is visible"),
        ([], True, "no NVIDIA GPU is visible"),
        (GPUS, False, "built without CUDA"),
        (GPUS, True, None),
    ],
)
def test_cuda_needs_a_gpu_and_a_torch_that_is_built_for_it(
    monkeypatch: pytest.MonkeyPatch, present: list[Gpu], built: bool, lacking: str | None
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: present)
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: built)
    assert machine.detect_device("cpu") == "cpu"
    assert machine.detect_device("auto") == ("cpu" if lacking else "cuda")
    if lacking:
        with pytest.raises(MachineError, match=lacking):
            machine.detect_device("cuda")


def test_whether_torch_is_built_for_cuda_is_read_as_torch_says_it() -> None:
    assert machine.torch_has_cuda() == (torch.version.cuda is not None)


def test_versions_are_told_without_importing_the_package(root: Path) -> None:
    code = (
        "import sys; from flashlab import machine\n"
        "print(machine.package_version('torch'), machine.package_version('no-such-package'))\n"
        "machine.torch_has_cuda(); machine.device_name('cpu')\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        capture_output=True,
        text=True,
        check=True,
    )
    version, none = done.stdout.split()
    # The wheel on PyPI is named without the build (+cu130) that the module tells.
    assert (version.split("+")[0], none) == (torch.__version__.split("+")[0], "None")
