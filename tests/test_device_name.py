"""A plan for a device that jobs will meet on another machine, and a job that meets another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab import machine, nsight
from flashlab.cli import main
from flashlab.config import Layer
from flashlab.plan.make import make
from flashlab.plan.value import Plan

ROOT = Path(__file__).parents[1]
H200 = machine.Gpu("GPU-1", "NVIDIA H200")
A100 = machine.Gpu("GPU-2", "NVIDIA A100-SXM4-80GB")
CPU = "AMD EPYC 9654 (4 CPUs)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nsight, "version", lambda: None)
    return tmp_path


def put_in(patch: pytest.MonkeyPatch, gpu: machine.Gpu, driver: str = "580.1") -> None:
    """Let this machine have a GPU."""
    patch.setattr(machine, "gpus", lambda: [gpu])
    patch.setattr(machine, "torch_has_cuda", lambda: True)
    patch.setattr(machine, "driver_version", lambda: driver)


def plan(**own: Any) -> Plan:
    config = yaml.safe_load((ROOT / "tests" / "tiny.yaml").read_text(encoding="utf-8"))
    del config["device"]
    return make(Layer("config/config.yaml", config), [Layer("--config", own)])


def test_a_plan_made_elsewhere_names_every_record_as_the_machine_itself_does_whatever_its_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        put_in(patch, H200)
        there = plan()
        put_in(patch, H200, driver="590.2")
        assert plan().orders == there.orders
    elsewhere = plan(device_name="NVIDIA H200")  # this machine has no such GPU
    assert (elsewhere.device, elsewhere.orders) == ("cuda", there.orders)
    assert elsewhere.ceilings == there.ceilings


def test_a_cpu_is_planned_for_elsewhere_too_and_without_asking_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise machine.MachineError("nvidia-ml-py is not installed")

    monkeypatch.setattr(machine, "gpus", refuse)
    monkeypatch.setattr(machine, "driver_version", refuse)
    planned = plan(device_name=CPU)
    assert planned.device == plan(device="cpu").device == "cpu"
    assert not planned.orders.keys() & plan(device="cpu").orders.keys()


def test_a_job_on_another_device_names_both_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, order = next(iter(plan(device_name="NVIDIA H200").orders.items()))
    name = Path(name).name
    put_in(monkeypatch, A100)
    assert main(["measure", "--order", json.dumps(order), "--output", name]) == 1
    message = capsys.readouterr().err
    assert "planned for NVIDIA H200, but this job runs on NVIDIA A100-SXM4-80GB" in message
    ceilings = ["ceilings", "--device", "cuda", "--device-name", "NVIDIA H200"]
    assert main([*ceilings, "--output", "ceilings.json"]) == 1
    assert "planned for NVIDIA H200" in capsys.readouterr().err
    assert not Path(name).exists() and not Path("ceilings.json").exists()
