from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab import machine, plan
from flashlab.config import resolve_config
from flashlab.datasets import Dataset, Entry
from flashlab.implementations import read_implementation
from flashlab.records import Run, Shape

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
KERNEL = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
PACKAGES = ("flash-attn",)
def attention(qkv, causal): ...
"""
RUN = Run("Mine", Shape(1, 128, 8, 512, False), "float16", "cuda")
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}


def resolved(**changes: Any) -> dict[str, Any]:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["experiments"][0].update(changes)
    return resolve_config(config, ["Pytorch", "Flash2"])


# Which runs


def test_the_default_configuration_is_the_labs_list_on_cuda() -> None:
    experiments = plan.experiments(resolved(), "cuda")
    runs = {run for experiment in experiments for run in experiment.runs("float16", "cuda")}
    expected = {Shape(16, n, 32, 2048, c) for n in (128, 256, 512, 1024) for c in (False, True)}
    expected |= {Shape(b, 512, 32, 2048, True) for b in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, h, 2048, True) for h in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, 32, e, True) for e in (512, 1024, 2048, 4096)}
    assert {run.shape for run in runs} == expected
    assert (len(expected), len(runs)) == (17, 34)


def test_the_default_configuration_asks_for_the_labs_eleven_figures() -> None:
    figures = {
        experiment.name: [figure.id for figure in experiment.figures if not figure.supplement]
        for experiment in plan.experiments(resolved(), "cuda")
    }
    assert figures == {
        "summary": [],
        "seq_len": ["time", "memory", "rate"],
        "causal": ["rate-flash2", "rate-pytorch"],
        "batch_size": ["time"],
        "num_heads": ["time", "rate", "memory"],
        "emb_dim": ["time", "memory"],
    }


def test_lists_beside_the_sweep_go_with_it_value_by_value() -> None:
    block = {"batch_size": [8, 4], "seq_len": [64, 128], "num_heads": 2, "emb_dim": 32}
    (_, experiment, *_) = plan.experiments(resolved(cuda={**block, "causal": True}), "cuda")
    assert experiment.shapes == (Shape(8, 64, 2, 32, True), Shape(4, 128, 2, 32, True))


def test_causal_crosses_the_sweep() -> None:
    block = {"batch_size": 8, "seq_len": [64, 128], "num_heads": 2, "emb_dim": 32}
    changed = resolved(cuda={**block, "causal": [False, True]})
    (_, experiment, *_) = plan.experiments(changed, "cuda")
    assert [(shape.seq_len, shape.causal) for shape in experiment.shapes] == [
        (64, False),
        (128, False),
        (64, True),
        (128, True),
    ]


def test_a_run_that_experiments_share_is_planned_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KERNEL)
    implementations = {"Mine": read_implementation(tmp_path / "mine.py")}
    run = replace(RUN, device="cpu")
    planned = plan.plan_local([run, run], PROTOCOL, implementations, Path("records"))
    assert list(planned) == [run]
    assert planned[run].path.name.startswith("mine-b1-n128-h8-e512-full-float16-cpu-")


# Identity: what makes a record another record


@pytest.fixture
def this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Names the record of RUN on a machine as it can be changed one thing at a time."""

    def name(
        run: Run = RUN,
        protocol: dict[str, Any] = PROTOCOL,
        kernel: str = KERNEL,
        torch: str = "2.0",
        flash: str = "2.8",
        driver: str = "570.1",
        gpu: str = "H200",
    ) -> str:
        for package, version in {"torch": torch, "flash-attn": flash}.items():
            information = tmp_path / "site" / f"{package.replace('-', '_')}.dist-info"
            information.mkdir(parents=True, exist_ok=True)
            (information / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.setattr(machine, "driver_version", lambda: driver)
        monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("GPU-1", gpu)])
        (tmp_path / "mine.py").write_text(kernel)
        identity = plan.identity(run, protocol, read_implementation(tmp_path / "mine.py"))
        return plan.record_name(run, identity)

    return name


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": KERNEL + "# a comment\n"},
        {"torch": "2.1"},
        {"flash": "2.9"},
        {"driver": "580.0"},
        {"gpu": "H100"},
        {"protocol": {**PROTOCOL, "max_seconds": 1.0}},
        {"protocol": {**PROTOCOL, "name": "lab5"}},
        {"run": replace(RUN, dtype="bfloat16")},
        {"run": replace(RUN, shape=replace(RUN.shape, causal=True))},
        {"run": replace(RUN, shape=replace(RUN.shape, batch_size=2))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_numbers_decides_the_name(
    this_machine: Callable[..., str], change: dict[str, Any]
) -> None:
    assert this_machine(**change) != this_machine()


def test_the_name_is_the_same_at_every_call(this_machine: Callable[..., str]) -> None:
    assert this_machine() == this_machine(protocol=dict(reversed(PROTOCOL.items())))


def test_on_the_cpu_the_gpu_and_its_driver_decide_nothing(
    this_machine: Callable[..., str],
) -> None:
    run = replace(RUN, device="cpu")
    assert this_machine(run=run) == this_machine(run=run, driver="1", gpu="T4")


def test_the_measuring_code_decides_the_name(
    this_machine: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = this_machine()
    code = tmp_path / "measuring"
    code.mkdir()
    for source in plan.MEASURING_CODE.glob("*.py"):
        (code / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(plan, "MEASURING_CODE", code)
    monkeypatch.setattr(plan, "measuring_digest", plan.measuring_digest.__wrapped__)
    assert this_machine() == before
    with (code / "memory.py").open("a") as file:
        file.write("# a comment\n")
    assert this_machine() != before


def test_titles_figures_and_languages_decide_no_name(tmp_path: Path) -> None:
    def names(config: dict[str, Any]) -> dict[Run, str]:
        implementations = {
            name: replace(read_implementation(tmp_path / "mine.py"), name=name)
            for name in ("Pytorch", "Flash2")
        }
        runs = plan.experiments(config, "cpu")[1].runs("float32", "cpu")
        planned = plan.plan_local(runs, plan.protocol_of(config), implementations, Path("records"))
        return {run: entry.path.name for run, entry in planned.items()}

    (tmp_path / "mine.py").write_text(KERNEL)
    other = resolved(title={"zh_TW": "別的", "en": "Other"}, figures=["rate"], name="other")
    other["languages"], other["baseline"] = ["en"], "Flash2"
    other["measure"]["lab5"]["repeats"] = 99
    assert names(other) == names(resolved())


def test_the_protocol_holds_only_what_it_depends_on() -> None:
    config = copy.deepcopy(resolved())
    assert plan.protocol_of(config) == PROTOCOL
    config["measure"]["protocol"] = "lab5"
    assert plan.protocol_of(config) == {"name": "lab5", "repeats": 30, "timeout_s": 300}


# Recorded datasets


def test_a_recorded_dataset_is_looked_up_by_run_and_lists_what_it_lacks() -> None:
    other = replace(RUN, implementation="Other")
    entry = Entry(RUN, {"name": "sampled"}, Path("data/x/records/r.json"), "abc")
    dataset = Dataset("x", "cuda", "float16", "sampled", {}, None, (entry,))
    found = plan.plan_recorded([RUN, RUN], "sampled", dataset, "x")
    assert found == {RUN: plan.PlannedRun(RUN, entry.path, "abc")}
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_recorded([RUN, other], "sampled", dataset, "x")
    assert "lacks 1 of the 2 runs" in str(caught.value)
    assert str(other) in str(caught.value) and str(RUN) not in str(caught.value)
