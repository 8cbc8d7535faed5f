"""How one attention run is measured: correctness, then peak memory, then the time of both passes.

Everything here decides numbers, so an edit measures again. The declaration, with its labels and
costs, is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from flashlab.benchmarks.attention import gate
from flashlab.benchmarks.attention.inputs import attention_of, random_inputs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import energy, environment, memory, protocols

MIB = 1024**2


def peak_memory(kernel: ModuleType, run: Mapping[str, Any]) -> int:
    """Peak bytes of both passes, inputs included."""
    shape, form = Shape.of(run), run.get("inputs")
    attention = attention_of(kernel, form)

    def both_passes() -> None:
        inputs = random_inputs(shape, run["dtype"], run["device"], form)
        out = attention(*inputs, shape.causal)
        out.backward(torch.randn_like(out), retain_graph=True)

    return memory.peak_memory(both_passes, run["device"])


def passes(
    kernel: ModuleType, run: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each timed metric with what runs its pass once, any number of times.

    One is to be done with before the next is taken, so that the backward pass's graph is not held
    while the forward pass runs.
    """
    shape, form = Shape.of(run), run.get("inputs")
    attention = attention_of(kernel, form)
    inputs = random_inputs(shape, run["dtype"], run["device"], form)
    yield "forward_time", lambda: attention(*inputs, shape.causal)
    out = attention(*inputs, shape.causal)
    grad = torch.randn_like(out)

    def backward() -> None:
        for leaf in inputs:
            leaf.grad = None
        out.backward(grad, retain_graph=True)

    yield "backward_time", backward


def prepare(kernel: ModuleType, run: Mapping[str, Any]) -> dict[str, Any]:
    """What comes before the timing: check the run, then measure its peak memory.

    Returns what the gate compared and the metric, as they stand in a record; raises what the
    implementation raises.
    """
    form = run.get("inputs")
    checked = gate.check_correctness(
        attention_of(kernel, form), Shape.of(run), run["dtype"], run["device"], form
    )
    peak = peak_memory(kernel, run)
    return {"gate": checked, "metrics": {"peak_memory": {"unit": "MiB", "value": peak / MIB}}}


def measure_energy(kernel: ModuleType, run: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The energy of both passes as metrics of a record; none where the device does not tell.

    Each pass runs for so many seconds. A metric's ``resolution`` is in the details of a record.
    """
    found = {
        name.replace("_time", "_energy"): energy.measure_energy(call, seconds)
        for name, call in passes(kernel, run)
    }
    told = {name: measured for name, measured in found.items() if measured is not None}
    if len(told) < len(found):
        return {}
    return {
        "metrics": {name: measured.to_json() for name, measured in told.items()},
        "details": {
            "energy_resolution": {name: measured.resolution for name, measured in told.items()}
        },
    }


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Check, then measure memory, then time; each raises what the implementation raises.

    Returns the metrics of a record (times in ms, memory in MiB), what the gate compared, and the
    warnings; as details, the state of the GPU during each pass; where the protocol asks for it and
    the GPU tells, energies in J and their resolution.
    """
    device = run["device"]
    prepared = prepare(kernel, run)
    load, states = environment.LoadMeter(), environment.gpu_states(device)
    time_pass = protocols.PROTOCOLS[protocol["name"]]
    timings = {name: time_pass(call, protocol, device) for name, call in passes(kernel, run)}
    states += environment.gpu_states(device)
    # After all that is timed, which it would heat the device for.
    seconds = protocol.get("energy_seconds")
    told = measure_energy(kernel, run, seconds) if seconds else {}
    clocks = {name: timing.clocks for name, timing in timings.items() if timing.clocks}
    details = {**told.get("details", {}), **({"clocks": clocks} if clocks else {})}
    return {
        **({"details": details} if details else {}),
        "metrics": {
            **{name: timing.to_json() for name, timing in timings.items()},
            **prepared["metrics"],
            **told.get("metrics", {}),
        },
        "gate": prepared["gate"],
        "warnings": [
            *environment.timing_warnings(timings),
            *environment.state_warnings(load.foreign_share(), states),
        ],
    }
