"""The parts of a dataset: what is left of each, how long that takes, and what is refused first."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted.records import record_of

from flashlab import machine
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.calls import recording
from flashlab.calls.recording import (
    Part,
    check_freezable,
    paces,
    part_names,
    plan_part,
    seconds_left,
)
from flashlab.config import ConfigError, Layer
from flashlab.machine import Gpu, commit_here
from flashlab.plan.datasets import MANIFEST, DatasetError
from flashlab.plan.freezing import packed_file
from flashlab.plan.source import DATA
from flashlab.records import write_record
from flashlab.runs import Run
from flashlab.terminal.record import _is_packed, _say_state, main

ROOT = Path(__file__).parents[1]
BEGAN = datetime.fromisoformat("2026-01-02T03:04:05+00:00")
TINY = {
    "device": "cpu",
    "replicates": 1,
    "experiments": [{"use": "seq_len", "implementations": ["Pytorch", "Flash2"]}],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with the configuration and without datasets."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measure(part: Part, seconds: float, status: str = "error", **environment: Any) -> None:
    """Write the records of a part that are left, one after the other by so many seconds."""
    usual = {
        "device_name": machine.device_name("cpu"),
        "boot": "1",
        **commit_here(),
        "dirty": False,
    }
    for number, (path, order) in enumerate(part.left.items()):
        run = Run.of(part.benchmark, order["run"])
        started = (BEGAN + number * timedelta(seconds=seconds)).isoformat()
        record = record_of(
            run,
            protocol=order["protocol"],
            environment={**usual, **environment},
            started=started,
            sources={"process": order["process"]},
            metrics={},
            status=status,
        )
        write_record(path, record)


def keep(part: Part, dataset: str) -> None:
    """Make a recorded dataset of a part's records."""
    records = Path("data", dataset, "records")
    shutil.copytree(part.prepared.home + "/records", records)
    listed = [
        {
            "benchmark": "attention",
            "run": order["run"],
            "protocol": order["protocol"],
            "sha256": "",
            "file": f"records/{path.name}",
        }
        for path, order in part.records.items()
    ]
    keys = {"version": 2, "name": dataset, "device": "cpu", "dtype": "float32"}
    rest = {"protocol": "sampled", "config": {}, "ceilings": None, "records": listed}
    (records.parent / MANIFEST).write_text(json.dumps({**keys, **rest}))


def test_every_benchmark_has_a_part_and_the_parts_are_planned_as_they_are(folder: Path) -> None:
    parts = [plan_part(name) for name in part_names()]
    assert {part.benchmark.name for part in parts} == BENCHMARKS.keys()
    assert [part.name for part in parts if part.prepared.config["alone"]] == ["training"]
    by_lab5 = [part.name for part in parts if part.prepared.protocol == "lab5"]
    assert by_lab5 == ["lab5"]
    for part in parts:
        assert part.left.keys() == part.records.keys()
        assert part.lacking_in("mine").keys() == {path.name for path in part.records}
    with pytest.raises(ConfigError, match=r"no part ladr \(did you mean ladder\?\); there are att"):
        plan_part("ladr")


def test_counters_are_missed_only_on_a_gpu_that_has_no_ncu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not plan_part("attention", (), Layer("--config", TINY)).lacks_ncu
    part = plan_part("attention", (), Layer("--config", TINY))
    prepared = replace(part.prepared, device="cuda", counters=())
    assert replace(part, prepared=prepared).lacks_ncu
    asked_for = {**prepared.config, "counters": "no"}
    assert not replace(part, prepared=replace(prepared, config=asked_for)).lacks_ncu


# How long it takes


def test_a_datasets_records_tell_the_time_until_there_are_some_of_here(folder: Path) -> None:
    given = {**TINY, "counters": "no"}
    part = plan_part("attention", (), Layer("--config", given))
    measure(part, 7)
    keep(part, "other")
    shutil.rmtree(part.prepared.home)

    part = plan_part("attention", (), Layer("--config", given))
    pace = paces(part)
    assert (pace[False].seconds, pace[False].source) == (7, "as in data/other")
    assert seconds_left(part, pace) == 7 * len(part.left) == 7 * 8

    measure(part, 3)
    for path in [*part.records][5:]:
        path.unlink()
    part = plan_part("attention", (), Layer("--config", given))
    pace = paces(part)
    assert (pace[False].seconds, pace[False].source) == (3, "as here so far")
    assert seconds_left(part, pace) == 3 * 3


