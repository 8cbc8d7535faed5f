"""Starting the measuring process: forked from the warm parent where there is one, else cold.

Both ways give the same record but for ``started_warm``. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from flashlab import machine, nsight
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.calls.forks import connect_or_start, read_message, send_message
from flashlab.calls.watching import workflow_process
from flashlab.sources import sources_of

PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "numpy", "scipy")
JOB_VARIABLES = ("_", "PWD", "OLDPWD", "SHLVL", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Environment variables that differ from job to job and decide nothing: a measuring process is
confined to its device anyway."""
CLUSTER_VARIABLES = ("SLURM", "SRUN_", "SBATCH_", "PMI_", "PMIX_")
"""Begin the names of those by which a cluster describes a job."""


class Started(Protocol):
    """A measuring process that is under way."""

    def wait(self, seconds: float) -> int | None:
        """Its exit status (negative: the signal), or None while it runs on after `seconds`."""

    def kill(self) -> None:
        """End it, if it still runs, and wait until it is gone."""


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
    """Hash of what a warm parent has in memory: sources, environment, interpreter, versions."""
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
                *("flashlab.measuring.child", "flashlab.measuring.warm"),
                *(benchmark.measure for benchmark in BENCHMARKS.values()),
            )
            for path in sources_of(module)
        },
        "environment": environment,
        "python": sys.executable,
        "versions": {name: machine.package_version(name) for name in PACKAGES},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class _Fresh:
    """A fresh interpreter, which a subclass starts."""

    _child: subprocess.Popen[bytes]

    def wait(self, seconds: float) -> int | None:
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


class _Cold(_Fresh):
    def __init__(self, arguments: list[str], variables: Mapping[str, str], errors: Path) -> None:
        read_end, self._lifeline = os.pipe()  # closed by the system however this process ends
        with errors.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "flashlab.measuring.child", *arguments, str(read_end)],
                env={**job_environment(), **variables},
                stdout=output,
                stderr=output,
                pass_fds=(read_end,),
            )
        os.close(read_end)

    def kill(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        os.close(self._lifeline)


class _Counted(_Fresh):
    """A process under Nsight Compute, which does not hand down a pipe: it is ended as a group."""

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        counted: Sequence[str],
        variables: Mapping[str, str],
        errors: Path,
    ) -> None:
        program = [sys.executable, "-m", "flashlab.measuring.counters", *arguments]
        with errors.open("ab") as output:
            self._child = subprocess.Popen(
                nsight.command(str(log), program, counted),
                env={**job_environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


class _Warm:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def wait(self, seconds: float) -> int | None:
        self._connection.settimeout(seconds)
        try:
            message = read_message(self._connection)
        except TimeoutError:
            return None
        # Without a last word the keeper itself was killed, and the measuring process with it.
        return int(message["returncode"]) if message else -signal.SIGKILL

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)  # the keeper kills the measuring process
            self._connection.settimeout(None)
            while self._connection.recv(64):  # and is gone when it has buried it
                pass
        self._connection.close()


def _connect_or_start(workflow: psutil.Process) -> socket.socket | None:
    """A connection to the workflow's warm parent, started if there is none yet."""
    return connect_or_start(workflow, "flashlab.measuring.warm", job_environment())


def start_warm_parent() -> None:
    """Start the warm parent of the Snakemake call that this process belongs to, if it has none."""
    workflow = workflow_process()
    if workflow is not None and sys.platform == "linux":
        connection = _connect_or_start(workflow)
        if connection is not None:
            connection.close()


def start_own_parent() -> None:
    """Begin to start a warm parent of this process itself; it imports torch while this one goes on.

    Whoever measures next waits for it.
    """

    def start_it() -> None:
        # Without one, what is measured starts cold, and says why.
        with contextlib.suppress(OSError):
            connection = _connect_or_start(psutil.Process())
            if connection is not None:
                connection.close()

    if sys.platform == "linux":
        threading.Thread(target=start_it, daemon=True).start()


def _start_warm(
    workflow: psutil.Process,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Started | None:
    connection = _connect_or_start(workflow)
    if connection is None:
        return None
    request = {
        "fingerprint": fingerprint(),
        "order": order,
        "environment": {**process_variables(), **variables},
        "answer": str(answer),
        "errors": str(errors),
    }
    send_message(connection, request)
    reply = read_message(connection)
    if reply is None or not reply.get("accepted"):
        connection.close()
        return None
    return _Warm(connection)


def counters_log(answer: Path) -> Path:
    """Where Nsight Compute writes its table for a process that answers to `answer`."""
    return answer.with_suffix(".csv")


def start_counting(
    _workflow: psutil.Process | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Started:
    """Start running an order's passes under Nsight Compute, which writes to `counters_log`.

    The arguments are those of `start`; there is no warm start, as a program is profiled whole.

    Raises:
        NsightError: it is not on PATH.
    """
    arguments = [json.dumps(order), str(answer)]
    try:
        return _Counted(arguments, counters_log(answer), order["counted"], variables, errors)
    except FileNotFoundError as error:
        raise nsight.NsightError(f"Nsight Compute ({nsight.PROGRAM}) is not on PATH") from error


def start(
    workflow: psutil.Process | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Started:
    """Start measuring an order in a process of its own.

    Args:
        workflow: the Snakemake call whose warm parent may be used; None starts cold.
        order: what to measure, and the modules that are worth importing ahead of it.
        variables: environment variables that confine the process to its device.
        answer: file that the process writes its answer to.
        errors: file that its output is appended to.
    """
    # macOS's own libraries do not survive a fork without an exec.
    if workflow is not None and sys.platform == "linux":
        try:
            warm = _start_warm(workflow, order, variables, answer, errors)
        except OSError as error:
            print(f"no warm start: {error}", file=sys.stderr)
            warm = None
        if warm is not None:
            return warm
    return _Cold([json.dumps(order), str(answer)], variables, errors)
