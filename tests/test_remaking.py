"""What is noticed of files that are gone, damaged, out of time, or to be measured again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.calls import remaking
from flashlab.calls.made import made_line
from flashlab.calls.remaking import (
    ASKED_FOR,
    damage,
    missing_figures,
    record_damage,
    runs_asked_for,
)
from flashlab.config import ConfigError
from flashlab.records import time_out_message, write_record
from flashlab.runs import Run

NO_LOG = Path("of-no-job.log")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("observations.json", b"[]\n"),
        ("runs.csv", b"run,time\n"),
        ("time.svg", b"<svg></svg>\n"),
        ("lab5.pdf", b"%PDF-1.7\n\0\n%%EOF\n"),
        ("lab5.pdf", b"%PDF-1.7\n%%EOF\n1 0 obj /Annot endobj\r\n%%EOF\r\n"),
        ("lab5.html", b"<html></html>"),
    ],
)
def test_a_file_is_whole_or_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    assert damage(path) == "is missing"
    path.write_bytes(content)
    assert damage(path) is None
    path.write_bytes(content[: len(content) // 2])
    assert damage(path) in ("is cut off", "is not JSON")
    path.write_bytes(b"\0" * len(content))
    assert damage(path)
    path.write_bytes(b"")
    assert damage(path)


def test_a_file_that_is_not_what_its_jobs_log_says_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"run,time\n1,2\n")
    log = "warning: one\n" + made_line("runs.csv", path.read_bytes())
    assert damage(path, log) is None
    path.write_bytes(b"run,time\n")
    assert damage(path, log) == "was changed after it had been made"
    assert damage(path) is damage(path, made_line("metrics.csv", b"")) is None
    path.write_bytes(b"run,ti")
    assert damage(path, log) == "is cut off"


def test_a_folder_is_as_whole_as_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    assert damage(folder) == missing_figures(folder, ["time"]) == "is missing"
    folder.mkdir()
    assert damage(folder) == "is empty"
    folder.joinpath("time.svg").write_bytes(b"<svg></svg>\n")
    assert damage(folder) is None
    assert missing_figures(folder, ["time", "memory"]) == "lacks memory"
    assert missing_figures(folder, ["time"]) is None
    folder.joinpath("memory.svg").write_bytes(b"<svg>")
    assert damage(folder) == "memory.svg is cut off"


def test_a_record_is_missing_damaged_or_another_runs(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "record.json"
    assert record_damage(path, run, 300, {}, NO_LOG) == "is missing"
    write_record(path, record_of(run))
    assert record_damage(path, run, 300, {}, NO_LOG) is None
    path.write_bytes(path.read_bytes()[:-20])
    assert "not JSON" in str(record_damage(path, run, 300, {}, NO_LOG))
    write_record(path, record_of(attention_run("Other", Shape.of(run), run.dtype, run.device)))
    assert "was asked for" in str(record_damage(path, run, 300, {}, NO_LOG))


def test_a_record_that_was_changed_by_hand_is_not_what_its_log_says(
    tmp_path: Path, run: Run
) -> None:
    path, log, intact = tmp_path / "record.json", tmp_path / "record.log", {}
    write_record(path, record_of(run))
    log.write_text(made_line(path.name, path.read_bytes()))
    assert record_damage(path, run, 300, intact, log) is None
    times = path.stat()
    write_record(path, record_of(run, forward=[0.0001] * 12, backward=[0.00025] * 12))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert record_damage(path, run, 300, intact, log) == "was changed after it had been made"
    assert record_damage(path, run, 300, {}, tmp_path / "none.log") is None
    path.write_text("{")
    assert "not JSON" in str(record_damage(path, run, 300, intact, log))


def test_a_run_that_ran_out_of_time_is_measured_again_with_more_time_only(
    tmp_path: Path, run: Run
) -> None:
    protocol = {"name": "sampled", "timeout_s": 2.5}
    path = tmp_path / "record.json"
    write_record(path, record_of(run, "error", protocol=protocol, message="timed out after 2.5 s"))
    assert "ran out of time after 2.5 s" in str(record_damage(path, run, 3, {}, NO_LOG))
    assert record_damage(path, run, 2.5, {}, NO_LOG) is None
    assert record_damage(path, run, 1, {}, NO_LOG) is None
    # Another error is not one of time, and a result not one at all.
    write_record(path, record_of(run, "error", protocol=protocol))
    assert record_damage(path, run, 3, {}, NO_LOG) is None
    write_record(path, record_of(run, protocol=protocol))
    assert record_damage(path, run, 3, {}, NO_LOG) is None


@pytest.fixture
def planned(run: Run) -> dict[str, Run]:
    runs = [run, attention_run("Pytorch", Shape.of(run), run.dtype, run.device)]
    return {f"results/local/records/{r.slug}-0123456789ab.json": r for r in runs}


@pytest.mark.parametrize(
    ("again", "names"),
    [
        ("all", ["flash2", "pytorch"]),
        ("Flash2", ["flash2"]),
        (["flash2 n64", "Pytorch"], ["flash2", "pytorch"]),
        (["pytorch-b2-n64-h4-e64-full-float32-cpu-0123456789ab"], ["pytorch"]),
        (["n64"], ["flash2", "pytorch"]),
    ],
)
def test_runs_are_asked_for_by_parts_of_their_names(
    planned: dict[str, Run], again: Any, names: list[str]
) -> None:
    found = runs_asked_for(again, planned)
    assert [Path(path).name.split("-")[0] for path in found] == names
    assert set(found.values()) == {ASKED_FOR}


@pytest.mark.parametrize("again", ["Flash", "n6", "", ["Flash2", "causal"]])
def test_a_name_that_no_run_has_is_an_error_that_says_what_there_is(
    planned: dict[str, Run], again: Any
) -> None:
    with pytest.raises(ConfigError, match=r"again: no planned run .*\(Flash2, Pytorch\)"):
        runs_asked_for(again, planned)


def test_a_record_that_was_found_intact_is_read_again_only_when_it_has_changed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    message, protocol = time_out_message(2), {"name": "sampled", "timeout_s": 2}
    write_record(path, record_of(run, status="error", message=message, protocol=protocol))
    intact: dict[str, Any] = {}
    assert record_damage(path, run, 2, intact, NO_LOG) is None
    later = json.loads(json.dumps(intact))
    with monkeypatch.context() as patch:
        patch.setattr(remaking, "read_record", None)  # reading it would be an error
        assert record_damage(path, run, 2, later, NO_LOG) is None
        assert "ran out of time after 2 s" in str(record_damage(path, run, 3, later, NO_LOG))
    status = path.stat()
    path.write_bytes(b"\0" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert "cannot be used" in str(record_damage(path, run, 2, later, NO_LOG))
