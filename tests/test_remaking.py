"""Files to make again: missing, damaged, out of time, or to be measured again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import ConfigError
from flashlab.plan import state
from flashlab.plan.datasets import Entry
from flashlab.plan.digests import CHANGED, LIST, MISSING, write_digests
from flashlab.plan.runs import Planned
from flashlab.records import time_out_message, write_record
from flashlab.runs import Run


def damage(path: Path, run: Run | None, timeout_s: float = 300) -> str | None:
    """The reason to measure a run again whose record is in the folder ``records``."""
    return state.damaged_records({path: run}, path.parents[1], timeout_s).get(path.as_posix())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records" / "record.json"


TABLE = "tables/causal/runs.csv"


@pytest.mark.parametrize(
    ("name", "made", "which"),
    [(TABLE, TABLE, ""), ("figures/causal/time.svg", "figures", "time.svg ")],
)
def test_an_output_is_as_made_or_changed(tmp_path: Path, name: str, made: str, which: str) -> None:
    def damaged(*experiments: str) -> list[str]:
        found = state.damaged_outputs(tmp_path, {*experiments})
        assert found.keys() <= {(tmp_path / made).as_posix()}
        return [*found.values()]

    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"run,time\n1,2\n")
    assert damaged("causal") == []
    write_digests(tmp_path / name.partition("/")[0])
    assert damaged("causal") == []
    for changed in (b"run,time\n", b"\0" * 13, b""):
        path.write_bytes(changed)
        assert damaged("causal") == [f"{which}{CHANGED}"]
    path.unlink()
    assert damaged("causal") == [f"{which}{MISSING}"]
    assert name != TABLE or damaged("seq_len") == [], "of an experiment that is gone"


NOTED = b"%PDF-1.7\n%%EOF\n1 0 obj /Annot endobj\r\n%%EOF\r\n"


@pytest.mark.parametrize(("kind", "content"), [("pdf", NOTED), ("html", b"<html></html>")])
def test_a_report_is_whole_or_cut_off_whatever_was_noted_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    home, name = Path("home"), f"lab5.{kind}"
    for folder in ("report", home):
        Path(folder).mkdir()
    assert state.damaged_reports(home, "lab5") == {}  # nobody has asked for one
    Path("report", name).write_bytes(content)
    assert state.damaged_reports(home, "lab5") == {f"home/{name}": MISSING}
    (home / name).write_bytes(content)
    assert state.damaged_reports(home, "lab5") == {}
    for damaged in (content[: len(content) // 2], b"\0" * len(content), b""):
        Path("report", name).write_bytes(damaged)
        assert state.damaged_reports(home, "lab5") == {f"report/{name}": "is cut off"}


def test_a_record_is_missing_damaged_changed_or_another_runs(path: Path, run: Run) -> None:
    assert damage(path, run) == MISSING
    write_record(path, record_of(run))
    write_digests(path)
    assert damage(path, run) is None
    times = path.stat()
    write_record(path, record_of(run, forward=[0.0001] * 12, backward=[0.00025] * 12))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert damage(path, run) == damage(path, None) == CHANGED
    path.with_name(LIST).unlink()  # without its digest, by hand is as good as measured
    assert damage(path, run) is damage(path, None) is None
    path.write_bytes(path.read_bytes()[:-20])
    assert "not JSON" in str(damage(path, run))
    write_record(path, record_of(attention_run("Other", Shape.of(run), run.dtype, run.device)))
    assert "was asked for" in str(damage(path, run))


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_run_that_ran_out_of_time_is_measured_again_with_more_time_only(
    path: Path, run: Run, is_listed: bool
) -> None:
    protocol = {"name": "sampled", "timeout_s": 2.5}
    for message in ("another one", time_out_message(2.5)):
        write_record(path, record_of(run, "error", protocol=protocol, message=message))
        if is_listed:
            write_digests(path)
        assert damage(path, run, 2.5) is None
        found = str(damage(path, run, 3))
        assert ("ran out of time after 2.5 s" in found) == (message != "another one")


def test_what_is_measured_again_is_kept_until_there_is_a_new_record(path: Path, run: Run) -> None:
    home, kept = path.parents[1], path.parents[1] / "replaced" / path.name
    write_record(path, record_of(run))
    state.put_aside(home, [path.as_posix(), (home / "figures").as_posix()])
    assert kept.exists() and not path.exists()
    state.put_aside(home, [path.as_posix()])  # after a call that was killed
    assert kept.exists()
    write_record(path, record_of(run))
    state.put_aside(home, [])
    assert path.exists() and not kept.exists()


@pytest.mark.parametrize(
    ("again", "names"),
    [
        *(("all", "flash2 pytorch ceilings"), (["flash2 n64", "Pytorch"], "flash2 pytorch")),
        *(("pytorch-b2-n64-h4-e64-full-float32-cpu-0123456789ab", "pytorch"), (["blocks"], "")),
        *((no_run, None) for no_run in ("Flash", "n6", "", ["Flash2", "causal"])),
    ],
)
def test_runs_are_asked_for_by_parts_of_names(run: Run, again: Any, names: str | None) -> None:
    runs = [run, attention_run("Pytorch", Shape.of(run), run.dtype, run.device)]
    entries = {r: [Entry(r, {}, Path(f"{r.slug}-0123456789ab.json"), None)] for r in runs}
    planned = Planned(entries)
    if names is None:
        with pytest.raises(ConfigError, match=r"again: no planned run .*\(Flash2, Pytorch\)"):
            state.asked_again(again, planned, Path())
    else:
        found = state.asked_again(again, planned, Path("ceilings-cpu.json"))
        assert [Path(file).name.split("-")[0] for file in found] == names.split()
