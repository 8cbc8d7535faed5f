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
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch._dynamo.utils import calculate_time_spent, counters

from flashlab import machine
from flashlab.benchmarks.training import corpus, gate
from flashlab.benchmarks.training.busy import busy_iteration
from flashlab.benchmarks.training.loop import WARM_UP_ITERATIONS, Forward, Trainer, batches
from flashlab.benchmarks.training.model import GPT, GPTConfig
from flashlab.measuring import clocks, environment, memory
from flashlab.measuring.protocols import Timing, synchronize

MIB = 1024**2
TEXT_SEED = 0
REPORT_EVERY = 10
"""Iterations from one progress line to the next, after the first."""

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")

SIZES = ("n_layer", "n_head", "n_embd", "block_size")


def _model(
    kernel: ModuleType, run: Mapping[str, Any], settings: Mapping[str, Any], vocab_size: int
) -> GPT:
    """The model with its initial weights, which the run's seed gives on every device alike."""
    torch.manual_seed(run["seed"])
    sizes = {name: run[name] for name in SIZES}
    config = GPTConfig(
        **sizes, vocab_size=vocab_size, bias=settings["bias"], dropout=settings["dropout"]
    )
    return GPT(config, kernel.attention).to(run["device"])


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
    nvml = machine.nvml()
    handle = nvml.nvmlDeviceGetHandleByUUID(clocks.gpu_uuid())
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    mine = [process for process in processes if process.pid == os.getpid()] or processes
    if len(mine) != 1 or mine[0].usedGpuMemory is None:
        return None
    return float(mine[0].usedGpuMemory) / MIB


def _train(
    model: GPT, tokens: torch.Tensor, run: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[Forward, dict[str, Any]]:
    """Train; then, with all else measured, profile a few further iterations on a GPU.

    Returns the model as trained (compiled or not), and of the record the metrics that are known,
    the loss of each iteration, warnings and details.
    """
    device = run["device"]
    watch, on_gpu = clocks.Watch(device), device == "cuda"
    load, states = environment.LoadMeter(), environment.gpu_states(device)
    losses, steady = list[float](), list[float]()
    begin, first_step, compile_time, joules = perf_counter(), 0.0, 0.0, None
    trainer = Trainer(model, tokens, run, settings)
    for iteration, loss, seconds in trainer.train():
        if iteration == 1:
            first_step, compile_time = perf_counter() - begin, _compile_seconds()
        if iteration > WARM_UP_ITERATIONS:
            steady.append(seconds)
            watch.look()
        losses.append(loss)
        _print_progress(iteration, loss, seconds)
        if iteration == WARM_UP_ITERATIONS and on_gpu:
            joules = clocks.energy_consumed()
    used = clocks.energy_consumed() if on_gpu else None
    allocated = torch.cuda.max_memory_allocated() if on_gpu else 0
    process_mib, clock = _process_mib(device), watch.seen()
    states += environment.gpu_states(device)
    state = environment.state_warnings(load.foreign_share(), states)
    busy = busy_iteration(trainer.step, device) if on_gpu else None
    timing = Timing(float(np.median(steady)), tuple(steady), trainer.stopped)
    measured: dict[str, tuple[str, float | None]] = {
        "first_step": ("s", first_step),
        "compile_time": ("s", compile_time or None),
        "peak_memory": ("MiB", allocated / MIB),
        "process_memory": ("MiB", process_mib),
        "energy": ("J", (used - joules) / len(steady) if used and joules else None),
        "gpu_busy_time": ("ms", busy and busy[0]),
        "kernels": ("1", busy and busy[1]),
    }
    known = {
        name: {"unit": unit, "value": value}
        for name, (unit, value) in measured.items()
        if value is not None
    }
    compiled = {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "attentions_fused": counters["inductor"]["fuse_attention"],
        "seconds_after_first_step": _compile_seconds() - compile_time,
    }
    clock_of = {"clocks": {"iteration_time": clock}} if clock else {}
    return trainer.forward, {
        "metrics": {"iteration_time": timing.to_json(), **known},
        "curves": {"loss": losses},
        "details": {"compiled": compiled, **clock_of},
        "warnings": [*environment.timing_warnings({"iteration_time": timing}), *state],
    }


def measure(kernel: ModuleType, run: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Train, then check the gradients; each raises what the implementation raises.

    What torch.compile keeps between processes is kept in a folder of this run's own, so that each
    compiles everything. Returns the metrics of a record, its curves, what the gate compared, the
    warnings and the details.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-compiled-") as folder:
        os.environ.update({name: str(Path(folder, name.lower())) for name in CACHES})
        device, text = run["device"], corpus.synthesize(TEXT_SEED)
        numbers, vocab_size = corpus.encode(text)
        tokens = torch.tensor(numbers)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        new_model = partial(_model, kernel, run, settings, vocab_size)
        model = new_model()
        synchronize(device)
        forward, record = _train(model, tokens, run, settings)
        parameters = sum(p.numel() for p in model.parameters()) - model.wpe.weight.numel()
        record["details"] |= {
            "parameters": parameters,
            "text": {
                "name": "synthetic",
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "characters": len(text),
                "training_tokens": len(numbers),
                "vocabulary": vocab_size,
            },
        }
        # The gradients at the initial weights, on a micro-batch of the run's own sizes.
        gc.collect()
        torch.manual_seed(run["seed"])
        model.initialise()
        model.train(settings["dropout"] == 0)
        record["gate"] = gate.check_gradients(model, forward, *next(batches(tokens, run)), run)
        if device == "cpu":

            def two_iterations() -> None:  # whose peak no later one exceeds
                trainer = Trainer(new_model(), tokens, run, settings)
                trainer.step()
                trainer.step()

            peak = memory.peak_memory(two_iterations, "cpu") / MIB
            record["metrics"]["peak_memory"]["value"] = peak
        return record
