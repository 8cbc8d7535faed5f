"""Measures one training: trained and timed, then its gradients checked.

Everything here decides numbers, so an edit measures again. The declaration, with its labels and
costs, is not imported.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch._dynamo.utils import calculate_time_spent, counters

from flashlab import machine
from flashlab.benchmarks.training import corpus, gate
from flashlab.benchmarks.training.busy import Busy, busy_iteration
from flashlab.benchmarks.training.loop import (
    WARM_UP_ITERATIONS,
    Trained,
    Trainer,
    batches,
)
from flashlab.benchmarks.training.model import GPT, Attention, GPTConfig
from flashlab.measuring import clocks, energy, environment, memory
from flashlab.measuring.protocols import Timing, synchronize

MIB = 1024**2
REPORT_EVERY = 10
"""Iterations from one progress line to the next, after the first."""

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@dataclass(frozen=True)
class _Problem:
    """The model's sizes, the attention and the tokens that a run trains with."""

    config: GPTConfig
    attention: Attention
    tokens: torch.Tensor
    run: Mapping[str, Any]
    settings: Mapping[str, Any]

    def model(self) -> GPT:
        """The model with its initial weights, which the run's seed gives on every device alike."""
        torch.manual_seed(self.run["seed"])
        return GPT(self.config, self.attention).to(self.run["device"])

    def trainer(self, model: GPT) -> Trainer:
        """The model in training, compiled if the run says so."""
        forward = torch.compile(model) if self.run["compile"] else model
        return Trainer(model, forward, self.tokens, self.run, self.settings)


def _problem(
    kernel: ModuleType, run: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[_Problem, dict[str, Any]]:
    """The problem of a run, and the description of the text for its record."""
    text = corpus.read_text(settings["corpus"])
    numbers, vocab_size = corpus.encode(text)
    config = GPTConfig(
        n_layer=run["n_layer"],
        n_head=run["n_head"],
        n_embd=run["n_embd"],
        block_size=run["block_size"],
        vocab_size=vocab_size,
        bias=settings["bias"],
        dropout=settings["dropout"],
    )
    description = {
        "name": settings["corpus"]["name"],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "characters": len(text),
        "training_tokens": len(numbers),
        "vocabulary": vocab_size,
    }
    return _Problem(config, kernel.attention, torch.tensor(numbers), run, settings), description


def _print_progress(iteration: int, loss: float, seconds: float) -> None:
    if not math.isfinite(loss):
        raise RuntimeError(f"the loss is {loss} at iteration {iteration}")
    if iteration == 1 or not iteration % REPORT_EVERY:
        line = f"iteration {iteration}: loss {loss:.4f}, {seconds * 1e3:.1f} ms"
        print(line, file=sys.stderr, flush=True)


def _compile_seconds() -> float:
    """Seconds of torch.compile in this process so far, for forward and backward graphs."""
    return float(calculate_time_spent()["total_wall_time"])


def _process_mib(device: str) -> float | None:
    """The GPU memory of this process in MiB by NVML, context and cache included.

    None on a CPU, and where NVML names no process that can be this one: in a container processes
    have other ids, so that it must be the only one.
    """
    if device == "cpu":
        return None
    with machine.nvml() as pynvml:
        handle = pynvml.nvmlDeviceGetHandleByUUID(environment.gpu_uuid())
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    mine = [process for process in processes if process.pid == os.getpid()] or processes
    if len(mine) != 1 or mine[0].usedGpuMemory is None:
        return None
    return float(mine[0].usedGpuMemory) / MIB


class _EnergyMeter:
    """Measures the GPU's energy from `start` on; none on a CPU."""

    def __init__(self, device: str) -> None:
        self._read: Callable[[], float | None] = (
            energy.consumed if device == "cuda" else lambda: None
        )
        self._begin: float | None = None

    def start(self) -> None:
        self._begin = self._read()

    def joules(self) -> float | None:
        """The energy in J since the start; None where nothing counts it."""
        end = self._read()
        return None if end is None or self._begin is None else end - self._begin


@dataclass(frozen=True)
class _Measured:
    """A training as measured: its losses and times, and its use of the device."""

    trained: Trained
    first_step_s: float
    compile_s: float
    joules: float | None
    process_mib: float | None
    allocated_bytes: int
    clocks: Mapping[str, Any] | None
    busy: Busy | None

    def metrics(self) -> dict[str, Any]:
        """The metrics of a record, without those that are not known."""
        steady = [seconds * 1e3 for seconds in self.trained.steady]
        energy = None if self.joules is None else self.joules / len(steady)
        metrics: dict[str, Any] = {
            "iteration_time": {
                "unit": "ms",
                "value": float(np.median(steady)),
                "samples": steady,
                "stopped": self.trained.stopped,
            },
            "first_step": {"unit": "s", "value": self.first_step_s},
            "compile_time": {"unit": "s", "value": self.compile_s or None},
            "peak_memory": {"unit": "MiB", "value": self.allocated_bytes / MIB},
            "process_memory": {"unit": "MiB", "value": self.process_mib},
            "energy": {"unit": "J", "value": energy},
            "gpu_busy_time": {"unit": "ms", "value": self.busy and self.busy.milliseconds},
            "kernels": {"unit": "1", "value": self.busy and self.busy.kernels},
        }
        return {name: metric for name, metric in metrics.items() if metric["value"] is not None}


def _train(problem: _Problem, model: GPT) -> tuple[_Measured, Trainer]:
    """Train; then, with all else measured, profile a few further iterations on a GPU."""
    device = problem.run["device"]
    meter, watch = _EnergyMeter(device), clocks.Watch(device)
    begin = perf_counter()
    trainer = problem.trainer(model)
    first: list[tuple[float, float]] = []

    def report(iteration: int, loss: float, seconds: float) -> None:
        if not first:
            first.append((perf_counter() - begin, _compile_seconds()))
        if iteration > WARM_UP_ITERATIONS:
            watch.look()
        _print_progress(iteration, loss, seconds)

    trained = trainer.train(report, before_steady=meter.start)
    joules = meter.joules()
    allocated = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    measured = _Measured(
        trained,
        *first[0],
        joules=joules,
        process_mib=_process_mib(device),
        allocated_bytes=allocated,
        clocks=watch.seen(),
        busy=busy_iteration(trainer.step, device) if device == "cuda" else None,
    )
    return measured, trainer


def _peak_bytes_on_cpu(problem: _Problem) -> int:
    """The allocator's peak of two iterations, which no later one exceeds, in a pass of its own."""

    def two_iterations() -> None:
        trainer = problem.trainer(problem.model())
        trainer.step()
        trainer.step()

    return memory.allocated_on_cpu(lambda: None, two_iterations)


def _compiled(model: GPT, compile_s: float) -> dict[str, Any]:
    """The graphs of torch.compile, their breaks, and the attentions that it fused."""
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "attentions_fused": counters["inductor"]["fuse_attention"],
        "seconds_after_first_step": _compile_seconds() - compile_s,
    }


