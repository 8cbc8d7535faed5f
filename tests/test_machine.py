"""This machine's GPUs, a plan for a device that another machine has, and what is known of each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

from flashlab import machine, nsight
from flashlab.cli import main
from flashlab.config import Layer
from flashlab.devices import find_device, known_devices
from flashlab.machine import Gpu, MachineError
from flashlab.plan.make import make
from flashlab.plan.plan_files import Plan

ROOT = Path(__file__).parents[1]
GPUS = [Gpu(f"GPU-{digit * 4}", f"NVIDIA H{digit}00") for digit in "123"]


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "nvml", machine.nvml.__wrapped__)


@pytest.mark.parametrize(
    ("visible", "lost", "expected"),
    [
        *((None, None, [0, 1, 2]), (None, 1, [0, 2]), ("", None, []), ("-1", None, [])),
        *(("GPU-3, 0", None, [2, 0]), ("0,7,1", None, [0])),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_see(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, lost: int | None, expected: list[int]
) -> None:
    """With NVML as it answers on a machine with three, of which one may be lost."""

    def handle(index: int) -> Gpu:
        if index == lost:
            raise pynvml.NVMLError_GpuIsLost
        return GPUS[index]

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(GPUS))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda gpu: gpu.uuid)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda gpu: gpu.name)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpus() == [GPUS[index] for index in expected]


@pytest.mark.parametrize(
    ("present", "built", "lacking"), [([], True, "no NVIDIA GPU"), (GPUS, False, "without CUDA")]
)
def test_cuda_needs_a_gpu_and_a_torch_that_is_built_for_it(
    monkeypatch: pytest.MonkeyPatch, present: list[Gpu], built: bool, lacking: str
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: present)
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: built)
    assert machine.detect_device("cpu") == machine.detect_device("auto") == "cpu"
    with pytest.raises(MachineError, match=lacking):
        machine.detect_device("cuda")


def test_without_pynvml_a_driver_is_not_taken_for_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Snakemake alone is installed."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(machine, "NVML_LIBRARY", "libno-such-library.so.1")
    assert (machine.gpus(), machine.detect_device("auto")) == ([], "cpu")
    monkeypatch.setattr(machine, "NVML_LIBRARY", None)  # loads, as a driver's library would
    for wanted in ("auto", "cuda"):
        with pytest.raises(MachineError, match="pip install nvidia-ml-py"):
            machine.detect_device(wanted)
    assert machine.detect_device("cpu") == "cpu"


# A plan for another machine


def put_in(patch: pytest.MonkeyPatch, name: str, driver: str = "580.1") -> None:
    """Let this machine have a GPU."""
    patch.setattr(machine, "gpus", lambda: [Gpu("GPU-1", name)])
    patch.setattr(machine, "torch_has_cuda", lambda: True)
    patch.setattr(machine, "driver_version", lambda: driver)
    patch.setattr(nsight, "version", lambda: None)


def plan(**own: Any) -> Plan:
    config = yaml.safe_load((ROOT / "tests" / "tiny.yaml").read_text(encoding="utf-8"))
    del config["device"]
    return make(Layer("config/config.yaml", config), [Layer("--config", own)])


def test_a_plan_made_elsewhere_names_the_same_records(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        put_in(patch, "NVIDIA H200")
        there = plan()
        put_in(patch, "NVIDIA H200", driver="590.2")
        assert plan().orders == there.orders
    elsewhere = plan(device_name="NVIDIA H200")  # this machine has no such GPU
    assert (elsewhere.device, elsewhere.orders) == ("cuda", there.orders)
    assert elsewhere.ceilings == there.ceilings
    cpu, here = plan(device_name="AMD EPYC 9654 (4 CPUs)"), plan(device="cpu")
    assert cpu.device == here.device == "cpu" and not cpu.orders.keys() & here.orders.keys()


def test_a_job_on_another_device_names_both_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    order = next(iter(plan(device_name="NVIDIA H200").orders.values()))
    put_in(monkeypatch, "NVIDIA A100-SXM4-80GB")
    ceilings = ["ceilings", "--device", "cuda", "--device-name", "NVIDIA H200"]
    for job in (["measure", "--order", json.dumps(order)], ceilings):
        assert main([*job, "--output", "made.json"]) == 1
        said = "planned for NVIDIA H200, but this job runs on NVIDIA A100-SXM4-80GB"
        assert said in capsys.readouterr().err and not Path("made.json").exists()


# What is known of devices


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("NVIDIA H200", "H200"), ("NVIDIA H200 MIG 1g.18gb", None), ("Tesla T4", "T4")),
        *(("NVIDIA H100 PCIe", "H100 PCIe"), ("NVIDIA GeForce RTX 3070", "RTX 3070")),
        *(("NVIDIA GeForce RTX 3070 Ti", None), ("rtx3070", None), ("", None), (None, None)),
    ],
)
def test_a_device_is_found_by_its_own_name_only(name: str | None, found: str | None) -> None:
    device = find_device(name)
    assert (device.name if device else None) == found


def test_every_figure_is_plausible() -> None:
    assert len({device.name for device in known_devices()}) == len(known_devices())
    for device in known_devices():
        assert device.peak_tflops["float16"] > device.peak_tflops["float32"] > 0
        assert 100 < device.bandwidth < 10_000
        assert 2**21 < device.l2_bytes < 2**28 and 8 <= device.memory_gb <= 288
        workspaces = {"9.0": 2 * 32 * 2**20, "10.0": None}  # not established after 9.0
        expected = workspaces.get(device.compute_capability, 2 * 8320 * 1024)
        assert device.cublas_workspaces == expected, "what PyTorch takes by default"
