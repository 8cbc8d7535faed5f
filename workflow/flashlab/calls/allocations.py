"""The jobs of one allocation on a cluster's node: the call that owns them, and its warm parent.

An executor plugin starts a Snakemake call for a group of jobs on a node, and that one starts
another for each job of the group. All of them belong to the outermost: they end with it, and share
its warm parent.
"""

from __future__ import annotations

import os
import socket

import psutil

from flashlab.calls.watching import has_ended
from flashlab.stage import SERVER_ADDRESS, WORKFLOW_PID

SLURM_JOB = "SLURM_JOB_ID"
ALLOCATION = "FLASHLAB_ALLOCATION"
"""Environment variable that says where the process of `WORKFLOW_PID` runs: a host and a Slurm job.
A node's job inherits both variables from the host that submitted it, where they mean another
process."""


def _is_running(pid: str) -> bool:
    try:
        return not has_ended(psutil.Process(int(pid)))
    except (ValueError, psutil.NoSuchProcess):
        return False


def own_jobs(is_main: bool) -> bool:
    """Make this Snakemake call the owner of its jobs; True if it leads an allocation.

    Inside another call's allocation its jobs belong to that one, and nothing is changed.
    """
    allocation = f"{socket.gethostname()}/{os.environ.get(SLURM_JOB, '')}"
    is_inner = os.environ.get(ALLOCATION) == allocation and not is_main
    if is_inner and _is_running(os.environ.get(WORKFLOW_PID, "")):
        return False
    os.environ.update({WORKFLOW_PID: str(os.getpid()), ALLOCATION: allocation})
    os.environ.pop(SERVER_ADDRESS, None)  # another call's server is outside of this allocation
    return SLURM_JOB in os.environ