def measure(kernel: ModuleType, run: Mapping[str, Any], protocol: Mapping[str, Any]) -> Any:
    """Train, then check the gradients; each raises what the implementation raises.

    What torch.compile keeps between processes is kept in a folder of this run's own, so that each
    compiles everything. Returns the metrics of a record, its curves, what the gate compared, the
    warnings and the details.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-compiled-") as folder:
        os.environ.update({name: str(Path(folder, name.lower())) for name in CACHES})
        return _measure(kernel, run, protocol)


def _measure(kernel: ModuleType, run: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    problem, text = _problem(kernel, run, settings)
    device = run["device"]
    load, states = environment.LoadMeter(), environment.gpu_states(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    model = problem.model()
    synchronize(device)
    measured, trainer = _train(problem, model)
    states += environment.gpu_states(device)
    share = load.foreign_share()
    details = {
        "parameters": sum(p.numel() for p in model.parameters()) - model.wpe.weight.numel(),
        "text": text,
        "compiled": _compiled(model, measured.compile_s),
        **({"clocks": {"iteration_time": measured.clocks}} if measured.clocks else {}),
    }
    metrics = measured.metrics()
    forward = trainer.forward
    del trainer
    compared = _check(problem, model, forward)
    if device == "cpu":
        metrics["peak_memory"]["value"] = _peak_bytes_on_cpu(problem) / MIB
    steady = metrics["iteration_time"]
    timing = Timing(steady["value"] / 1e3, tuple(steady["samples"]), steady["stopped"])
    return {
        "metrics": metrics,
        "curves": {"loss": list(measured.trained.losses)},
        "gate": compared,
        "details": details,
        "warnings": [
            *environment.timing_warnings({"iteration_time": timing}),
            *environment.state_warnings(share, states),
        ],
    }


def _check(problem: _Problem, model: GPT, forward: Any) -> dict[str, Any]:
    """Compare the gradients at the initial weights, on a micro-batch of the run's own sizes."""
    gc.collect()
    torch.manual_seed(problem.run["seed"])
    model.initialise()
    model.train(problem.config.dropout == 0)
    tokens, targets = next(batches(problem.tokens, problem.run))
    return gate.check_gradients(model, forward, tokens, targets, problem.run)
