"""Measures one run of the ladder: correctness, then the kernel, its copies, the process.

Everything here decides numbers, so an edit measures again. The declaration, with its labels, is not
imported.
"""

from __future__ import annotations

import importlib
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from types import ModuleType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch

from flashlab.benchmarks.ladder import gate
from flashlab.benchmarks.ladder.cases import TINY, case_of
from flashlab.measuring import environment, protocols
from flashlab.measuring.protocols import Pass, Timing, right_before
from flashlab.measuring.supervised import timed_section
from flashlab.statistics import median_interval

Array = npt.NDArray[np.float32]

CPU_GFLOP = 40.0
"""Most work that a step on the CPU is given: one thread computes some 2 GFLOP/s."""

SIMULATED_GFLOP = 0.001
"""Most work that the simulator is given."""

WHOLE_PROCESS = frozenset({22, 28, 30, min(TINY)})
"""The cases whose whole process is timed: it takes longer than all else that is measured."""

WHOLE_TIMES = 2
"""The number of timings of the whole process in each measuring process of a run."""

SLOW_SECONDS = 0.02
"""A call that takes longer is timed in fewer calls than the protocol's: see `_few_calls`."""

FEWEST_CALLS = 10
"""Fewest calls of a slow pass; a comparison needs half as many."""


@dataclass(frozen=True)
class Problem:
    """Inputs of a run on the host, q, k, v (B, N, d), in the kernel's own host memory."""

    q: Array
    k: Array
    v: Array
    out: Array

    def fill(self, random: np.random.Generator) -> None:
        """Random inputs in [-3, 3), as the assignment's are."""
        for array in (self.q, self.k, self.v):
            random.random(dtype=np.float32, out=array)
            array -= np.float32(0.5)
            array *= np.float32(6)


def _library() -> Any:
    """The module of the ladder that copies arrays and waits for the device."""
    return importlib.import_module("kernels.lib.device")


def _host_array(kernel: ModuleType, shape: tuple[int, ...]) -> Array:
    """An array of the host as the step wants it: page-locked where it defines that."""
    make: Callable[[tuple[int, ...]], Array] = getattr(
        kernel, "host_array", lambda shape: np.empty(shape, np.float32)
    )
    return make(shape)


def _problem(kernel: ModuleType, run: Mapping[str, Any]) -> Problem:
    """Random inputs, and room for the output."""
    shape = run["batch_size"], run["seq_len"], run["head_dim"]
    problem = Problem(*(_host_array(kernel, shape) for _ in range(4)))
    problem.fill(np.random.default_rng(torch.initial_seed()))
    return problem


def _is_on_cpu(kernel: ModuleType) -> bool:
    """True if the step runs on the CPU of any machine, with arrays of the host."""
    return bool(kernel.DEVICE == "cpu")


class _OnDevice:
    """A run's arrays on the step's device, and the parts of it that are timed."""

    def __init__(self, kernel: ModuleType, problem: Problem) -> None:
        self.kernel, self.problem = kernel, problem
        self.library = _library()
        self.arrays: list[Any] = [problem.q, problem.k, problem.v, problem.out]
        if not _is_on_cpu(kernel):
            self.copy_in()

    def copy_in(self) -> None:
        """Copy q, k and v to the device, and make room for the output."""
        given = self.problem.q, self.problem.k, self.problem.v
        copies = [self.library.copy_in(array) for array in given]
        self.arrays = [*copies, self.library.empty(self.problem.out.shape)]
        self.library.synchronize()

    def copy_out(self) -> None:
        """Copy the output to the host."""
        if not _is_on_cpu(self.kernel):
            self.library.copy_out(self.arrays[3], self.problem.out)
            self.library.synchronize()

    def launch(self) -> None:
        """The kernel alone."""
        self.kernel.attention(*self.arrays)

    def run(self) -> None:
        """The kernel alone, to its end."""
        self.launch()
        if not _is_on_cpu(self.kernel):
            self.library.synchronize()

    def from_host_to_host(self) -> None:
        """From arrays of the host to an array of the host: the kernel with its copies."""
        problem = self.problem
        if hasattr(self.kernel, "attention_on_host"):
            self.kernel.attention_on_host(problem.q, problem.k, problem.v, problem.out)
            return
        if not _is_on_cpu(self.kernel):
            self.copy_in()
        self.run()
        self.copy_out()


def _seconds(call: Callable[[], object]) -> float:
    begin = perf_counter_ns()
    call()
    return (perf_counter_ns() - begin) / 1e9


def _few_calls(call: Callable[[], object], protocol: Mapping[str, Any], where: str) -> Timing:
    """Time a pass that ends with its own synchronisation, after one call to warm up.

    At least `FEWEST_CALLS` and until the protocol's time is spent; a single one in the simulator.
    """
    first = _seconds(call)
    if where == "cpu":
        return Timing(first, (first,), "count")
    fewest, most_seconds = FEWEST_CALLS, protocol.get("max_seconds", 0.0)
    with timed_section(is_filled=True) as (samples, _):
        while len(samples) < fewest or sum(samples) < most_seconds:
            samples.append(_seconds(call))
    return Timing(median_interval(samples).median, tuple(samples), "count")


