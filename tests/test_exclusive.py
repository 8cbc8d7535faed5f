"""One call at a time in a folder, and what a killed one leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path

import pytest
from planted.calls import another_call

from flashlab.files import read_json, write_json
from flashlab.plan import call
from flashlab.plan.call import HOLDER, CallError, hold_folder

LOCK = Path(".snakemake", "locks", "0.output.lock")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as a killed Snakemake call of this host leaves it, with its lock."""
    monkeypatch.chdir(tmp_path)
    LOCK.parent.mkdir(parents=True)
    LOCK.write_text("report/lab5.pdf\n")
    write_json(HOLDER, {"host": socket.gethostname(), "process": 2**30})
    return tmp_path


def test_the_lock_of_a_killed_call_is_removed() -> None:
    os.close(hold_folder())
    assert not LOCK.exists()
    assert read_json(HOLDER) == {"host": socket.gethostname(), "process": os.getpid()}


def test_a_living_call_is_named_and_its_lock_left_alone() -> None:
    with another_call() as other:
        LOCK.parent.mkdir()
        LOCK.touch()
        with pytest.raises(
            CallError, match=rf"process {other.pid}\) .* nothing was changed\. Wait"
        ):
            hold_folder()
        assert LOCK.exists()
        os.kill(other.pid, signal.SIGKILL)
    os.close(hold_folder())
    assert not LOCK.exists()


def test_a_call_on_another_host_is_named_with_the_folder_to_remove_if_it_was_killed() -> None:
    write_json(HOLDER, before := {"host": "node1", "process": 7})
    with pytest.raises(CallError, match=r"host node1\) .*if it was killed, remove /.*/locks;"):
        hold_folder()
    assert LOCK.exists() and read_json(HOLDER) == before
    LOCK.unlink()
    os.close(hold_folder())


def test_where_there_are_no_locks_a_lock_is_cleared_only_if_its_process_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(call.fcntl, "flock", no_locks)
    write_json(HOLDER, {"host": socket.gethostname(), "process": os.getpid()})
    with pytest.raises(CallError, match="nothing was changed"):
        hold_folder()
    write_json(HOLDER, {"host": socket.gethostname(), "process": 2**30})
    os.close(hold_folder())
    assert not LOCK.exists()
