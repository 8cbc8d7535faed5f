"""Stages as forks of a server: as in a new process, with less to import, gone with their call."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from flashlab import children, stage
from flashlab.calls.watching import has_ended
from flashlab.stage import SERVER_ADDRESS, WORKFLOW_PID, address

PACKAGE = ("__init__.py", "children.py", "forks.py", "stage.py", "warm_stages.py", "calls")
COMMANDS = """\
import importlib, json, os, signal, sys, time

def get_ready(name):
    importlib.import_module({"tables": "colorsys", "overview": "tabnanny"}[name])

def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    start = "warm" if "colorsys" in sys.modules else "cold"
"""
"""In the place of the command line: each command needs a module that nothing else imports."""

TELLS = """\
    print(json.dumps([start, arguments, os.getcwd(), os.environ["WORD"]]))
    print("a warning", file=sys.stderr)
    return 3
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder() -> Iterator[str]:
    """A short folder for sockets, whose names have 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        yield name


@pytest.fixture
def start(workflow: subprocess.Popen[bytes], root: Path, tmp_path: Path, folder: str) -> Start:
    """Start a stage of a package whose command line is in `COMMANDS`, and ends as is given."""
    source, target = root / "workflow" / "flashlab", tmp_path / "workflow" / "flashlab"
    target.mkdir(parents=True)
    for name in PACKAGE:
        (shutil.copytree if source.joinpath(name).is_dir() else shutil.copy)(
            source / name, target / name
        )
    environment = {
        **os.environ,
        "PYTHONPATH": str(target.parent),
        "TMPDIR": folder,
        "WORD": "attention",
        WORKFLOW_PID: str(workflow.pid),
        SERVER_ADDRESS: address(
            f"{folder}/flashlab-{os.getuid()}-{workflow.pid}-warm_stages/warm"
        ).replace(str(root / "workflow"), str(target.parent)),
    }

    def job(body: str, *arguments: str) -> subprocess.Popen[str]:
        commands = target / "cli.py"
        if not commands.exists() or commands.read_text() != COMMANDS + body:
            commands.write_text(COMMANDS + body)
        return subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", "flashlab.stage", "tables", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return job


def test_a_fork_has_the_jobs_arguments_folder_environment_and_output(
    start: Start, tmp_path: Path
) -> None:
    with start(TELLS, "--plan", "a b") as job:
        out, err = job.communicate()
    assert json.loads(out) == ["warm", ["tables", "--plan", "a b"], str(tmp_path), "attention"]
    assert (err, job.returncode) == ("a warning\n", 3)


def test_the_server_imports_what_the_next_stage_needs_while_one_runs(start: Start) -> None:
    said = []
    for _ in range(2):
        with start("    print('tabnanny' in sys.modules)\n    return 0\n") as job:
            said.append(job.communicate()[0])
    assert said == ["False\n", "True\n"]


def test_an_edited_source_ends_the_server_and_the_next_one_has_the_edit(start: Start) -> None:
    said = []
    for word in ("a word", "a word", "another", "another"):
        with start(f"    print(start, {word!r})\n    return 0\n") as job:
            said.append(job.communicate()[0])
        assert job.returncode == 0
    assert said == ["warm a word\n"] * 2 + ["warm another\n"] * 2


def test_an_error_is_told_as_by_a_new_process(start: Start) -> None:
    with start("    raise OSError('no disk')\n") as job:
        assert job.communicate()[1].endswith("OSError: no disk\n")
    assert job.returncode == 1


def test_a_job_ends_by_the_signal_that_ends_its_fork(start: Start) -> None:
    with start("    os.kill(os.getpid(), signal.SIGSEGV)\n") as job:
        job.communicate()
    assert job.returncode == -signal.SIGSEGV


CLEANS = """\
    try:
        print("at work", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print("cleaned up")
        return 130
"""


def test_an_interrupt_from_the_keyboard_is_the_forks_too(start: Start) -> None:
    with start(CLEANS) as job:
        assert job.stdout and job.stdout.readline() == "at work\n"
        job.send_signal(signal.SIGINT)
        assert job.communicate() == ("cleaned up\n", "")
    assert job.returncode == 130


def test_a_fork_that_ends_as_the_interrupt_comes_is_waited_for_all_the_same() -> None:
    for said in (b"", b"3\n"):
        connection, keeper = socket.socketpair()
        with keeper:
            keeper.sendall(said)
        channel, fork_channel = socket.socketpair()
        fork_channel.close()
        fork = children.Fork(connection, channel)
        fork.interrupt()
        assert fork.wait() == (3 if said else -signal.SIGKILL)
        fork.kill()


def test_no_process_outlives_its_job_or_its_call(
    start: Start, workflow: subprocess.Popen[bytes], folder: str
) -> None:
    with start("    print(os.getpid(), flush=True)\n    time.sleep(600)\n") as job:
        assert job.stdout
        fork = psutil.Process(int(job.stdout.readline()))
        server = psutil.Process(fork.ppid()).parents()[0]
        job.kill()
        wait_until(lambda: has_ended(fork), "the end of the fork")
    assert not has_ended(server)
    workflow.kill()
    wait_until(lambda: has_ended(server) and not os.listdir(folder), "the server's end")


def test_one_python_is_the_same_address_by_each_of_its_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, folder = address("there"), Path(sys.executable).parent
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    assert address("there") == ours
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert address("there") != ours


@pytest.mark.parametrize("given", [None, "[]"], ids=["no call", "another address"])
def test_elsewhere_a_stage_runs_cold(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    monkeypatch.delenv(SERVER_ADDRESS, raising=False)
    if given:
        monkeypatch.setenv(SERVER_ADDRESS, given)
    monkeypatch.setenv(WORKFLOW_PID, str(os.getpid()))
    assert stage.run_in_fork(["tables"]) is None
