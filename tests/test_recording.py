"""The parts of a dataset: what is left of each, and what is refused before anything is measured."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from planted.records import record_of

from flashlab import machine
from flashlab.benchmarks.registry import BENCHMARKS, find_benchmark
from flashlab.plan import freezing
from flashlab.plan.call import layers_of
from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import PARTS, check_freezable, has_result, keep, lacking, part_names
from flashlab.plan.make import DATA, make
from flashlab.plan.plan_files import Plan
from flashlab.records import write_record
from flashlab.runs import Run

ROOT = Path(__file__).parents[1]
TINY = Path("tiny.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with the configuration and without datasets."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "commit_here", lambda: {"commit": "a" * 40, "dirty": False})
    experiments = [{"use": "seq_len", "implementations": ["Pytorch", "Flash2"]}]
    TINY.write_text(yaml.safe_dump({"device": "cpu", "replicates": 1, "experiments": experiments}))
    return tmp_path


def planned(part: str, *files: Path, given: Sequence[str] = ()) -> Plan:
    return make(*layers_of((), [PARTS / f"{part}.yaml", *files], ["name=mine", *given]))


def tiny(*given: str) -> Plan:
    return planned("attention", TINY, given=given)


def measure(plan: Plan, commit: str = "a" * 40) -> None:
    """Write the records that a plan lacks."""
    for file, order in plan.orders.items():
        about: dict[str, Any] = {"protocol": order["protocol"]}
        run = Run.of(find_benchmark(plan.benchmark), order["run"])
        environment = {"device_name": plan.device_name, "commit": commit, "dirty": False}
        sources = {"process": order["process"], "counters": file in plan.counters}
        record = record_of(run, "error", sources=sources, environment=environment, **about)
        if not Path(file).exists():
            write_record(Path(file), record)


def test_every_benchmark_has_a_part_and_the_parts_are_planned_as_they_are() -> None:
    plans = {name: planned(name) for name in part_names()}
    assert {plan.benchmark for plan in plans.values()} == BENCHMARKS.keys()
    assert [name for name, plan in plans.items() if plan.config["alone"]] == ["ladder", "training"]
    protocols = {name: plan.config["measure"]["protocol"] for name, plan in plans.items()}
    assert [name for name, protocol in protocols.items() if protocol == "lab5"] == ["lab5"]
    for plan in plans.values():
        assert lacking(plan) == [*plan.orders] and plan.orders.keys() <= plan.redo.keys()


def test_what_a_dataset_has_is_left_out_and_doubts_come_first(monkeypatch: Any) -> None:
    measure(plan := tiny("alone=true", "counters=no"))
    assert not any(has_result(Path(file)) for file in plan.orders), "they are errors"
    Path(str(plan.ceilings)).write_text("{}")
    assert '"alone": true' in (keep(plan, DATA) / "manifest.json").read_text()
    assert lacking(plan) == [], "so that nothing is measured"
    check_freezable(plan)
    again = tiny()
    assert {*lacking(again)} == {*again.counters}
    measure(again)
    keep(again, DATA)  # adds those that are no errors: none
    with pytest.raises(DatasetError, match="name: local is what is measured here"):
        check_freezable(tiny("name=local"))
    with pytest.raises(DatasetError, match="8 of these runs"):
        check_freezable(tiny("measure={sampled: {max_seconds: 9}}"))
    with pytest.raises(DatasetError, match=r"at a{12} with uncommitted changes"):
        monkeypatch.setattr(machine, "commit_here", lambda: {"commit": "a" * 40, "dirty": True})
        check_freezable(planned("ladder"))
    Path(next(iter(plan.orders))).write_text("{}")
    assert len(lacking(plan)) == 1, "it was measured again, and is not what the dataset has"


@pytest.mark.parametrize("status", [0, 1])
def test_a_part_that_was_not_recorded_is_told_by_the_status(status: int, monkeypatch: Any) -> None:
    DATA.joinpath("mine").mkdir(parents=True)
    monkeypatch.setattr(freezing, "_freeze", Mock(side_effect=[0, 0, status, 0]))
    assert freezing.main(["mine", "ladder", "training"]) == status
