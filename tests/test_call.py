"""What a call writes and is about, one at a time in a folder, and what a killed one leaves."""

from __future__ import annotations

import errno
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from planted.calls import another_call

from flashlab.benchmarks import registry
from flashlab.config import ConfigError, Layer, read_layer
from flashlab.files import read_json, write_json
from flashlab.lab5.results import OpenRunsError
from flashlab.plan import call
from flashlab.plan.call import HOLDER, CallError, asked_benchmark, hold_folder
from flashlab.plan.plan_files import write_views

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
LOCK = Path(".snakemake", "locks", "0.output.lock")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_elsewhere_a_file_has_the_age_of_the_one_that_it_equals(tmp_path: Path) -> None:
    """So that a dry run, whose plan lies aside, makes nothing again for its age."""
    name, elsewhere = "results/local/plan/config.json", tmp_path / "elsewhere"
    write_views({name: {"a": 1}})
    os.utime(name, ns=(1, 10**9))
    write_views({name: {"a": 1}, "new.json": {}}, elsewhere)
    assert (elsewhere / name).stat().st_mtime == Path(name).stat().st_mtime == 1
    write_views({name: {"a": 2}}, elsewhere)
    assert (elsewhere / name).stat().st_mtime > 1
    assert not Path("new.json").exists()


@pytest.mark.parametrize(
    ("arguments", "own", "expected"),
    [
        ("--cores 1", None, None),
        ("report/lab5.pdf", None, "attention"),
        ("-n ./report/sorts.html report/sorts.pdf", None, "sorting"),
        ("results/h200-sorting/observations.json", None, "sorting"),
        ("records", "sorting", "sorting"),
        ("--report report/provenance.html mine/report/lab6.pdf ./report/compare.pdf", None, None),
        # Which there is not, or not in one call:
        ("report/lab6.pdf", None, r"no report lab6 \(did you mean lab5\?\); there are lab5"),
        ("report/lab5.pdf report/sorts.pdf", None, "is of sorting; make a call for each"),
        ("report/sorts.pdf", "attention", "the call's configuration is of attention"),
    ],
)
def test_a_call_is_about_the_one_benchmark_whose_files_it_names(
    monkeypatch: pytest.MonkeyPatch, arguments: str, own: str | None, expected: str | None
) -> None:
    sorting = replace(registry.DEFAULT, name="sorting", report="sorts")
    monkeypatch.setitem(registry.BENCHMARKS, sorting.name, sorting)
    layers = [Layer("--config", {"benchmark": own} if own else {})]
    if expected in (None, *registry.BENCHMARKS):
        assert asked_benchmark(arguments.split(), layers) == expected
    else:
        with pytest.raises(ConfigError, match=expected):
            asked_benchmark(arguments.split(), layers)


LACKED = {
    **{"./report/compare.html": r"compare=\[NAME,NAME\]", "verify": "pdf=PATH"},
    **{"report/grades.csv": "submissions=DIR", "freeze": "name=NAME"},
}


@pytest.mark.parametrize("target", LACKED)
def test_a_target_without_what_it_needs_is_refused_with_an_example(target: str) -> None:
    with pytest.raises(CallError, match=LACKED[target]):
        call.begin(read_layer(CONFIG), [], ["--cores", "1", target], dry=True)


def test_a_table_that_cannot_be_written_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    question = OpenRunsError("which?", Path("/proc/none/runs.csv"), "file")
    monkeypatch.setattr(call, "make", Mock(side_effect=question))
    with pytest.raises(CallError, match=r"none/runs\.csv, .*; copy its folder to where you can"):
        call.begin(read_layer(CONFIG), [], [], dry=False)


# One call at a time


def leave(host: str = socket.gethostname(), process: int = 2**30) -> None:
    """Leave the folder as a killed call of Snakemake does, with its lock."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    LOCK.write_text("report/lab5.pdf\n")
    write_json(HOLDER, {"host": host, "process": process})


def test_a_living_call_is_named_and_its_lock_left_alone_until_it_is_killed() -> None:
    with another_call() as other:
        LOCK.parent.mkdir(parents=True)
        LOCK.touch()
        said = rf"process {other.pid}\) .* nothing was changed\. Wait"
        with pytest.raises(CallError, match=said):
            hold_folder()
        assert LOCK.exists()
        os.kill(other.pid, signal.SIGKILL)
    os.close(hold_folder())
    assert not LOCK.exists()
    assert read_json(HOLDER) == {"host": socket.gethostname(), "process": os.getpid()}


def test_a_call_on_another_host_is_named_with_the_folder_to_remove_if_it_was_killed() -> None:
    leave("node1", 7)
    with pytest.raises(CallError, match=r"host node1\) .*if it was killed, remove /.*/locks;"):
        hold_folder()
    assert LOCK.exists() and read_json(HOLDER) == {"host": "node1", "process": 7}
    LOCK.unlink()
    os.close(hold_folder())


def test_without_locks_only_a_gone_process_loses_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    no_locks = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    monkeypatch.setattr(call.fcntl, "flock", Mock(side_effect=no_locks))
    leave(process=os.getpid())
    with pytest.raises(CallError, match="nothing was changed"):
        hold_folder()
    leave()
    os.close(hold_folder())
    assert not LOCK.exists()
