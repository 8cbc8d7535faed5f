"""Stages as forks of a server: as in a new process, with less to import, gone with their call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from flashlab.calls import stages
from flashlab.calls.stages import PLACE, place
from flashlab.calls.watching import WORKFLOW_PID, has_ended

CLIENT = (
    "import json, sys; from flashlab.calls.stages import run_in_fork\n"
    "sys.exit(run_in_fork(['tables', '--help'], ['colorsys']) if len(sys.argv) < 2\n"
    "         else run_in_fork(json.loads(sys.argv[1]), ['colorsys']))"
)
TELLS = """\
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ["WORD"], "colorsys" in sys.modules]))
print("a warning", file=sys.stderr)
sys.exit(3)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder() -> Iterator[str]:
    """Where servers listen: the name of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        yield name


@pytest.fixture
def start(workflow: subprocess.Popen[bytes], root: Path, tmp_path: Path, folder: str) -> Start:
    """Start a job whose fork runs a package `flashlab` in `tmp_path`, once a server is there."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root / "workflow"),
        "TMPDIR": folder,
        "WORD": "attention",
        WORKFLOW_PID: str(workflow.pid),
        PLACE: place(),
    }

    def job(*arguments: str, at: Path = tmp_path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", CLIENT, *arguments],
            cwd=at,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with job(at=root) as first:
        assert "usage: python -m flashlab tables" in first.communicate()[0]
    (tmp_path / "flashlab").mkdir()
    (tmp_path / "flashlab" / "__init__.py").touch()
    return lambda source, *arguments: (
        tmp_path.joinpath("flashlab", "__main__.py").write_text(source),
        job(json.dumps(arguments)),
    )[1]


def test_a_fork_has_the_jobs_arguments_folder_environment_and_output(
    start: Start, tmp_path: Path
) -> None:
    with start(TELLS, "--plan", "a b") as job:
        out, err = job.communicate()
    assert json.loads(out) == [["--plan", "a b"], str(tmp_path), "attention", True]
    assert (err, job.returncode) == ("a warning\n", 3)


def test_a_fork_runs_the_sources_as_they_are_now(start: Start) -> None:
    for word in ("one", "another"):  # Python takes an edit of one second and size for none
        with start(f"print({word!r})") as job:
            assert job.communicate() == (f"{word}\n", "")
        assert job.returncode == 0


def test_an_error_is_told_as_by_a_new_process(start: Start) -> None:
    with start("raise OSError('no disk')") as job:
        assert job.communicate()[1].endswith("OSError: no disk\n")
    assert job.returncode == 1


def test_a_job_ends_by_the_signal_that_ends_its_fork(start: Start) -> None:
    with start("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)") as job:
        job.communicate()
    assert job.returncode == -signal.SIGSEGV


def test_no_process_outlives_its_job_or_its_call(
    start: Start, workflow: subprocess.Popen[bytes], folder: str
) -> None:
    with start("import os, time; print(os.getpid(), flush=True); time.sleep(600)") as job:
        assert job.stdout
        fork = psutil.Process(int(job.stdout.readline()))
        server = psutil.Process(fork.ppid()).parents()[0]
        job.kill()
        wait_until(lambda: has_ended(fork), "the end of the fork")
    assert not has_ended(server)
    workflow.kill()
    wait_until(lambda: has_ended(server) and not os.listdir(folder), "the server's end")


@pytest.mark.parametrize("given", [None, "[]"], ids=["no call", "another place"])
def test_elsewhere_a_stage_runs_cold(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    monkeypatch.delenv(PLACE, raising=False)
    if given:
        monkeypatch.setenv(PLACE, given)
    monkeypatch.setenv(WORKFLOW_PID, str(os.getpid()))
    assert stages.run_in_fork(["tables"], []) is None
