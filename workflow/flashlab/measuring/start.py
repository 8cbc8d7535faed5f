"""Starting the measuring process: forked from the warm parent where there is one, else cold.

Both ways give the same record but for ``started_warm``. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
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
from flashlab.stage import address

MEASURING, SERVER = "flashlab.measuring.child", "flashlab.measuring.warm"
ANSWER = f"{MEASURING}:answer"
LOG = "results/bench/server.log"
"""The output of a warm parent that outlives its callers, in the folder that it began in."""
PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "numpy", "scipy")
JOB_VARIABLES = (
    *("_", "PWD", "OLDPWD", "SHLVL", "FLASHLAB_CALLED_IN"),
    *("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
)
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
                *(MEASURING, SERVER),
                *(benchmark.measure for benchmark in BENCHMARKS.values()),
            )
            for path in sources_of(module)
        },
        "environment": environment,
        "python": sys.executable,
        "versions": {name: machine.package_version(name) for name in PACKAGES},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parent_of(workflow: psutil.Process | None) -> children.Server | None:
    """The warm parent that ends with a Snakemake call; None where measuring starts cold."""
    if workflow is None or sys.platform != "linux":
        return None  # macOS's own libraries do not survive a fork without an exec
    return children.Server(SERVER, workflow.pid, job_environment())


def _circumstances() -> str:
    """Digest of what a process has of the one that forks it, and that no request sets."""
    limits = [name for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]
    try:
        groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        groups = ""
    content = [
        *(address(""), os.getcwd(), groups, os.getpriority(os.PRIO_PROCESS, 0)),
        sorted(os.sched_getaffinity(0)),
        [resource.getrlimit(getattr(resource, name)) for name in limits],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def lasting_parent() -> children.Server | None:
    """The warm parent that outlives its callers; None where measuring starts cold.

    There is one for each user, checkout and Python, and for calls in other circumstances another.
    """
    if sys.platform != "linux":
        return None
    return children.Server(SERVER, _circumstances(), job_environment(), log=LOG)


def _start(parent: children.Server | None) -> None:
    """Start a warm parent that does not run yet."""
    if parent is not None and (connection := parent.connect()):
        connection.close()


def start_warm_parent() -> None:
    """Start the warm parent of the Snakemake call that this process belongs to, if it has none."""
    _start(parent_of(workflow_process()))


def start_lasting_parent() -> None:
    """Begin to start the lasting parent, if none runs; it imports torch while this process goes on.

    Whoever measures next waits for it.
    """
    threading.Thread(target=_start, args=(lasting_parent(),), daemon=True).start()


def counters_log(answer: Path) -> Path:
    """The path of Nsight Compute's table for the process that answers to `answer`."""
    return answer.with_suffix(".csv")


def start_counting(
    _parent: children.Server | None,
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
    parent: children.Server | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Child:
    """Start measuring an order in a process of its own.

    Args:
        parent: the warm parent to fork it; None starts cold.
        order: what to measure, and the modules that are worth importing ahead of it.
        variables: environment variables that confine the process to its device.
        answer: file that the process writes its answer to.
        errors: file that its output is appended to.
    """
    environment = {**job_environment(), **variables}
    with errors.open("ab") as output, open(os.devnull) as nothing:
        if parent is not None:
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            warm = parent.call(
                ANSWER, [order, str(answer), True], environment, streams, fingerprint()
            )
            if warm is not None:
                return warm
        arguments = [order, str(answer), False]
        return children.interpreter(ANSWER, arguments, environment, output.fileno())
