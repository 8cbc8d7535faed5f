"""Where a call's plan is written, and what its files' times of change say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from flashlab import call
from flashlab.prepare import Prepared, prepare

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
NAME = "results/local/plan/config.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def prepared() -> Prepared:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return prepare({**config, "device": "cpu", "again": ["Flash2"]}, [CONFIG], {})


def age(path: Path) -> int:
    os.utime(path, ns=(1, 10**9))
    return path.stat().st_mtime_ns


def test_in_place_a_file_is_written_where_it_changed() -> None:
    call.write_documents({NAME: {"a": 1}}, call.IN_PLACE)
    before = age(Path(NAME))
    call.write_documents({NAME: {"a": 1}}, call.IN_PLACE)
    assert Path(NAME).stat().st_mtime_ns == before
    call.write_documents({NAME: {"a": 2}}, call.IN_PLACE)
    assert Path(NAME).stat().st_mtime_ns > before


def test_elsewhere_a_file_has_the_age_of_the_one_that_it_equals() -> None:
    call.write_documents({NAME: {"a": 1}}, call.IN_PLACE)
    before = age(Path(NAME))
    root = call.plan_root(in_place=False)
    call.write_documents({NAME: {"a": 1}, "new.json": {}}, root)
    assert (root / NAME).stat().st_mtime_ns == before
    call.write_documents({NAME: {"a": 2}}, root)
    assert (root / NAME).stat().st_mtime_ns > before
    assert Path(NAME).stat().st_mtime_ns == before
    assert not Path("new.json").exists()


def test_a_job_reads_what_its_call_prepared(prepared: Prepared) -> None:
    call.keep_call(prepared, {"kind": ""})
    read, grading = call.read_call()
    assert grading == {"kind": ""}
    assert list(read.orders) == list(prepared.orders)
    assert read.records["causal"] == list(prepared.records["causal"])
    assert read.remade == prepared.remade


def test_the_file_of_what_is_made_again_is_there_only_where_there_is_something(
    prepared: Prepared,
) -> None:
    call.write_remaking(prepared, call.IN_PLACE)
    assert call.remaking_file(prepared, call.IN_PLACE).is_file()
    root = call.plan_root(in_place=False)
    nothing = Prepared(**{**vars(prepared), "remade": {}})
    call.write_remaking(nothing, root)
    assert not call.remaking_file(nothing, root).exists()