def _time_kernel(device: _OnDevice, protocol: Mapping[str, Any], where: str) -> Timing:
    """The kernel alone: by the protocol where calls are short."""
    if _is_on_cpu(device.kernel) or where == "cpu" or _seconds(device.run) > SLOW_SECONDS:
        return _few_calls(device.run, protocol, where)
    return protocols.PROTOCOLS[protocol["name"]](Pass(device.launch), protocol, where)


def passes(kernel: ModuleType, run: Mapping[str, Any]) -> Iterator[tuple[str, Pass]]:
    """The kernel alone, as the pass whose counters are read."""
    yield "kernel_time", Pass(_OnDevice(kernel, _problem(kernel, run)).launch)


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Check, time the kernel and its copies, check again, and time the whole process.

    Returns the metrics of a record (times in ms), what the gate compared, and the warnings.

    Raises:
        NotImplementedError: the step runs on the CPU and would take too long, or the device or a
            package that it needs is missing.
        IncorrectError: an element of the output is off by more than the tolerance.
    """
    gigaflop = 4 * run["batch_size"] * run["seq_len"] ** 2 * run["head_dim"] / 1e9
    if _is_on_cpu(kernel) and gigaflop > CPU_GFLOP:
        raise NotImplementedError(
            f"{gigaflop:.0f} GFLOP are too much for one thread of the CPU: at most "
            f"{CPU_GFLOP:.0f} are measured"
        )
    where = run["device"]
    if where == "cpu" and not _is_on_cpu(kernel) and gigaflop > SIMULATED_GFLOP:
        raise NotImplementedError(
            "numba's simulator of CUDA would take hours; give it the cases "
            f"{' and '.join(map(str, TINY))}, or measure on a GPU"
        )
    problem = _problem(kernel, run)
    device = _OnDevice(kernel, problem)
    device.from_host_to_host()  # compiles
    arrays = problem.q, problem.k, problem.v, problem.out
    checked = gate.check_correctness(*arrays, where)
    load, states = environment.LoadMeter(), environment.gpu_states(where)
    timings = {"kernel_time": _time_kernel(device, protocol, where)}
    device.copy_out()
    calls = len(timings["kernel_time"].samples)
    with right_before(calls):
        gate.check_correctness(*arrays, where, again=True)
    timings["host_time"] = _few_calls(device.from_host_to_host, protocol, where)
    calls += len(timings["host_time"].samples)
    problem.fill(np.random.default_rng())
    device.from_host_to_host()
    with right_before(calls):
        again = gate.check_correctness(*arrays, where, again=True)
    checked["again"] = {"calls": calls, "errors": again["errors"]}
    if not _is_on_cpu(kernel):
        timings["copy_in_time"] = _few_calls(device.copy_in, protocol, where)
        timings["copy_out_time"] = _few_calls(device.copy_out, protocol, where)
    states += environment.gpu_states(where)
    warnings = [
        *environment.timing_warnings(timings),
        *environment.state_warnings(load.foreign_share(), states),
    ]
    if where == "cpu":  # of whose times nothing is said
        warnings = [{"code": "simulated"}]
    metrics = {name: timing.to_json() for name, timing in timings.items()}
    if case_of(run["batch_size"], run["seq_len"], run["head_dim"]) in WHOLE_PROCESS:
        metrics |= time_process(run["implementation"], *arrays[:3], times=WHOLE_TIMES)
    clocks = {name: timing.clocks for name, timing in timings.items() if timing.clocks}
    details = {"details": {"clocks": clocks}} if clocks else {}
    return {"metrics": metrics, "gate": checked, "warnings": warnings, **details}


PROGRAM = (sys.executable, "-m", "flashlab", "hw4")
"""The assignment's program, a process of its own that is timed from outside, and in its parts."""


class ProgramError(Exception):
    """The program did not succeed."""


def _write_input(file: IO[bytes], q: Array, k: Array, v: Array) -> None:
    """B, N and d, then q, k and v batch by batch."""
    file.write(struct.pack("<iii", *q.shape))
    for batch in range(q.shape[0]):
        for array in (q, k, v):
            file.write(np.ascontiguousarray(array[batch]).data.cast("B"))


def _run(step: str, source: Path, target: Path) -> dict[str, float]:
    """Run the program once: the whole as timed from outside, and the parts that it states, in s."""
    command = [*PROGRAM, str(source), str(target), "--step", step, "--json"]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    if done.returncode:
        raise ProgramError(f"hw4 --step {step}: {done.stderr.strip()}")
    return {"time": whole, **json.loads(done.stdout)}


def time_process(step: str, q: Array, k: Array, v: Array, times: int) -> dict[str, Any]:
    """Run the program on these arrays by a step of the ladder, so many times; ms, by metric.

    A metric has the median of its samples, one for each time. Parts that the program does not have
    are left out.

    Raises:
        ProgramError: it failed, with what it said.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-hw4-") as folder:
        source, target = Path(folder, "in.bin"), Path(folder, "out.bin")
        with source.open("wb") as file:
            _write_input(file, q, k, v)
        seconds = [_run(step, source, target) for _ in range(times)]
    metrics = {}
    for name in seconds[0]:
        samples = [timing[name] * 1e3 for timing in seconds]
        if min(samples) > 0:
            metrics[f"process_{name}"] = {
                "unit": "ms",
                "value": float(np.median(samples)),
                "samples": samples,
                "stopped": "count",
            }
    return metrics
