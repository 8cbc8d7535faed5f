"""A run in a process of its own: however it ends, and whoever goes first, nothing is left of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import PATIENCE, wait_until

from flashlab.forks import Child, Server, has_ended
from flashlab.plan.watching import WORKFLOW_PID

FUNCTIONS = """
import os, signal, subprocess, sys, time
from flashlab.forks import receive, send

def end(how, channel):
    if not (fork := os.fork()):  # as a kernel may, and then go on
        try:
            send(channel, "of a fork")
        finally:
            os._exit(0)
    os.waitpid(fork, 0)
    send(channel, {"loaded": "wave" in sys.modules, "word": os.environ.get("WORD")})
    print("last words", flush=True)
    asked = receive(channel)
    sys.exit(how) if isinstance(how, int) and how >= 0 else os.kill(os.getpid(), -how)

def leave(path, channel):
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(path + ".new", "w") as file:
        print(os.getpid(), left.pid, file=file)
    os.rename(path + ".new", path)

def hang(path, channel):
    leave(path, channel)
    time.sleep(600)
"""
CALLER = "import sys, test_forks; test_forks.call_and_wait(sys.argv[1], *map(int, sys.argv[2:]))"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[Path]:
    """Functions to run, and a temporary folder with a longer path than a socket may have."""
    (tmp_path / "run_functions.py").write_text(FUNCTIONS)
    search = (tmp_path, root / "workflow", root / "tests")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, search)))
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as temporary:
        long = Path(temporary, "x" * 120)
        long.mkdir()
        monkeypatch.setenv("TMPDIR", str(long))
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield tmp_path


def begin(function: str, argument: object, serves: int | None = None, **more: str) -> Child:
    """Start one of `FUNCTIONS`, forked by the server of a process if it has one."""
    server = Server(serves, os.environ, ()) if serves else None
    log = Path(tempfile.gettempdir(), "said")
    given = {**os.environ, **more}, log, server, ("wave", "nobody_has_it")
    return Child(f"run_functions:{function}", [argument], *given)


def call_and_wait(path: str, *serves: int) -> None:
    """What a caller does that may be killed."""
    begin("hang", path, *serves).wait()


@pytest.fixture(params=["cold", "warm"])
def serves(request: pytest.FixtureRequest, workflow: subprocess.Popen[bytes]) -> int | None:
    return workflow.pid if request.param == "warm" else None


@pytest.mark.parametrize("status", [0, 3, -signal.SIGKILL])
def test_a_run_answers_and_its_end_is_told(serves: int | None, status: int) -> None:
    child = begin("end", status, serves, WORD="a word")
    assert child.answer(PATIENCE) == {"loaded": serves is not None, "word": "a word"}
    assert child.wait(0.01) is None
    with pytest.raises(TimeoutError):
        child.answer(0.01)
    child.say({})
    assert child.wait(PATIENCE) == status
    assert child.answer(1) is None
    child.kill()
    assert (child.is_warm, child.left) == (serves is not None, [])
    assert Path(tempfile.gettempdir(), "said").read_text().startswith("last words\n")


def written(path: Path) -> list[psutil.Process]:
    """The run and what it has started, or one program, once they have told their numbers."""
    wait_until(lambda: path.exists() and path.read_text().strip(), "the start of a run")
    return [psutil.Process(int(number)) for number in path.read_text().split()]


def gone(*processes: psutil.Process) -> None:
    wait_until(lambda: all(map(has_ended, processes)), "their end")


def test_a_killed_run_takes_along_what_it_has_started(serves: int | None, folder: Path) -> None:
    child = begin("hang", str(folder / "pids"), serves)
    processes = written(folder / "pids")
    child.kill()
    assert all(map(has_ended, processes))


def test_what_a_run_leaves_behind_is_ended_and_named(serves: int | None, folder: Path) -> None:
    child = begin("leave", str(folder / "pids"), serves)
    assert (child.wait(PATIENCE), {*child.left}) == (0, {"sleep"})
    assert not any(psutil.pid_exists(int(n)) for n in (folder / "pids").read_text().split())
    child.kill()


def test_a_run_dies_with_its_killed_caller(serves: int | None, folder: Path) -> None:
    command = [sys.executable, "-c", CALLER, str(folder / "pids"), *([str(serves)] * bool(serves))]
    with subprocess.Popen(command) as caller:
        processes = written(folder / "pids")
        caller.kill()
    gone(*processes)


def test_a_run_dies_with_its_killed_keeper(serves: int | None, folder: Path) -> None:
    child = begin("hang", str(folder / "pids"), serves)
    run, started = written(folder / "pids")
    os.kill(run.ppid(), signal.SIGKILL)
    assert child.wait(PATIENCE) == -signal.SIGKILL
    gone(run)
    child.kill()
    started.kill()


def test_a_server_is_this_users_alone_and_ends_with_its_call(workflow: Any, capsys: Any) -> None:
    """Where its folder is not, a run starts in a new interpreter."""
    server = Server(workflow.pid, os.environ, ())
    folder = server.path.parent
    folder.mkdir(0o755)
    child = begin("end", 0, workflow.pid)
    assert "is not this user's alone" in capsys.readouterr().err and not child.is_warm
    child.kill()
    folder.rmdir()
    connection = server.connect()
    assert connection and stat.S_IMODE(folder.stat().st_mode) == 0o700
    connection.close()
    workflow.kill()  # and not reaped, as a shell leaves it
    wait_until(lambda: not folder.exists(), "the end of the server")


def test_what_holds_gpus_ends_with_servers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of nvidia-smi, whose server is killed."""
    program, pid = folder / "nvidia-smi", folder / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nwhile echo power; do sleep 0.05; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    holder = "from flashlab.forks import hold_gpus; held = hold_gpus(); input()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE) as server:
        holding = written(pid)
        assert not any(map(has_ended, holding))
        server.kill()
        gone(*holding)


JOB = (
    "import time; from flashlab.plan.watching import end_with_workflow\n"
    "end_with_workflow(); print('at work', flush=True); time.sleep(600)"
)


def test_a_job_ends_with_its_call(workflow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKFLOW_PID, str(workflow.pid))
    with subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"at work\n"
        workflow.kill()  # and not reaped, as a shell leaves it
        assert process.wait(timeout=PATIENCE) == 1
