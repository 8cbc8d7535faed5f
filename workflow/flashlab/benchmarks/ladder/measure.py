"""Measures one run of the ladder: correctness, then the kernel, its copies, the process.

Everything here decides numbers, so an edit measures again. The declaration, with its labels, is not
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter_ns
from types import ModuleType
from typing import Any

import numpy as np
import torch

from flashlab.benchmarks.ladder import gate
from flashlab.benchmarks.ladder.cases import TINY, case_of
from flashlab.benchmarks.ladder.process import time_process
from flashlab.benchmarks.ladder.step import Array, Step, fill
from flashlab.measuring import environment, protocols
from flashlab.measuring.protocols import Pass, Timing, right_before
from flashlab.measuring.supervised import timed_section
from flashlab.statistics import median_interval

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


def _problem(step: Step, run: Mapping[str, Any]) -> list[Array]:
    """Random q, k and v (B, N, d) of a run, and room for the output, in the step's host memory."""
    arrays = [step.host_array((run["batch_size"], run["seq_len"], run["head_dim"])) for _ in "qkvo"]
    fill(np.random.default_rng(torch.initial_seed()), *arrays[:3])
    return arrays


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


def _time_kernel(step: Step, protocol: Mapping[str, Any], where: str) -> Timing:
    """The kernel alone: by the protocol where calls are short."""
    if step.is_on_cpu or where == "cpu" or _seconds(step.run) > SLOW_SECONDS:
        return _few_calls(step.run, protocol, where)
    return protocols.PROTOCOLS[protocol["name"]](Pass(step.launch), protocol, where)


def passes(kernel: ModuleType, run: Mapping[str, Any]) -> Iterator[tuple[str, Pass]]:
    """The kernel alone, as the pass whose counters are read."""
    step = Step(kernel)
    step.copy_in(*_problem(step, run))
    yield "kernel_time", Pass(step.launch)


def _refuse_hours(kernel: ModuleType, run: Mapping[str, Any]) -> None:
    """NotImplementedError where the CPU, or the simulator of CUDA, would take too long."""
    gigaflop = 4 * run["batch_size"] * run["seq_len"] ** 2 * run["head_dim"] / 1e9
    if kernel.DEVICE == "cpu" and gigaflop > CPU_GFLOP:
        raise NotImplementedError(
            f"{gigaflop:.0f} GFLOP are too much for one thread of the CPU: at most "
            f"{CPU_GFLOP:.0f} are measured"
        )
    if kernel.DEVICE != "cpu" and run["device"] == "cpu" and gigaflop > SIMULATED_GFLOP:
        raise NotImplementedError(
            "numba's simulator of CUDA would take hours; give it the cases "
            f"{' and '.join(map(str, TINY))}, or measure on a GPU"
        )


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Check, time the kernel and its copies, check again, and time the whole process.

    Returns the metrics of a record (times in ms), what the gate compared, and the warnings.

    Raises:
        NotImplementedError: the step runs on the CPU and would take too long, or the device or a
            package that it needs is missing.
        IncorrectError: an element of the output is off by more than the tolerance.
    """
    _refuse_hours(kernel, run)
    where, step = run["device"], Step(kernel)
    arrays = q, k, v, out = _problem(step, run)
    step.copy_in(*arrays)
    compute = partial(step.compute, *arrays)
    compute()  # compiles
    checked = gate.check_correctness(q, k, v, out, where)
    load, states = environment.LoadMeter(), environment.gpu_states(where)
    timings = {"kernel_time": _time_kernel(step, protocol, where)}
    step.copy_out(out)
    calls = len(timings["kernel_time"].samples)
    with right_before(calls):
        gate.check_correctness(q, k, v, out, where, again=True)
    timings["host_time"] = _few_calls(compute, protocol, where)
    calls += len(timings["host_time"].samples)
    fill(np.random.default_rng(), q, k, v)
    compute()
    with right_before(calls):
        again = gate.check_correctness(q, k, v, out, where, again=True)
    checked["again"] = {"calls": calls, "errors": again["errors"]}
    if not step.is_on_cpu:
        timings["copy_in_time"] = _few_calls(partial(step.copy_in, *arrays), protocol, where)
        timings["copy_out_time"] = _few_calls(partial(step.copy_out, out), protocol, where)
    states += environment.gpu_states(where)
    warnings = environment.timing_warnings(timings)
    warnings += environment.state_warnings(load.foreign_share(), states)
    if where == "cpu" and not step.is_on_cpu:  # of whose times nothing is said
        warnings = [{"code": "simulated"}]
    metrics = {name: timing.to_json() for name, timing in timings.items()}
    if case_of(run["batch_size"], run["seq_len"], run["head_dim"]) in WHOLE_PROCESS:
        metrics |= time_process(run["implementation"], q, k, v, times=WHOLE_TIMES)
    clocks = {name: timing.clocks for name, timing in timings.items() if timing.clocks}
    details = {"details": {"clocks": clocks}} if clocks else {}
    return {"metrics": metrics, "gate": checked, "warnings": warnings, **details}
