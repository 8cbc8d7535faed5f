"""One run from order to record: claims the device, starts the measuring process, waits for it.

Whatever the kernel makes of that process (out of memory, wrong, crashed, hung) becomes a record
with its status, so that a sweep goes on past it. What the machine does to it (no room on a disk, a
signal from outside, a GPU that is lost) is an error without a record. Nothing here imports torch.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashlab import machine, nsight, records
from flashlab.benchmarks.implementations import Implementation, implementation_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import write_json
from flashlab.forks import Child, Server, signal_name
from flashlab.measuring.supervised import Section, refused
from flashlab.plan import identity
from flashlab.plan.watching import POLL_SECONDS, WorkflowGoneError, has_ended, workflow_process
from flashlab.runs import Run
from flashlab.usage import require_torch

MEASURING = "flashlab.measuring.child"

LAZY = ("torch._dynamo",)
"""Modules that PyTorch imports only at the first backward pass (symbolic shapes, with sympy) or the
first call of a library's operator, which takes several times as long as a short run."""

OWN_SIGNALS = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
"""The signals that end a process for a fault of its own."""


class MeasuringError(Exception):
    """A measurement of which there is no record, so that the next call makes it again."""


# The device, which runs have one at a time: a lock goes with the process that holds it


def _try_lock(name: str) -> int | None:
    """The file descriptor of the lock of this name; None if another process holds it."""
    path = Path(tempfile.gettempdir(), f"flashlab-{name}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
    except PermissionError:  # another user's, in a folder where the system protects it
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _devices(device: str) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES for the CPU, or for each visible GPU, by the name of its lock."""
    return {"cpu": ""} if device == "cpu" else {gpu.uuid: gpu.uuid for gpu in machine.gpus()}


def is_claimed(device: str) -> bool:
    """True if processes hold the CPU, or every visible GPU; False where no GPU is visible."""
    names = _devices(device)
    for name in names:
        if (descriptor := _try_lock(name)) is not None:
            os.close(descriptor)
            return False
    return bool(names)


@contextmanager
def claimed(device: str, card: int | None = None) -> Iterator[dict[str, str]]:
    """Claim the CPU, or a visible GPU, for the block.

    Of several GPUs it is that of the number `card`, counted round (`plan.blocks`), or whichever is
    free first. Yields the environment variables that confine a child process to it.
    """
    names = [*_devices(device).items()]
    if not names:
        raise machine.MachineError("no NVIDIA GPU is visible any more; check nvidia-smi")
    if card is not None:
        names = [names[card % len(names)]]
    while True:
        for name, visible in names:
            if (descriptor := _try_lock(name)) is not None:
                with os.fdopen(descriptor):
                    yield {"CUDA_VISIBLE_DEVICES": visible}
                return
        time.sleep(0.02)  # every run waits for the one before


# Starting the measuring process


def job_environment() -> dict[str, str]:
    """This process's environment, with the package importable and what measuring depends on.

    That is every CPU, whatever Snakemake counts for the job, and threads that sleep while they
    wait: threads that spin cost a busy machine up to a hundred times the time of a short call.
    Freed memory stays with the process, as CUDA's allocator keeps it: else large tensors are mapped
    anew in each call on a CPU, whose page faults may take longer than the call. glibc reads this as
    a process starts. Inductor compiles in the process itself: a pool of workers costs more than a
    run's few kernels, and could not be forked. FlashAttention-4 keeps what it has compiled for
    later processes, as Triton and Inductor do anyway. PyTorch's profiler (Kineto) is silent.
    """
    package = str(Path(__file__).parents[2])
    search = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(search))),
        "OMP_NUM_THREADS": str(machine.cpu_count()),
        "OMP_WAIT_POLICY": "passive",
        # More than any process frees.
        **dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**40)),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1",
        "KINETO_LOG_LEVEL": "6",
    }


def server_of(pid: int | None) -> Server | None:
    """The server of forks that ends with a process, such as a Snakemake call; None without one."""
    return None if pid is None else Server(pid, job_environment(), (MEASURING, *LAZY))


def start_server(pid: int) -> None:
    """Begin to start the server of a process; whoever measures next waits for it."""
    if (server := server_of(pid)) and (connection := server.connect()):
        connection.close()


def start_measuring(
    server: Server | None,
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    answer: Path,
    errors: Path,
) -> Child:
    """Start measuring an order in a process of its own, in a fork of the server if there is one.

    The order has the modules that are worth importing ahead of it; one whose kernels are `counted`
    runs under Nsight Compute, profiled whole and without a channel (NsightError where that is not
    on PATH). `variables` of the environment confine the process to its device. It writes its answer
    to a file, with Nsight Compute's table beside it, and appends its output to `errors`.
    """
    environment = {**job_environment(), **variables}
    if "counted" not in order:
        modules = [*filter(None, [order.get("measure")]), *order.get("preloads", ())]
        given = [order, str(answer)]
        return Child(f"{MEASURING}:answer", given, environment, errors, server, modules)
    if shutil.which(nsight.PROGRAM) is None:
        raise nsight.NsightError(f"Nsight Compute ({nsight.PROGRAM}) is not on PATH")
    program = [sys.executable, "-m", "flashlab.measuring.counters", json.dumps(order), str(answer)]
    command = nsight.command(str(answer.with_suffix(".csv")), program, order["counted"])
    return Child("flashlab.forks:become", [command], environment, errors)


# Waiting for it


def count_oom_kills() -> int:
    """The number of processes that Linux has killed for memory since boot; 0 if it is unknown."""
    with suppress(OSError, ValueError):
        counts = Path("/proc/vmstat").read_text().split()
        return int(counts[counts.index("oom_kill") + 1])
    return 0


def ended_without_answer(returncode: int, oom_kills: int, errors: Path) -> dict[str, Any]:
    """Status and message of a measuring process that died before it could answer.

    MeasuringError where it ended for a reason other than the kernel.
    """
    name = signal_name(returncode)
    if name == "SIGKILL" and oom_kills:
        return {"status": "oom", "message": "killed by the system for lack of memory (SIGKILL)"}
    if name in OWN_SIGNALS:
        return {"status": "error", "message": f"crashed: ended by signal {name}"}
    if returncode < 0:
        raise MeasuringError(
            f"the measuring process was ended from outside, by signal {name}; nothing is recorded, "
            "and the next call measures it"
        )
    text = (errors.read_text(errors="replace").strip() or "no message").splitlines()[-1]
    if returncode == os.EX_OSERR:
        raise MeasuringError(
            f"the machine failed the measuring process: {text}; nothing is recorded. Temporary "
            f"files are in {tempfile.gettempdir()} (TMPDIR says where): see that there is room, "
            "and that the device works, then call again"
        )
    return {"status": "error", "message": f"ended with status {returncode}: {text}"}


def _run_child(order: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Run the measuring process to its end, its time-out, or the workflow's death: its reply.

    It is gone in any case.
    """
    workflow, oom_kills, sections = workflow_process(), count_oom_kills(), list[Section]()
    timeout_s, returncode = order["protocol"]["timeout_s"], None
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        answer, errors = Path(folder, "answer.json"), Path(folder, "errors")
        errors.touch()
        server = server_of(workflow.pid if workflow else None)
        started, begin = start_measuring(server, order, variables, answer, errors), time.monotonic()
        deadline = begin + timeout_s
        try:
            records.validator()  # beside the process's gate, long before anything is timed
            while returncode is None and time.monotonic() < deadline:
                if workflow is not None and has_ended(workflow):
                    raise WorkflowGoneError("the Snakemake call that ordered this run has ended")
                with suppress(TimeoutError):
                    if (said := started.answer(POLL_SECONDS)) is None:
                        returncode = started.wait()
                    now = time.monotonic()
                    if said:
                        sections.append(Section(now - begin, said["samples"], said["is_filled"]))
                    begin = now
        finally:
            started.kill()
            sys.stderr.write(errors.read_text(errors="replace"))
        if returncode is None:
            return {"status": "error", "message": records.time_out_message(timeout_s)}
        if answer.exists():
            reply: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
            reply["environment"]["started_warm"] = started.is_warm
            if reply.get("status") == "ok":
                reply |= refused(sections, started.left)
        else:
            reply = ended_without_answer(returncode, count_oom_kills() - oom_kills, errors)
        if (log := answer.with_suffix(".csv")).exists():
            reply["counters_log"] = log.read_text(encoding="utf-8", errors="replace")
        return reply


def _count(
    benchmark: Benchmark, order: Mapping[str, Any], variables: Mapping[str, str]
) -> dict[str, Any]:
    """The counters of a run's passes as metrics; a status and a message where there are none."""
    device = order["run"]["device"]
    names = sorted({metric.quantity.name for metric in benchmark.all_counters(device)})
    on_cpu, on_gpu = {"part": "flashlab.measuring.operators"}, {"counted": names}
    try:
        reply = _run_child({**order, **(on_cpu if device == "cpu" else on_gpu)}, variables)
        log = reply.pop("counters_log", "")
        if "ERR_NVGPUCTRPERM" in log:
            raise nsight.NsightError(
                "Nsight Compute may not read the GPU's counters (ERR_NVGPUCTRPERM); an "
                "administrator can allow it: https://developer.nvidia.com/ERR_NVGPUCTRPERM"
            )
        if reply["status"] == "ok" and device != "cpu":
            passes = nsight.read_passes(log, names, reply["passes"])
            reply["counted"] = {name: nsight.of_pass(kernels) for name, kernels in passes.items()}
            reply["details"] = {"kernels": passes}
    except nsight.NsightError as error:
        return {"status": "error", "message": str(error)}
    if reply["status"] == "ok":
        reply["metrics"] = {
            metric.name: {"value": reply["counted"][name][metric.quantity.name]}
            for name, declared in benchmark.counters_on(device).items()
            for metric in declared
        }
    return reply


def identified(device: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """The device of a record's environment: the CPU, or the GPU in CUDA_VISIBLE_DEVICES.

    MeasuringError if the driver does not list that.
    """
    if device == "cpu":
        return {"device_name": machine.device_name("cpu"), "gpu_uuid": None, "driver": None}
    uuid, names = variables["CUDA_VISIBLE_DEVICES"], {gpu.uuid: gpu.name for gpu in machine.gpus()}
    if uuid not in names:
        raise MeasuringError(
            f"the driver does not list the GPU {uuid} any more; nothing is recorded. Call again "
            "once nvidia-smi shows it"
        )
    return {"device_name": names[uuid], "gpu_uuid": uuid, "driver": machine.driver_version()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def measure_run(
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    sources: Mapping[str, Any],
    output: Path,
    card: int | None = None,
) -> records.Record:
    """Measure `run` in a process of its own, write its record to `output` and return it.

    Under the protocol ``counters`` its passes are counted: on a GPU by Nsight Compute, on a CPU by
    PyTorch's profiler. The device, of several GPUs that of the number `card` counted round, is
    claimed for as long as the process runs; waiting for it is not part of the time limit.

    Nothing is written where this raises: WorkflowGoneError, as the Snakemake call that ordered the
    run has ended; MeasuringError, as the machine kept it from being measured; OSError.
    """
    order = {
        "run": {**run.to_row(), "inputs": implementation.form(benchmark, protocol["name"])},
        **{"protocol": dict(protocol), "measure": benchmark.measure},
        **{"kernel": str(implementation.path), "preloads": implementation.preloads},
    }
    surroundings = machine.surroundings()  # while another run has the device
    with claimed(run.device, card) as confined:
        variables = {**benchmark.variables.get(run.device, {}), **confined}
        # Read before the run, since a GPU that crashed may no longer tell its name.
        known = identified(run.device, variables) | surroundings
        started, order["surroundings"] = _now(), known
        is_counted = protocol["name"] == records.COUNTERS
        reply = _count(benchmark, order, variables) if is_counted else _run_child(order, variables)
        if reply["status"] == "error":
            identified(run.device, variables)  # a GPU that is lost has made the error
        stated: dict[str, Any] = {"started": started, "ended": _now()}
    stated |= {key: reply.get(key) for key in ("status", "message", "gate", "details")}
    stated |= {"warnings": tuple(reply.get("warnings", ())), "curves": reply.get("curves", {})}
    stated |= {"environment": reply.get("environment") or known, "sources": sources}
    metrics = records.read_metrics(reply.get("metrics", {}))
    record = records.Record(benchmark.name, run, protocol=protocol, metrics=metrics, **stated)
    records.write_record(output, record)
    return record


# The jobs


def _refuse_other_device(planned: str | None, device: str) -> None:
    """MachineError, naming both, where this is not the device that a run was planned for."""
    here = machine.device_name(device)
    if planned not in (None, here):
        raise machine.MachineError(
            f"planned for {planned}, but this job runs on {here}. Nothing was measured. Send the "
            "jobs to the device that device_name names in the configuration, or name this one"
        )


def measure(order: Mapping[str, Any], output: Path) -> None:
    """Measure a run and write its record, whose name is that of all that decides its numbers.

    The order has the run with its benchmark, protocol and process, and the device that it is
    planned for: MachineError on another, MeasuringError where code or versions have changed since,
    ModuleNotFoundError without torch.
    """
    require_torch()
    benchmark = find_benchmark(order["benchmark"])
    run, protocol = Run.of(benchmark, order["run"]), order["protocol"]
    _refuse_other_device(order.get("device_name"), run.device)
    implementation = implementation_of(benchmark, run.implementation)
    decided_by = identity.identity(benchmark, run, protocol, implementation, order["process"])
    if identity.record_name(run, decided_by) != output.name:
        raise MeasuringError(
            f"{output}: the kernel, the measuring code or the environment has changed "
            "since this run was planned; call snakemake again"
        )
    sources, card = identity.sources(decided_by, implementation), order.get("card")
    record = measure_run(benchmark, run, protocol, implementation, sources, output, card)
    print(f"{run}: {record.status}" + (f": {record.message}" if record.message else ""))


def measure_ceilings(device: str, device_name: str | None, output: Path) -> None:
    """Measure the device's ceilings in a process of its own and write them to `output`.

    It raises what `measure` and `measure_run` raise.
    """
    require_torch()
    _refuse_other_device(device_name, device)
    with claimed(device) as variables:
        started, known = _now(), identified(device, variables) | machine.surroundings()
        order = {"ceilings": device, "surroundings": known, "protocol": {"timeout_s": 300}}
        reply = _run_child(order, variables)
    if "message" in reply:
        raise MeasuringError(f"the ceilings could not be measured: {reply['message']}")
    write_json(output, {"version": 1, "device": device, **reply, "started": started})
