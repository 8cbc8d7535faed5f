"""The place of a call's plan, and the modification times of its files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from flashlab.calls import call
from flashlab.calls.call import PlanFiles
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.calls.prepare import Prepared, prepare
from flashlab.config import Layer

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
NAME = "results/local/plan/config.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def prepared() -> Prepared:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return prepare(Layer(str(CONFIG), {**config, "device": "cpu", "again": ["Flash2"]}))


def age(path: Path) -> int:
    os.utime(path, ns=(1, 10**9))
    return path.stat().st_mtime_ns


def test_elsewhere_a_file_has_the_age_of_the_one_that_it_equals() -> None:
    PlanFiles(in_place=True).write({NAME: {"a": 1}})
    before = age(Path(NAME))
    elsewhere = PlanFiles(in_place=False)
    elsewhere.write({NAME: {"a": 1}, "new.json": {}})
    assert (elsewhere.root / NAME).stat().st_mtime_ns == before
    elsewhere.write({NAME: {"a": 2}})
    assert (elsewhere.root / NAME).stat().st_mtime_ns > before
    assert Path(NAME).stat().st_mtime_ns == before
    assert not Path("new.json").exists()


def test_a_job_reads_what_its_call_prepared(prepared: Prepared) -> None:
    call.keep_call(prepared)
    read = call.read_call()
    assert list(read.orders) == list(prepared.orders)
    assert read.records["causal"] == list(prepared.records["causal"])
    assert read.remade == prepared.remade


@pytest.mark.parametrize(("dry", "said"), [(True, "To be made again: "), (False, "Made again: ")])
def test_a_dry_run_says_what_is_to_be_made_again(
    capsys: pytest.CaptureFixture[str], dry: bool, said: str
) -> None:
    observations = Path("results", "local", "observations.json")
    observations.parent.mkdir(parents=True)
    observations.write_text("[]")
    write_digests(observations)
    observations.write_text("[")
    base = Layer("config.yaml", yaml.safe_load(CONFIG.read_text(encoding="utf-8")))
    begun = call.begin(base, [Layer("--config", {"device": "cpu"})], ["--cores", "1"], dry=dry)
    begun.claim.release()
    assert f"{said}{observations} {CHANGED}\n" in capsys.readouterr().err
    remade = json.loads((begun.files.root / "results/local/plan/remade.json").read_text())
    assert remade["files"][observations.as_posix()] == CHANGED
