"""Jobs on a cluster's node belong to the outermost Snakemake call of their allocation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flashlab.calls import watching
from flashlab.calls.watching import ALLOCATION, SLURM_JOB, WORKFLOW_PID, own_jobs


@pytest.fixture
def outer(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A running process that stands for the call around this one, or the one that submitted it."""
    monkeypatch.setenv(SLURM_JOB, "17")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setenv(WORKFLOW_PID, str(process.pid))
        monkeypatch.setenv(ALLOCATION, f"{watching.socket.gethostname()}/17")
        yield process
        process.kill()


def test_jobs_belong_to_the_outermost_call_of_their_allocation(
    outer: subprocess.Popen[bytes],
) -> None:
    assert not own_jobs(is_main=False)
    assert os.environ[WORKFLOW_PID] == str(outer.pid)


@pytest.mark.parametrize("where", ["another host/17", f"{os.uname().nodename}/16", ""])
def test_the_call_that_submitted_an_allocation_is_not_in_it(
    outer: subprocess.Popen[bytes], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOCATION, where)
    assert own_jobs(is_main=False)
    assert os.environ[WORKFLOW_PID] == str(os.getpid())


def test_a_main_call_and_one_whose_outer_call_has_ended_own_their_jobs(
    outer: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(WORKFLOW_PID, str(outer.pid))
        assert own_jobs(is_main=True)
    outer.kill()
    outer.wait()
    assert own_jobs(is_main=False)
