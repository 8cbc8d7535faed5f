"""Jobs that end when the Snakemake call does that they belong to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from flashlab.calls.watching import has_ended
from flashlab.stage import WORKFLOW_PID

JOB = (
    "import sys, time; from flashlab.calls.watching import end_with_workflow\n"
    "end_with_workflow(); print('at work', flush=True); time.sleep(float(sys.argv[1]))"
)


def job(root: Path, seconds: float, **environment: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", JOB, str(seconds)],
        env={**os.environ, "PYTHONPATH": str(root / "workflow"), **environment},
        stdout=subprocess.PIPE,
    )
    assert process.stdout and process.stdout.readline() == b"at work\n"
    return process


def test_a_job_ends_when_its_call_is_killed(workflow: subprocess.Popen[bytes], root: Path) -> None:
    with job(root, 600, **{WORKFLOW_PID: str(workflow.pid)}) as process:
        assert process.poll() is None
        workflow.kill()  # and not reaped, as a shell leaves it
        assert process.wait(timeout=60) == 1


def test_a_job_that_is_done_does_not_wait_for_its_call(
    workflow: subprocess.Popen[bytes], root: Path
) -> None:
    with job(root, 0, **{WORKFLOW_PID: str(workflow.pid)}) as process:
        assert process.wait(timeout=60) == 0
    assert not has_ended(psutil.Process(workflow.pid))
