"""Measures one attention run: peak memory, then correctness, then the time of both passes.

Everything here decides numbers, so an edit measures again. The declaration, with its labels and
costs, is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.inputs import (
    attention_of,
    empty_inputs,
    random_inputs,
    separated,
)
from flashlab.benchmarks.attention.prepared import Prepared
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import environment, memory, protocols
from flashlab.measuring.protocols import Pass, right_before

MIB = 1024**2

PREPARED = 2
"""Inputs that calls are compared on, of which one has a whole head's reference."""


def peak_memory(kernel: ModuleType, run: Mapping[str, Any]) -> int:
    """Peak bytes of both passes, inputs included; as `memory.peak_memory`."""
    shape, form = Shape.of(run), run.get("inputs")
    attention = attention_of(kernel, form, shape)

    def both_passes() -> None:
        inputs = random_inputs(shape, run["dtype"], run["device"], form)
        out = attention(*inputs, shape.causal)
        gate.refuse_form(out, shape, run["dtype"])
        if out.requires_grad:
            out.backward(torch.randn_like(out), retain_graph=True)
        gate.gradients_of(inputs)

    return memory.peak_memory(both_passes, run["device"])


class _Forward:
    """A forward pass over and over, on prepared inputs or on numbers never seen.

    Inputs change in their storage, and PyTorch's version of it stays: an answer that was kept for a
    tensor is a wrong one afterwards. `given` are the numbers never seen, where those are in it now.
    """

    def __init__(self, kernel: ModuleType, run: Mapping[str, Any]) -> None:
        self.shape, self.dtype, form = Shape.of(run), run["dtype"], run.get("inputs")
        attention, causal = attention_of(kernel, form, self.shape), self.shape.causal
        self._given = self.shape, self.dtype, run["device"], form
        self.inputs = inputs = random_inputs(*self._given)
        self.heads = gate.heads_compared(self.shape, run["device"], again=True)
        self.run = lambda: attention(*inputs, causal)
        self.prepared: list[Prepared] = []
        self.now: Prepared | None = None
        self.given = [torch.empty_like(x) for x in inputs]  # to allocate may wait for the device
        self._random = torch.Generator(run["device"])  # a kernel may seed torch's
        self._random.seed()

    def fill(self, tensors: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> None:
        """Put random numbers into tensors and into copies of them."""
        for x, copy in zip(tensors, copies, strict=True):
            copy.data.copy_(x.data.normal_(generator=self._random))

    def renew(self, is_new: bool) -> None:
        """Other inputs in the same storage."""
        if is_new:
            self.now = None
            self.fill(self.inputs, self.given)
            return
        if not self.prepared:
            self.prepared = [Prepared(*self._given, with_head=not i) for i in range(PREPARED)]
        self.now = self.prepared[int(torch.randint(PREPARED, ()))]
        self.now.renew()
        self.now.put([x.data for x in self.inputs])

    def check(self, out: torch.Tensor) -> None:
        """Compare the output of the last call; IncorrectError where it is wrong."""
        gate.refuse_form(out, self.shape, self.dtype)
        if self.now is not None:
            self.now.check([out.detach()])
        else:
            self.compare({"out": (out,)}, torch.zeros_like(out))

    def compare(self, results: Mapping[str, Sequence[torch.Tensor]], grad: torch.Tensor) -> None:
        """Compare results of numbers never seen; IncorrectError where one is wrong."""
        gate.compare(self.given, grad, results, self.shape, self.heads)
        gate.refuse_overwritten(self.inputs, self.given)


class _Backward:
    """A backward pass over and over, each time after a forward pass of its own."""

    def __init__(self, forward: _Forward) -> None:
        self.forward = forward
        self.out: Any = forward.run()
        self.grad, self.given_grad = torch.randn_like(self.out), torch.empty_like(self.out)

    def clear(self) -> None:
        """No gradients."""
        for leaf in self.forward.inputs:
            leaf.grad = None

    def before(self) -> None:
        """A forward pass, whose graph the last one's makes room for: both may not fit."""
        self.out = None
        self.clear()
        self.out = self.forward.run()

    def run(self) -> None:
        """Gradients from none."""
        self.clear()
        self.out.backward(self.grad, retain_graph=True)

    def renew(self, is_new: bool) -> None:
        """Other inputs and another gradient in the same storage."""
        self.forward.renew(is_new)
        now = self.forward.now
        if now is None:
            self.forward.fill([self.grad], [self.given_grad])
            return
        now.put_grad(self.grad)
        if not now.first:
            self.before()
            self.run()
            now.keep(self._results())

    def _results(self) -> list[torch.Tensor]:
        gradients = separated(gate.gradients_of(self.forward.inputs))
        gate.refuse_form(self.out, self.forward.shape, self.forward.dtype)
        return [self.out.detach(), *gradients]

    def check(self, _result: None) -> None:
        """Compare the gradients of the last call; IncorrectError where they are wrong."""
        forward = self.forward
        if forward.now is not None:
            forward.now.check(self._results())
        else:
            forward.compare({"dqkv": gate.gradients_of(forward.inputs)}, self.given_grad)


def passes(kernel: ModuleType, run: Mapping[str, Any]) -> Iterator[tuple[str, Pass]]:
    """Each timed metric with its pass.

    One is to be done with before the next is taken, so that the backward pass's graph is not held
    while the forward pass runs.
    """
    forward = _Forward(kernel, run)
    yield "forward_time", Pass(forward.run, renew=forward.renew, check=forward.check)
    backward = _Backward(forward)
    # The machine is warm by then.
    yield "backward_time", Pass(backward.run, backward.before, backward.renew, backward.check, 0)


def prepare(kernel: ModuleType, run: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the run's peak memory, before anything else takes some, then check it.

    Returns what the gate compared and the metric, as they stand in a record; raises what the
    implementation raises.
    """
    form, shape = run.get("inputs"), Shape.of(run)
    peak = peak_memory(kernel, run)
    checked = gate.check_correctness(
        attention_of(kernel, form, shape), shape, run["dtype"], run["device"], form
    )
    return {"gate": checked, "metrics": {"peak_memory": {"unit": "MiB", "value": peak / MIB}}}


def check_again(kernel: ModuleType, run: Mapping[str, Any], calls: int) -> dict[str, Any]:
    """Check fresh inputs after so many calls; returns the comparison, for the record's gate."""
    form, shape = run.get("inputs"), Shape.of(run)
    given = shape, run["dtype"], run["device"], form
    _taken = empty_inputs(*given)  # the storage that was timed, which fresh inputs would get
    with right_before(calls):
        compared = gate.check_correctness(attention_of(kernel, form, shape), *given, again=True)
    return {"again": {"calls": calls, "heads": compared["heads"], "errors": compared["errors"]}}


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Check, measure memory, time, check again; each raises what the implementation raises.

    Returns the metrics of a record (times in ms, memory in MiB), what the gate compared, and the
    warnings; as details, the state of the GPU during each pass.
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
    details = {
        "clocks": {name: timing.clocks for name, timing in timings.items() if timing.clocks},
        "page_faults": {name: timing.faults for name, timing in timings.items() if timing.faults},
    }
    times = {name: timing.to_json() for name, timing in timings.items()}
    warnings = environment.timing_warnings(timings)
    return {
        "details": {name: found for name, found in details.items() if found} or None,
        "metrics": {**times, **prepared["metrics"]},
        "gate": {**prepared["gate"], **again},
        "warnings": warnings + environment.state_warnings(load.foreign_share(), states),
    }
