"""Machines as data: a plan made from a machine's file, anywhere, and jobs that meet another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab import machine, nsight
from flashlab.calls.prepare import Prepared, prepare
from flashlab.cli import main
from flashlab.config import Layer
from flashlab.plan import machines

ROOT = Path(__file__).parents[1]
H200 = machine.Gpu("GPU-1", "NVIDIA H200")
A100 = machine.Gpu("GPU-2", "NVIDIA A100-SXM4-80GB")
FILE = "config/machines/lab.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put_in(patch: pytest.MonkeyPatch, gpu: machine.Gpu, driver: str, ncu: str | None) -> None:
    """Let this machine have a GPU."""
    patch.setattr(machine, "gpus", lambda: [gpu])
    patch.setattr(machine, "torch_has_cuda", lambda: True)
    patch.setattr(machine, "driver_version", lambda: driver)
    patch.setattr(nsight, "version", lambda: ncu)


def plan(**own: Any) -> Prepared:
    config = yaml.safe_load((ROOT / "tests" / "tiny.yaml").read_text(encoding="utf-8"))
    del config["device"]
    return prepare(Layer("config/config.yaml", config), [Layer("--config", own)])


def describe(device: str = "cuda") -> int:
    return main(["describe-machine", "--device", device, "--output", FILE])


@pytest.mark.parametrize("ncu", ["2025.3.1.0", None])
def test_a_plan_made_elsewhere_names_every_record_as_the_machine_itself_does(
    monkeypatch: pytest.MonkeyPatch, ncu: str | None
) -> None:
    with monkeypatch.context() as patch:
        put_in(patch, H200, "580.1", ncu)
        assert describe() == 0
        there = plan()
    document = json.loads(Path(FILE).read_text())
    assert document["gpu_uuids"] == ["GPU-1"]  # the card itself decides no name
    Path(FILE).write_text(json.dumps({**document, "gpu_uuids": ["GPU-7"]}))
    elsewhere = plan(machine="lab")  # this machine has no such GPU
    assert elsewhere.orders == there.orders
    assert elsewhere.ceilings == there.ceilings
    assert (elsewhere.device, bool(elsewhere.counters)) == ("cuda", ncu is not None)
    assert not elsewhere.orders.keys() & plan(device="cpu").orders.keys()


def test_a_plan_asks_the_machine_as_often_for_many_runs_as_for_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    version = machine.package_version
    put_in(monkeypatch, H200, "580.1", None)
    monkeypatch.setattr(machine, "gpus", lambda: (asked.append("gpus"), [H200])[1])
    monkeypatch.setattr(
        machine, "package_version", lambda name: (asked.append(name), version(name))[1]
    )
    few = plan(replicates=1)
    before = sorted(asked)
    asked.clear()
    many = plan(replicates=9)
    assert len(many.orders) >= 8 * len(few.orders)
    assert sorted(asked) == before


def test_a_job_on_another_machine_names_both_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in(monkeypatch, H200, "580.1", None)
    describe()
    planned = plan(machine="lab")
    name, order = next(iter(planned.orders.items()))
    put_in(monkeypatch, A100, "550.2", None)
    options = ["--machine", FILE, "--output"]
    assert main(["measure", "--order", json.dumps(order), *options, name]) == 1
    message = capsys.readouterr().err
    assert "lab.json describes NVIDIA H200 (driver 580.1," in message
    assert "runs on NVIDIA A100-SXM4-80GB (driver 550.2," in message
    assert main(["ceilings", "--device", "cuda", *options, "ceilings.json"]) == 1
    assert "NVIDIA H200" in capsys.readouterr().err
    assert not Path(name).exists() and not Path("ceilings.json").exists()


def test_the_cpu_of_a_gpu_node_is_planned_for_and_described_without_asking_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise machine.MachineError("nvidia-ml-py is not installed")

    put_in(monkeypatch, H200, "580.1", None)
    monkeypatch.setattr(machine, "gpus", refuse)
    monkeypatch.setattr(machine, "driver_version", refuse)
    assert plan(device="cpu").device == "cpu"
    assert describe("cpu") == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no config/machines/lab.json; write it"),
        ("{", "lab.json: cannot be read"),
        ('{"version": 1, "device": "tpu"}', "lab.json: "),
    ],
)
def test_a_missing_or_damaged_file_is_one_message_with_a_remedy(
    content: str | None, said: str
) -> None:
    if content is not None:
        Path(FILE).parent.mkdir(parents=True)
        Path(FILE).write_text(content)
    with pytest.raises(machine.MachineError) as caught:
        plan(machine="lab")
    assert said in str(caught.value)
    assert "snakemake machine --config machine=lab" in str(caught.value)


def test_what_the_file_cannot_tell_is_refused() -> None:
    describe("cpu")
    with pytest.raises(machine.MachineError, match=r"device: cuda was asked for, but .*lab\.json"):
        plan(machine="lab", device="cuda")
    described = machines.read_machine(Path(FILE))
    with pytest.raises(machine.MachineError, match="version of tilelang is missing"):
        described.package_version("tilelang")
