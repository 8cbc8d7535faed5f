"""One run from order to record: claims the device, starts the measuring process, waits for it.

Whatever the kernel makes of that process (out of memory, wrong, crashed, hung) becomes a record
with its status, so that a sweep goes on past it. What the machine does to it (no room on a disk, a
signal from outside, a GPU that is lost) is an error without a record. Nothing here imports torch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from flashlab import machine, nsight
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.calls.watching import WorkflowGoneError, has_ended, workflow_process
from flashlab.children import POLL_SECONDS, Child, Server, signal_name
from flashlab.files import write_json
from flashlab.measuring.devices import claimed
from flashlab.measuring.start import counters_log, parent_of, start, start_counting
from flashlab.measuring.supervised import Sections, refused
from flashlab.records import (
    COUNTERS,
    Record,
    load_schema,
    read_metrics,
    time_out_message,
    write_record,
)
from flashlab.runs import Run

CEILINGS_TIMEOUT_SECONDS = 300.0

OPERATORS = "flashlab.measuring.operators"
"""The module that counts on a CPU what Nsight Compute counts on a GPU."""

Begin = Callable[[Server | None, Mapping[str, Any], Mapping[str, str], Path, Path], Child]
"""A function that starts a measuring process, as `flashlab.measuring.start.start` does."""


OWN_SIGNALS = (
    *(signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS),
    *(signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS),
)
"""The signals that end a process for a fault of its own."""


class MeasuringError(Exception):
    """A measurement of which there is no record, so that the next call makes it again."""


def count_oom_kills() -> int:
    """The number of processes that Linux has killed for memory since boot; 0 if it is unknown."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def ended_without_answer(returncode: int, oom_kills: int, errors: Path) -> dict[str, Any]:
    """Status and message of a measuring process that died before it could answer.

    Raises:
        MeasuringError: it ended for a reason other than the kernel.
    """
    if returncode < 0:
        name = signal_name(returncode)
        if name == "SIGKILL" and oom_kills:
            return {"status": "oom", "message": "killed by the system for lack of memory (SIGKILL)"}
        if -returncode in OWN_SIGNALS:
            return {"status": "error", "message": f"crashed: ended by signal {name}"}
        raise MeasuringError(
            f"the measuring process was ended from outside, by signal {name}; nothing is recorded, "
            "and the next call measures it"
        )
    last = errors.read_text(errors="replace").strip().splitlines()[-1:]
    text = last[0] if last else "no message"
    if returncode == os.EX_OSERR:
        raise MeasuringError(
            f"the machine failed the measuring process: {text}; nothing is recorded. Temporary "
            f"files are in {tempfile.gettempdir()} (TMPDIR says where): see that there is room, "
            "and that the device works, then call again"
        )
    return {"status": "error", "message": f"ended with status {returncode}: {text}"}


def _wait(started: Child, workflow: psutil.Process | None, timeout_s: float) -> int | None:
    """Exit status of a measuring process, None where it took too long; it is gone in any case."""
    deadline = time.monotonic() + timeout_s
    try:
        load_schema()  # beside the process's gate, long before anything is timed
        while (returncode := started.wait(POLL_SECONDS)) is None:
            if workflow is not None and has_ended(workflow):
                raise WorkflowGoneError("the Snakemake call that ordered this run has ended")
            if time.monotonic() >= deadline:
                return None
        return returncode
    finally:
        started.kill()


def _run_child(
    begin: Begin, order: Mapping[str, Any], variables: Mapping[str, str], timeout_s: float
) -> dict[str, Any]:
    """Run the measuring process to its end, its time-out, or the workflow's death."""
    workflow = workflow_process()
    before = count_oom_kills()
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        answer, errors = Path(folder, "answer.json"), Path(folder, "errors")
        errors.touch()
        listening = Sections(Path(folder, "sections"))
        order = {**order, "sections": str(Path(folder, "sections"))}
        try:
            started = begin(parent_of(workflow), order, variables, answer, errors)
            returncode = _wait(started, workflow, timeout_s)
        finally:
            sections = listening.close()
            sys.stderr.write(errors.read_text(errors="replace"))
        if returncode is None:
            return {"status": "error", "message": time_out_message(timeout_s)}
        if answer.exists():
            reply: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
            if reply.get("status") == "ok":
                reply |= refused(sections)
        else:
            reply = ended_without_answer(returncode, count_oom_kills() - before, errors)
        if (log := counters_log(answer)).exists():
            reply["counters_log"] = log.read_text(encoding="utf-8", errors="replace")
        return reply


