"""Measures one attention run: correctness, then peak memory, then the time of both passes.

Everything here decides numbers, so an edit measures again. The declaration, with its labels and
costs, is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.inputs import (
    Renewal,
    attention_of,
    empty_inputs,
    random_inputs,
)
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import energy, environment, memory, protocols
from flashlab.measuring.protocols import Pass, right_before

MIB = 1024**2

NEW_FORWARDS = frozenset({0, 1, 3, 9, 27})
"""The batches of a backward pass, from 0, that have inputs of their own."""


def peak_memory(kernel: ModuleType, run: Mapping[str, Any]) -> int:
    """Peak bytes of both passes, inputs included."""
    shape, form = Shape.of(run), run.get("inputs")
    attention = attention_of(kernel, form, shape)

    def both_passes() -> None:
        inputs = random_inputs(shape, run["dtype"], run["device"], form)
        out = attention(*inputs, shape.causal)
        out.backward(torch.randn_like(out), retain_graph=True)

    return memory.peak_memory(both_passes, run["device"])


class _Forward:
    """A forward pass over and over: the inputs in use, and a copy of their last contents."""

    def __init__(self, kernel: ModuleType, run: Mapping[str, Any]) -> None:
        self.shape, self.dtype, form = Shape.of(run), run["dtype"], run.get("inputs")
        attention, causal = attention_of(kernel, form, self.shape), self.shape.causal
        self.inputs = inputs = random_inputs(self.shape, self.dtype, run["device"], form)
        self.numbers = Renewal(self.shape, self.dtype, run["device"], form)
        self.given = self.numbers(inputs)
        self.heads = gate.heads_compared(self.shape, run["device"], again=True)
        self.run = lambda: attention(*inputs, causal)

    def renew(self, _batch: int | None) -> None:
        """Other inputs in the same storage."""
        self.given = self.numbers(self.inputs)

    def check(self, out: torch.Tensor) -> None:
        """Compare the output of the last call; IncorrectError where it is wrong."""
        gate.refuse_form(out, self.shape, self.dtype)
        gate.compare(self.given, None, {"out": (out,)}, self.shape, self.heads)
        gate.refuse_overwritten(self.inputs, self.given)


class _Backward:
    """A backward pass over and over, each time from another gradient of the output.

    Other inputs in the storage in use would not fit a graph that there is, so that they come with a
    forward pass of their own, in a few batches.
    """

    def __init__(self, forward: _Forward) -> None:
        self.forward, self.out = forward, forward.run()
        self.grad = torch.randn_like(self.out)
        self.given_grad = self.grad

    def clear(self) -> None:
        """No gradients."""
        for leaf in self.forward.inputs:
            leaf.grad = None

    def run(self) -> None:
        """Gradients from none."""
        self.clear()
        self.out.backward(self.grad, retain_graph=True)

    def renew(self, batch: int | None) -> None:
        """Another gradient in the same storage, and in some batches other inputs."""
        if batch in NEW_FORWARDS:
            del self.out  # which may hold more than there is room for twice
            self.clear()
            self.forward.renew(batch)
            self.out = self.forward.run()
        (self.given_grad,) = self.forward.numbers((self.grad,))

    def check(self, _result: None) -> None:
        """Compare the gradients of the last call; IncorrectError where they are wrong."""
        forward = self.forward
        results = {"dqkv": gate.gradients_of(forward.inputs)}
        gate.compare(forward.given, self.given_grad, results, forward.shape, forward.heads)
        gate.refuse_overwritten(forward.inputs, forward.given)


def passes(kernel: ModuleType, run: Mapping[str, Any]) -> Iterator[tuple[str, Pass]]:
    """Each timed metric with its pass.

    One is to be done with before the next is taken, so that the backward pass's graph is not held
    while the forward pass runs.
    """
    forward = _Forward(kernel, run)
    yield "forward_time", Pass(forward.run, forward.renew, forward.check)
    backward = _Backward(forward)
    yield "backward_time", Pass(backward.run, backward.renew, backward.check)


def prepare(kernel: ModuleType, run: Mapping[str, Any]) -> dict[str, Any]:
    """Check the run, then measure its peak memory.

    Returns what the gate compared and the metric, as they stand in a record; raises what the
    implementation raises.
    """
    form, shape = run.get("inputs"), Shape.of(run)
    checked = gate.check_correctness(
        attention_of(kernel, form, shape), shape, run["dtype"], run["device"], form
    )
    peak = peak_memory(kernel, run)
    return {"gate": checked, "metrics": {"peak_memory": {"unit": "MiB", "value": peak / MIB}}}


def check_again(kernel: ModuleType, run: Mapping[str, Any], calls: int) -> dict[str, Any]:
    """Check fresh inputs after so many calls; returns the comparison, for the record's gate."""
    form, shape = run.get("inputs"), Shape.of(run)
    given = shape, run["dtype"], run["device"], form
    _taken = empty_inputs(*given)  # the storage that was timed, which fresh inputs would get
    with right_before(calls):
        compared = gate.check_correctness(attention_of(kernel, form, shape), *given, again=True)
    return {"again": {"calls": calls, "heads": compared["heads"], "errors": compared["errors"]}}


def measure_energy(kernel: ModuleType, run: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The energy of both passes as metrics of a record; none where the device does not tell.

    Each pass runs for so many seconds. A metric's ``resolution`` is in the details of a record.
    """
    energies = {
        name.replace("_time", "_energy"): energy.measure_energy(call, seconds)
        for name, call in passes(kernel, run)
    }
    known = {name: measured for name, measured in energies.items() if measured is not None}
    if len(known) < len(energies):
        return {}
    return {
        "metrics": {name: measured.to_json() for name, measured in known.items()},
        "details": {
            "energy_resolution": {name: measured.resolution for name, measured in known.items()}
        },
    }


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Check, measure memory, time, check again; each raises what the implementation raises.

    Returns the metrics of a record (times in ms, memory in MiB), what the gate compared, and the
    warnings; as details, the state of the GPU during each pass; where the protocol asks for it and
    the GPU tells, energies in J and their resolution.
    """
    device = run["device"]
    prepared = prepare(kernel, run)
    load, states = environment.LoadMeter(), environment.gpu_states(device)
    time_pass = protocols.PROTOCOLS[protocol["name"]]
    timings, calls = {}, 0
    for name, timed in passes(kernel, run):
        timings[name] = time_pass(timed, protocol, device)
        calls += timed.calls
    del timed  # and the tensors of its pass
    states += environment.gpu_states(device)
    again = check_again(kernel, run, calls)
    # After all that is timed, which it would heat the device for.
    seconds = protocol.get("energy_seconds")
    energy = measure_energy(kernel, run, seconds) if seconds else {}
    clocks = {name: timing.clocks for name, timing in timings.items() if timing.clocks}
    details = {**energy.get("details", {}), **({"clocks": clocks} if clocks else {})}
    return {
        **({"details": details} if details else {}),
        "metrics": {
            **{name: timing.to_json() for name, timing in timings.items()},
            **prepared["metrics"],
            **energy.get("metrics", {}),
        },
        "gate": {**prepared["gate"], **again},
        "warnings": [
            *environment.timing_warnings(timings),
            *environment.state_warnings(load.foreign_share(), states),
        ],
    }