def test_a_pause_is_no_run_and_another_device_tells_nothing(folder: Path) -> None:
    part = plan_part("attention", (), Layer("--config", {**TINY, "counters": "no"}))
    measure(part, part.prepared.config["measure"]["timeout_s"] + 1)
    assert paces(part)[False].source == "assumed"
    shutil.rmtree(part.prepared.home)
    measure(part, 3, device_name="Another")
    assert paces(part)[False].source == "assumed"


def test_gpus_share_the_work_unless_each_run_is_to_be_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plan_part("attention", (), Layer("--config", {**TINY, "counters": "no"}))
    pace = paces(part)
    one = seconds_left(part, pace)
    monkeypatch.setattr(machine, "gpus", lambda: [Gpu(f"GPU-{n}", "H100") for n in range(4)])
    on_gpus = replace(part.prepared, device="cuda")
    alone = replace(on_gpus, config={**on_gpus.config, "alone": True})
    assert seconds_left(replace(part, prepared=on_gpus), pace) == one / 4
    assert seconds_left(replace(part, prepared=alone), pace) == one


# What is refused before anything is measured


def test_records_of_another_commit_or_changed_code_are_refused_before_more_are_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plan_part("attention", (), Layer("--config", TINY))
    here = {"commit": "a" * 40, "dirty": False}
    monkeypatch.setattr(recording, "commit_here", lambda: here)
    check_freezable(part.prepared, "mine")
    here["dirty"] = True
    with pytest.raises(DatasetError, match=r"1 at a{12} with uncommitted changes"):
        check_freezable(part.prepared, "mine")
    here["dirty"] = False
    measure(part, 1, commit="b" * 40)
    next(iter(part.records)).unlink()
    with pytest.raises(DatasetError, match=r"at b{12}, 1 at a{12}"):
        check_freezable(plan_part("attention", (), Layer("--config", TINY)).prepared, "mine")
    told = plan_part("attention", (), Layer("--config", {**TINY, "freeze_anyway": True}))
    check_freezable(told.prepared, "mine")


# The command


def test_a_dry_run_says_what_is_left_and_how_long_it_takes_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "commit_here", dict)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    before = {*folder.rglob("*")}
    words = ["mine", "attention", "lab5", "--dry-run", "--configfile", "tiny.yaml"]
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "What is left of data/mine:",
        "  attention  12 of 12 records left, about 2 min: 8 of 10.0 s each (assumed), "
        "4 of counters of 15.0 s each (assumed)",
        "  lab5       10 of 10 records left, about 2 min: 10 of 10.0 s each (assumed)",
        "About 4 min of measuring in all.",
    ]
    assert {*folder.rglob("*")} == before


def test_a_part_with_an_error_is_not_complete(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = plan_part("attention", (), Layer("--config", {**TINY, "counters": "no"}))
    for status, is_complete in (("error", False), ("unsupported", True)):
        shutil.rmtree(part.prepared.home, ignore_errors=True)
        measure(part, 1, status)
        keep(part, status)
        assert _say_state(part, status) == is_complete
        assert f"complete (8 {status})" in capsys.readouterr().out


def test_an_archive_is_as_new_as_the_manifests_of_its_dataset(folder: Path) -> None:
    manifest, packed = DATA / "mine" / "ladder" / MANIFEST, packed_file(DATA, "mine")
    assert _is_packed("mine")  # there is nothing to pack
    manifest.parent.mkdir(parents=True)
    manifest.touch()
    assert not _is_packed("mine")
    packed.touch()
    assert _is_packed("mine")
    os.utime(manifest, (2**31, 2**31))
    assert not _is_packed("mine")


def test_a_mistake_is_one_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mine", "laddr", "--dry-run"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no part laddr (did you mean ladder")
    assert main(["mine", "-n", "--config", "freeze_anyway=perhaps"]) == 1
    assert "freeze_anyway" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["--dry-run"])
    assert ended.value.code == 2
