"""What a call writes: its plan and the views, each with the time of what it holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.config import Layer
from flashlab.plan import call
from flashlab.plan.call import CallError
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.plan.value import Plan, read_plan, write_views

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
NAME = "results/local/plan/config.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(*arguments: str, dry: bool = False, **keys: Any) -> tuple[Plan, Path]:
    base = Layer("config.yaml", yaml.safe_load(CONFIG.read_text(encoding="utf-8")))
    own = [Layer("--config", {"device": "cpu", **keys})]
    return call.begin(base, own, ["--cores", "1", *arguments], dry=dry)


def age(path: Path) -> int:
    os.utime(path, ns=(1, 10**9))
    return path.stat().st_mtime_ns


def test_elsewhere_a_file_has_the_age_of_the_one_that_it_equals(tmp_path: Path) -> None:
    write_views({NAME: {"a": 1}})
    before, elsewhere = age(Path(NAME)), tmp_path / "elsewhere"
    write_views({NAME: {"a": 1}})
    write_views({NAME: {"a": 1}, "new.json": {}}, elsewhere)
    assert (elsewhere / NAME).stat().st_mtime_ns == before
    write_views({NAME: {"a": 2}}, elsewhere)
    assert (elsewhere / NAME).stat().st_mtime_ns > before
    assert Path(NAME).stat().st_mtime_ns == before
    assert not Path("new.json").exists()


def test_a_job_reads_what_its_call_has_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "hold_folder", lambda: 0)
    plan, _ = begin(again=["Flash2"])
    read = read_plan()
    assert list(read.orders) == list(plan.orders)
    assert read.experiments["causal"] == list(plan.experiments["causal"])
    assert read.redo == plan.redo


@pytest.mark.parametrize(("dry", "said"), [(True, "To be made again: "), (False, "Made again: ")])
def test_a_call_says_what_was_changed_by_hand_and_a_dry_run_changes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, dry: bool, said: str
) -> None:
    monkeypatch.setattr(call, "hold_folder", lambda: 0)
    observations = Path("results", "local", "observations.json")
    observations.parent.mkdir(parents=True)
    observations.write_text("[]")
    write_digests(observations)
    observations.write_text("[")
    before = {*Path().rglob("*")}
    plan, _ = begin(dry=dry)
    assert f"{said}{observations} {CHANGED}\n" in capsys.readouterr().err
    assert plan.redo[observations.as_posix()] == CHANGED
    assert ({*Path().rglob("*")} == before) == dry


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("./report/compare.html", r"compare=\[NAME,NAME\]"),
        ("report/grades.csv", "submissions=DIR"),
        ("verify", "pdf=PATH"),
        ("freeze", "name=NAME"),
    ],
)
def test_a_target_without_what_it_needs_is_refused_with_an_example(target: str, said: str) -> None:
    with pytest.raises(CallError, match=said):
        begin(target, dry=True)
    begin("--config", "pdf=report/compare.html", dry=True)
