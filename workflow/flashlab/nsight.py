"""Nsight Compute: its version, its command line, and the counters of each pass in its CSV.

Nothing here imports torch. Counters depend on this module, so an edit counts again.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from statistics import fmean
from typing import Any

PROGRAM = "ncu"

METRICS = {
    "busy_time": "gpu__time_duration.sum",
    "dram_bytes": "dram__bytes.sum",
    "matrix_activity": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "compute_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_share": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "global_load_bytes": "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum",
    "global_store_bytes": "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum",
    "shared_load_bytes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_bytes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "instructions": "smsp__inst_executed.sum",
    "warp_efficiency": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "sm_efficiency": "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "fp32_activity": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
}
"""Nsight Compute's names of a kernel's counters, by our own.

A benchmark declares which of them it wants; the time in kernels is always among them.
"""

WAVEFRONT_BYTES, WARP_THREADS = 128, 32
"""Bytes that shared memory moves in one wavefront: a word of each of its 32 banks."""

_MS = dict(nsecond=1e-6, usecond=1e-3, msecond=1.0, second=1e3, ns=1e-6, us=1e-3, ms=1.0, s=1e3)
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
_PERCENT = {"%": 1.0}

FACTORS: Mapping[str, Mapping[str, float] | float] = {
    "busy_time": _MS,
    **dict.fromkeys(("dram_bytes", "global_load_bytes", "global_store_bytes"), _BYTES),
    **dict.fromkeys(("shared_load_bytes", "shared_store_bytes"), float(WAVEFRONT_BYTES)),
    **dict.fromkeys(("bank_conflicts", "instructions"), 1.0),
    "warp_efficiency": 100 / WARP_THREADS,
}
"""Factors to our units (ms, bytes, and percent of all others) from Nsight Compute's, which change
from row to row; of counts one alone, which it gives unscaled."""

MARKER = "spin_kernel"
"""The kernel launched ahead of each pass (`torch.cuda._sleep`), which tells the passes apart: a
range pushed by the calling thread would not hold what autograd's own thread launches."""


class NsightError(Exception):
    """Nsight Compute cannot be started, or did not give the counters."""


@cache
def version() -> str | None:
    """The version of the Nsight Compute on PATH; None where there is none."""
    command = [PROGRAM, "--version"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        if match := re.search(r"Version (\S+)", done.stdout):
            return match[1]
    return None


def metrics_for(counted: Iterable[str]) -> dict[str, str]:
    """Nsight Compute's names of these counters and of the time in kernels, by our own."""
    wanted = {"busy_time", *counted}
    return {name: theirs for name, theirs in METRICS.items() if name in wanted}


def command(log: str, program: Sequence[str], counted: Iterable[str]) -> list[str]:
    """The command that runs a program and writes its kernels' counters to the file `log`.

    The clocks are left as they are, and only what the program asks for is counted.
    """
    return [
        *(PROGRAM, "--profile-from-start", "off", "--clock-control", "none"),
        *("--csv", "--log-file", log, "--metrics", ",".join(metrics_for(counted).values())),
        *program,
    ]


def _number(cell: str, unit: str, name: str) -> float:
    factors = FACTORS.get(name, _PERCENT)
    try:
        factor = factors if isinstance(factors, float) else factors[unit]
        return float(cell.replace(",", "")) * factor
    except KeyError as error:
        message = f"Nsight Compute gives {METRICS[name]} in {unit!r}, which is not known"
        raise NsightError(message) from error
    except ValueError as error:
        raise NsightError(f"Nsight Compute gives no {METRICS[name]}: {cell!r}") from error


def _kernels(log: str, counted: Iterable[str]) -> list[dict[str, Any]]:
    """The launched kernels of Nsight Compute's CSV in order: ``name``, and counters by our names.

    The CSV has a row for each kernel and metric. NsightError as of `read_passes`.
    """
    ours = {theirs: name for name, theirs in metrics_for(counted).items()}
    lines = log.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        errors = (line for line in lines if line.startswith("==ERROR=="))
        said = next(errors, "its output has no table")
        raise NsightError(f"Nsight Compute counted no kernel: {said}")
    kernels: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(lines[header:]):
        number, name = row["ID"] or "", ours.get(row.get("Metric Name") or "")
        if name and not number.startswith("=="):
            kernel = kernels.setdefault(number, {"name": row["Kernel Name"]})
            kernel[name] = _number(row["Metric Value"], row["Metric Unit"], name)
    for kernel in kernels.values():
        if lacking := {*ours.values()} - kernel.keys():
            said = f"{METRICS[min(lacking)]} of {kernel['name']}"
            raise NsightError(f"Nsight Compute gives no {said}")
    return [kernels[number] for number in sorted(kernels, key=int)]


def read_passes(
    log: str, counted: Iterable[str], passes: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The kernels of each pass, which follow its marker: ``name``, and counters by our names.

    NsightError where a kernel lacks a counter that is `counted`, there are not as many markers as
    passes, or a pass has no kernel.
    """
    groups: list[list[dict[str, Any]]] = []
    for kernel in _kernels(log, counted):
        if MARKER in kernel["name"]:
            groups.append([])
        elif groups:
            groups[-1].append(kernel)
    if len(groups) != len(passes) or not all(groups):
        raise NsightError(
            f"Nsight Compute counted {[len(group) for group in groups]} kernels in {len(groups)} "
            f"passes, where there are {len(passes)}: {', '.join(passes)}"
        )
    return dict(zip(passes, groups, strict=True))


def of_pass(kernels: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The counters of a pass, by our own names: sums over its kernels, or means by their time."""
    times = [kernel["busy_time"] for kernel in kernels]
    counters = {"kernels": float(len(kernels))}
    for name in kernels[0].keys() - {"name"}:
        values = [kernel[name] for kernel in kernels]
        mean = fmean(values, times) if any(times) else 0.0
        counters[name] = sum(values) if METRICS[name].endswith(".sum") else mean
    return counters
