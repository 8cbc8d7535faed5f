"""Files to make again: missing, damaged, out of time, or to be measured again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.calls import remaking
from flashlab.plan.digests import CHANGED, MISSING, read_digests, write_digests
from flashlab.calls.remaking import (
    REPORT_ENDS,
    damaged_outputs,
    record_damage,
    report_damage,
    runs_asked_for,
)
from flashlab.config import ConfigError
from flashlab.records import Record, time_out_message, write_record
from flashlab.runs import Run

NO_DIGESTS: dict[Path, str] = {}


def test_an_output_is_as_it_was_made_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "observations.json"
    path.write_bytes(b"run,time\n1,2\n")
    assert damaged_outputs(tmp_path) == {}
    write_digests(path)
    assert damaged_outputs(tmp_path) == {}
    for changed in (b"run,time\n", b"run,ti", b"\0" * 13, b""):
        path.write_bytes(changed)
        assert damaged_outputs(tmp_path) == {path: CHANGED}
    path.unlink()
    assert damaged_outputs(tmp_path) == {path: MISSING}


def test_a_folder_is_as_whole_as_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    for name in ("memory.svg", "time.svg"):
        folder.joinpath(name).write_bytes(b"<svg></svg>\n")
    write_digests(folder)
    assert damaged_outputs(tmp_path) == {}
    folder.joinpath("time.svg").write_bytes(b"<svg>")
    assert damaged_outputs(tmp_path) == {folder: f"time.svg {CHANGED}"}
    folder.joinpath("memory.svg").unlink()
    folder.joinpath("time.svg").write_bytes(b"<svg></svg>\n")
    assert damaged_outputs(tmp_path) == {folder: f"memory.svg {MISSING}"}


def test_a_file_that_no_stage_makes_any_more_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    path.write_text("{}")
    write_digests(path)
    path.unlink()
    assert damaged_outputs(tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("pdf", b"%PDF-1.7\n\0\n%%EOF\n"),
        ("pdf", b"%PDF-1.7\n%%EOF\n1 0 obj /Annot endobj\r\n%%EOF\r\n"),
        ("html", b"<html></html>"),
    ],
)
def test_a_report_is_whole_or_cut_off_whatever_was_noted_in_it(
    tmp_path: Path, kind: str, content: bytes
) -> None:
    path, end = tmp_path / f"lab5.{kind}", REPORT_ENDS[kind]
    assert report_damage(path, end) == MISSING
    path.write_bytes(content)
    assert report_damage(path, end) is None
    for damaged in (content[: len(content) // 2], b"\0" * len(content), b""):
        path.write_bytes(damaged)
        assert report_damage(path, end) == "is cut off"


def test_a_record_is_missing_damaged_or_another_runs(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "record.json"
    assert record_damage(path, run, 300, NO_DIGESTS) == MISSING
    write_record(path, record_of(run))
    assert record_damage(path, run, 300, NO_DIGESTS) is None
    path.write_bytes(path.read_bytes()[:-20])
    assert "not JSON" in str(record_damage(path, run, 300, NO_DIGESTS))
    write_record(path, record_of(attention_run("Other", Shape.of(run), run.dtype, run.device)))
    assert "was asked for" in str(record_damage(path, run, 300, NO_DIGESTS))


def test_a_record_that_was_changed_by_hand_is_noticed_where_it_has_a_digest(
    tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "record.json"
    write_record(path, record_of(run))
    write_digests(path)
    digests = read_digests(tmp_path)
    assert record_damage(path, run, 300, digests) is None
    times = path.stat()
    write_record(path, record_of(run, forward=[0.0001] * 12, backward=[0.00025] * 12))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert record_damage(path, run, 300, digests) == CHANGED
    assert record_damage(path, run, 300, NO_DIGESTS) is None


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_run_that_ran_out_of_time_is_measured_again_with_more_time_only(
    tmp_path: Path, run: Run, is_listed: bool
) -> None:
    path, protocol = tmp_path / "record.json", {"name": "sampled", "timeout_s": 2.5}

    def damage(record: Record, timeout_s: float) -> str | None:
        write_record(path, record)
        write_digests(path)
        return record_damage(path, run, timeout_s, read_digests(tmp_path) if is_listed else {})

    ended = record_of(run, "error", protocol=protocol, message=time_out_message(2.5))
    assert "ran out of time after 2.5 s" in str(damage(ended, 3))
    assert damage(ended, 2.5) is None
    assert damage(ended, 1) is None
    # Another error is not one of time, and a result not one at all.
    assert damage(record_of(run, "error", protocol=protocol), 3) is None
    assert damage(record_of(run, protocol=protocol), 3) is None


def test_a_record_that_is_as_it_was_made_is_not_parsed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_record(path, record_of(run))
    write_digests(path)
    monkeypatch.setattr(remaking, "read_record", None)  # reading it would be an error
    assert record_damage(path, run, 300, read_digests(tmp_path)) is None


@pytest.fixture
def planned(run: Run) -> dict[Path, Run]:
    runs = [run, attention_run("Pytorch", Shape.of(run), run.dtype, run.device)]
    return {Path(f"results/local/records/{r.slug}-0123456789ab.json"): r for r in runs}


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
    planned: dict[Path, Run], again: Any, names: list[str]
) -> None:
    found = runs_asked_for(again, planned)
    assert [path.name.split("-")[0] for path in found] == names


@pytest.mark.parametrize("again", ["Flash", "n6", "", ["Flash2", "causal"]])
def test_a_name_that_no_run_has_is_an_error_that_says_what_there_is(
    planned: dict[Path, Run], again: Any
) -> None:
    with pytest.raises(ConfigError, match=r"again: no planned run .*\(Flash2, Pytorch\)"):
        runs_asked_for(again, planned)
