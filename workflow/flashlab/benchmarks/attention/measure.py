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
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import energy, environment, memory, protocols

MIB = 1024**2


def _inputs(shape: Shape, dtype: str, device: str) -> torch.Tensor:
    """The packed qkv (B, N, 3, H, D), random, with gradients on."""
    size = (shape.batch_size, shape.seq_len, 3, shape.num_heads, shape.head_dim)
    return torch.randn(size, dtype=getattr(torch, dtype), device=device, requires_grad=True)


def peak_memory(attention: gate.Attention, shape: Shape, dtype: str, device: str) -> int:
    """Peak bytes of both passes, inputs included."""

    def both_passes() -> None:
        qkv = _inputs(shape, dtype, device)
        out = attention(qkv, shape.causal)
        out.backward(torch.randn_like(out), retain_graph=True)

    return memory.peak_memory(both_passes, device)


def passes(
    kernel: ModuleType, run: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each timed metric with what runs its pass once, any number of times.

    One is to be done with before the next is taken, so that the backward pass's graph is not held
    while the forward pass runs.
    """
    shape = Shape.of(run)
    qkv = _inputs(shape, run["dtype"], run["device"])
    yield "forward_time", lambda: kernel.attention(qkv, shape.causal)
    out = kernel.attention(qkv, shape.causal)
    grad = torch.randn_like(out)

    def backward() -> None:
        qkv.grad = None
        out.backward(grad, retain_graph=True)

    yield "backward_time", backward


def prepare(kernel: ModuleType, run: Mapping[str, Any]) -> dict[str, Any]:
    """What comes before the timing: check the run, then measure its peak memory.

    Returns what the gate compared and the metric, as they stand in a record; raises what the
    implementation raises.
    """
    shape, dtype, device = Shape.of(run), run["dtype"], run["device"]
    checked = gate.check_correctness(kernel.attention, shape, dtype, device)
    peak = peak_memory(kernel.attention, shape, dtype, device)
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
    warnings; where the protocol asks for it and the GPU tells, energies in J and their resolution.
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
    return {
        **told,
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
