"""The process that measures one run: imports torch and the kernel, checks, times, reports.

It is given an order (the run, its protocol, the kernel's file) and answers with the measured part
of a record. It dies with the process that started it.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch

from flashlab import costs
from flashlab.kernel_sources import PACKAGE
from flashlab.measuring import ceilings, environment, gate, memory, protocols
from flashlab.records import PASSES, Run, Shape, write_json

_NO_KERNEL = ("No available kernel", "No viable backend")
_ALLOCATION_FAILURES = ("can't allocate memory", "out of memory", "ALLOC_FAILED")


class _FromSource(importlib.machinery.SourceFileLoader):
    """Loads a file as it stands: cached bytecode of an edit in the same second could be older."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _KernelFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of the package ``kernels``, each loaded from its source."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _FromSource(fullname, spec.loader.path)
        return spec


def load_kernel(path: Path) -> ModuleType:
    """Import a kernel's file by its path, as a module of the package ``kernels``.

    It imports what lies beside it as ``kernels.lib.tiles`` or ``.lib.tiles``.
    """
    package = ModuleType(PACKAGE)
    package.__path__ = [str(path.parent.resolve())]
    sys.modules[PACKAGE] = package
    if not any(isinstance(finder, _KernelFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KernelFinder())
    name = f"{PACKAGE}.{path.stem}"
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _inputs(shape: Shape, dtype: str, device: str) -> torch.Tensor:
    """The packed qkv (B, N, 3, H, D), random, with gradients on."""
    size = (shape.batch_size, shape.seq_len, 3, shape.num_heads, shape.head_dim)
    return torch.randn(size, dtype=getattr(torch, dtype), device=device, requires_grad=True)


def _both_passes(attention: gate.Attention, run: Run) -> None:
    qkv = _inputs(run.shape, run.dtype, run.device)
    out = attention(qkv, run.shape.causal)
    out.backward(torch.randn_like(out), retain_graph=True)


def _time_passes(
    attention: gate.Attention, run: Run, protocol: dict[str, Any]
) -> dict[str, protocols.Timing]:
    qkv = _inputs(run.shape, run.dtype, run.device)
    time_pass = protocols.PROTOCOLS[protocol["name"]]
    forward = time_pass(lambda: attention(qkv, run.shape.causal), protocol, run.device)
    out = attention(qkv, run.shape.causal)
    grad = torch.randn_like(out)

    def backward() -> None:
        qkv.grad = None
        out.backward(grad, retain_graph=True)

    return {"forward": forward, "backward": time_pass(backward, protocol, run.device)}


def describe_failure(error: BaseException, reasons: list[str]) -> tuple[str, str]:
    """Status and message of a run that ended in an exception, after these warnings.

    PyTorch says in warnings why none of the kernels that a backend has will do.
    """
    said = str(error) or type(error).__name__
    if any(part in said for part in _NO_KERNEL):
        return "unsupported", "; ".join([said, *reasons])
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return "oom", said
    if isinstance(error, gate.IncorrectError):
        return "incorrect", said
    if isinstance(error, NotImplementedError):
        return "unsupported", said
    if isinstance(error, RuntimeError) and any(part in said for part in _ALLOCATION_FAILURES):
        return "oom", said
    return "error", f"{type(error).__name__}: {said}"


def _measured(run: Run, timings: dict[str, protocols.Timing], peak_memory: int) -> dict[str, Any]:
    """The four keys of the course's script."""
    seconds = {name: timing.seconds for name, timing in timings.items()}
    seconds["forward_backward"] = seconds["forward"] + seconds["backward"]
    flops = costs.flops(run.shape)
    return {
        **{
            name: {
                "time(s)": seconds[name],
                "FLOPS(TFLOPs/s)": flops[name] / seconds[name] / 1e12,
            }
            for name in PASSES
        },
        "peak_memory_usage(MB)": peak_memory / costs.MIB,
    }


def _provider(kernel: ModuleType, device: str) -> str:
    """Whose code the kernel runs on this device: its own word, else PyTorch's version."""
    provider: Callable[[str], str] | None = getattr(kernel, "provider", None)
    return provider(device) if provider else f"torch {torch.__version__}"


def _checked_and_timed(
    attention: gate.Attention, run: Run, protocol: dict[str, Any]
) -> dict[str, Any]:
    """Check, then measure memory, then time; each raises what the implementation raises."""
    checked = gate.check_correctness(attention, run.shape, run.dtype, run.device)
    peak_memory = memory.peak_memory(lambda: _both_passes(attention, run), run.device)
    load, states = environment.LoadMeter(), environment.gpu_states(run.device)
    timings = _time_passes(attention, run, protocol)
    states += environment.gpu_states(run.device)
    return {
        "measured": _measured(run, timings, peak_memory),
        "gate": checked,
        "samples": {name: list(timing.samples) for name, timing in timings.items()},
        "stopped": {name: timing.stopped for name, timing in timings.items()},
        "warnings": [
            *(
                warning
                for name, timing in timings.items()
                for warning in environment.sample_warnings(name, timing.samples)
            ),
            *(
                {"code": "interval_not_reached", "pass": name}
                for name, timing in timings.items()
                if timing.stopped == "time"
            ),
            *environment.state_warnings(load.foreign_share(), states),
        ],
    }


def measure(run: Run, protocol: dict[str, Any], kernel: Path) -> dict[str, Any]:
    """Check and time a run in this process; the measured part of its record.

    Every failure of the implementation is an answer with a status of its own; only an
    interpreter that dies gives none.
    """
    torch.manual_seed(int.from_bytes(os.urandom(6)))
    found: dict[str, Any] = {
        "environment": environment.environment(run.device),
        "status": "ok",
        "message": None,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            module = load_kernel(kernel)
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found["environment"]["provider"] = _provider(module, run.device)
            found |= _checked_and_timed(module.attention, run, protocol)
        except Exception as error:  # the kernel is another's code: what it raises is its result
            traceback.print_exc()
            reasons = [str(warning.message) for warning in caught]
            found["status"], found["message"] = describe_failure(error, reasons)
    return found


def answer(order: Mapping[str, Any], path: Path, started_warm: bool) -> None:
    """Measure an order and write the answer whole to `path`.

    An order is a run with its protocol and kernel, or ``{"ceilings": device}``.
    """
    if "ceilings" in order:
        found = ceilings.measure(order["ceilings"])
    else:
        found = measure(Run.from_json(order["run"]), order["protocol"], Path(order["kernel"]))
    found["environment"]["started_warm"] = started_warm
    write_json(path, found)


def die_with_parent(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe `lifeline` is closed."""

    def wait() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Measure the order on the command line."""
    order, path, lifeline = sys.argv[1:]
    die_with_parent(int(lifeline))
    answer(json.loads(order), Path(path), started_warm=False)


if __name__ == "__main__":
    main()
