"""Starting the measuring process: forked from the warm parent where there is one, else cold.

Both ways give the same record but for ``started_warm``. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from flashlab import children, machine, nsight
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.calls.watching import workflow_process
from flashlab.children import Child, Program
from flashlab.sources import sources_of

ANSWER, SERVER = "flashlab.measuring.child:answer", "flashlab.measuring.warm"
PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "numpy", "scipy")
JOB_VARIABLES = ("_", "PWD", "OLDPWD", "SHLVL", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Environment variables that differ from job to job and decide nothing: a measuring process is
confined to its device anyway."""
CLUSTER_VARIABLES = ("SLURM", "SRUN_", "SBATCH_", "PMI_", "PMIX_")
"""Begin the names of those by which a cluster describes a job."""


def process_variables() -> dict[str, str]:
    """Every CPU, whatever Snakemake counts for the job, and threads that sleep while they wait.

    Threads that spin instead cost a busy machine up to a hundred times the time of a short call.
    Inductor compiles in the process itself: a pool of workers costs more than a run's one or two
    kernels, and could not be forked. FlashAttention-4 keeps what it has compiled for later
    processes, as Triton and Inductor do anyway. PyTorch's profiler (Kineto) is silent.
    """
    return {
        "OMP_NUM_THREADS": str(machine.cpu_count()),
        "OMP_WAIT_POLICY": "passive",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1",
        "KINETO_LOG_LEVEL": "6",
    }


def job_environment() -> dict[str, str]:
    """This process's environment, with the package importable and the threads set."""
    package = str(Path(__file__).parents[2])
    search = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    search_path = os.pathsep.join(filter(None, dict.fromkeys(search)))
    return {**os.environ, "PYTHONPATH": search_path, **process_variables()}


def fingerprint() -> str:
    """Hash of a warm parent's state: sources, environment, interpreter, versions."""
    environment = {
        name: value
        for name, value in job_environment().items()
        if name not in JOB_VARIABLES and not name.startswith(CLUSTER_VARIABLES)
    }
    threads = [name for name in environment if name.endswith("_NUM_THREADS")]
    for name in threads:
        del environment[name]  # Snakemake sets them by the job; ours is always the same
    content = {
        "sources": {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for module in (
                *("flashlab.measuring.child", SERVER),
                *(benchmark.measure for benchmark in BENCHMARKS.values()),
            )
            for path in sources_of(module)
        },
        "environment": environment,
        "python": sys.executable,
        "versions": {name: machine.package_version(name) for name in PACKAGES},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _warm_parent(caller: int) -> children.Server:
    return children.Server(SERVER, caller, job_environment())


def start_warm_parent() -> None:
    """Start the warm parent of the Snakemake call that this process belongs to, if it has none."""
    workflow = workflow_process()
    if workflow is not None and sys.platform == "linux":
        connection = _warm_parent(workflow.pid).connect()
        if connection is not None:
            connection.close()


def start_own_parent() -> None:
    """Begin to start a warm parent of this process itself; it imports torch while this one goes on.

    Whoever measures next waits for it.
    """

    def start_it() -> None:
        connection = _warm_parent(os.getpid()).connect()
        if connection is not None:
            connection.close()

    if sys.platform == "linux":
        threading.Thread(target=start_it, daemon=True).start()


def counters_log(answer: Path) -> Path:
    """The path of Nsight Compute's table for the process that answers to `answer`."""
    return answer.with_suffix(".csv")


def start_counting(
    _workflow: psutil.Process | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Child:
    """Start running an order's passes under Nsight Compute, which writes to `counters_log`.

    The arguments are those of `start`; there is no warm start, as a program is profiled whole.

    Raises:
        NsightError: it is not on PATH.
    """
    program = [sys.executable, "-m", "flashlab.measuring.counters", json.dumps(order), str(answer)]
    command = nsight.command(str(counters_log(answer)), program, order["counted"])
    try:
        with errors.open("ab") as output:
            # Nsight Compute hands down no channel: the process is ended with its session.
            return Program(command, {**job_environment(), **variables}, output.fileno())
    except FileNotFoundError as error:
        raise nsight.NsightError(f"Nsight Compute ({nsight.PROGRAM}) is not on PATH") from error


def start(
    workflow: psutil.Process | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Child:
    """Start measuring an order in a process of its own.

    Args:
        workflow: the Snakemake call whose warm parent may be used; None starts cold.
        order: what to measure, and the modules that are worth importing ahead of it.
        variables: environment variables that confine the process to its device.
        answer: file that the process writes its answer to.
        errors: file that its output is appended to.
    """
    environment = {**job_environment(), **variables}
    with errors.open("ab") as output, open(os.devnull) as nothing:
        # macOS's own libraries do not survive a fork without an exec.
        if workflow is not None and sys.platform == "linux":
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            warm = _warm_parent(workflow.pid).call(
                ANSWER, [order, str(answer), True], environment, streams, fingerprint()
            )
            if warm is not None:
                return warm
        arguments = [order, str(answer), False]
        return children.interpreter(ANSWER, arguments, environment, output.fileno())