def _count_kernels(
    order: Mapping[str, Any], variables: Mapping[str, str], timeout_s: float
) -> dict[str, Any]:
    """Nsight Compute's counters of a run's passes; a status and a message where there are none."""
    try:
        reply = _run_child(start_counting, order, variables, timeout_s)
        log = reply.get("counters_log", "")
        nsight.check_permission(log)
        if reply["status"] != "ok":
            return reply
        passes = nsight.split_passes(nsight.read_kernels(log, order["counted"]), reply["passes"])
    except nsight.NsightError as error:
        return {"status": "error", "message": str(error)}
    counted = {name: nsight.of_pass(kernels) for name, kernels in passes.items()}
    return {**reply, "counted": counted, "details": nsight.details(passes)}


def _count(
    benchmark: Benchmark,
    device: str,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    timeout_s: float,
) -> dict[str, Any]:
    """The counters of a run's passes as metrics; a status and a message where there are none."""
    if device == "cpu":
        reply = _run_child(start, {**order, "part": OPERATORS}, variables, timeout_s)
    else:
        counted = sorted({metric.quantity.name for metric in benchmark.all_counters(device)})
        reply = _count_kernels({**order, "counted": counted}, variables, timeout_s)
    if reply["status"] != "ok":
        return reply
    metrics = {
        metric.name: {"value": reply["counted"][name][metric.quantity.name]}
        for name, declared in benchmark.counters_on(device).items()
        for metric in declared
    }
    return {**reply, "metrics": metrics}


def _gpu_name(uuid: str) -> str:
    """The name of a GPU; MeasuringError if the driver does not list it."""
    names = {gpu.uuid: gpu.name for gpu in machine.gpus()}
    if uuid not in names:
        raise MeasuringError(
            f"the driver does not list the GPU {uuid} any more; nothing is recorded. Call again "
            "once nvidia-smi shows it"
        )
    return names[uuid]


def _surroundings(device: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """The environment of a run on the CPU, or on the GPU in CUDA_VISIBLE_DEVICES."""
    if device == "cpu":
        return machine.surroundings(machine.device_name("cpu"), None)
    uuid = variables["CUDA_VISIBLE_DEVICES"]
    return machine.surroundings(_gpu_name(uuid), uuid)


def measure_run(
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    sources: Mapping[str, Any],
    output: Path,
    card: int | None = None,
) -> Record:
    """Measure `run` in a process of its own and write its record to `output`.

    Under the protocol ``counters`` its passes are counted: on a GPU by Nsight Compute, on a CPU by
    PyTorch's profiler. The device, of several GPUs that of the number `card` counted round, is
    claimed for as long as the process runs; waiting for it is not part of the time limit. Returns
    the record.

    Raises:
        WorkflowGoneError: the Snakemake call that ordered the run has ended; nothing is written.
        MeasuringError: the machine kept it from being measured; nothing is written.
        OSError: the record cannot be written; nothing half written is left.
    """
    form = implementation.form(benchmark, protocol["name"])
    order = {
        "run": {**run.to_row(), "inputs": form},
        "protocol": dict(protocol),
        "measure": benchmark.measure,
        "kernel": str(implementation.path),
        "preloads": implementation.preloads,
    }
    with claimed(run.device, card) as confined:
        variables = {**benchmark.variables.get(run.device, {}), **confined}
        # Read before the run, since a GPU that crashed may no longer tell its name.
        known = _surroundings(run.device, variables)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        if protocol["name"] == COUNTERS:
            reply = _count(benchmark, run.device, order, variables, protocol["timeout_s"])
        else:
            reply = _run_child(start, order, variables, protocol["timeout_s"])
        if run.device == "cuda" and reply["status"] == "error":
            _gpu_name(variables["CUDA_VISIBLE_DEVICES"])  # one that is lost has made the error
        ended = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(
        benchmark=benchmark.name,
        run=run,
        status=reply["status"],
        message=reply["message"],
        protocol=protocol,
        metrics=read_metrics(reply.get("metrics", {})),
        gate=reply.get("gate"),
        warnings=tuple(reply.get("warnings", ())),
        environment=reply.get("environment") or known,
        sources=sources,
        started=started,
        ended=ended,
        details=reply.get("details"),
        curves=reply.get("curves", {}),
    )
    write_record(output, record)
    return record


def measure_ceilings(device: str, output: Path) -> None:
    """Measure the device's ceilings in a process of its own and write them to `output`.

    Raises:
        WorkflowGoneError: the Snakemake call that ordered it has ended; nothing is written.
        MeasuringError: the process failed or took too long.
    """
    with claimed(device) as variables:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        reply = _run_child(start, {"ceilings": device}, variables, CEILINGS_TIMEOUT_SECONDS)
    if "message" in reply:
        raise MeasuringError(f"the ceilings could not be measured: {reply['message']}")
    write_json(output, {"version": 1, "device": device, **reply, "started": started})
