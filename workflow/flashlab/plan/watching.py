"""Ties jobs to their Snakemake call: a job ends when the call does, however that ends.

Otherwise a job of a killed call would continue, and could overwrite the next call's newer output.
On a cluster's node an executor plugin starts a call for each job, to which the job belongs.
"""

from __future__ import annotations

import os
import threading
import time

import psutil

POLL_SECONDS = 0.2

WORKFLOW_PID = "FLASHLAB_WORKFLOW_PID"
"""Environment variable with the process id of the Snakemake call that a job belongs to."""


class WorkflowGoneError(Exception):
    """The Snakemake call that a job belongs to has ended."""


def has_ended(process: psutil.Process) -> bool:
    """True if a process is gone, or a zombie that its parent may never reap."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def workflow_process() -> psutil.Process | None:
    """The Snakemake call that this job belongs to; None outside one.

    Raises:
        WorkflowGoneError: it has ended already.
    """
    if (pid := os.environ.get(WORKFLOW_PID)) is None:
        return None
    try:
        return psutil.Process(int(pid))
    except psutil.NoSuchProcess as error:
        raise WorkflowGoneError(f"the Snakemake call {pid} has ended") from error


def end_with_workflow() -> None:
    """End this process, with status 1, as soon as the Snakemake call that it belongs to has ended.

    It leaves no partial file: outputs are renamed into place.

    Raises:
        WorkflowGoneError: it has ended already.
    """
    if (workflow := workflow_process()) is None:
        return

    def watch() -> None:
        while not has_ended(workflow):
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
