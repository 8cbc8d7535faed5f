"""Nsight Compute: its version, its command line, and the counters of each pass in its CSV.

Nothing here imports torch. Counters depend on this module, so an edit counts again.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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

SUMS = frozenset(
    {
        *("busy_time", "dram_bytes", "global_load_bytes", "global_store_bytes"),
        *("shared_load_bytes", "shared_store_bytes", "bank_conflicts", "instructions"),
    }
)
"""Counters of which a pass has the sum over its kernels; of others it has the mean by time."""

UNITS = {
    **{"busy_time": "ms", "dram_bytes": "B"},
    **{"global_load_bytes": "B", "global_store_bytes": "B"},
    **{"shared_load_bytes": "wavefronts", "shared_store_bytes": "wavefronts"},
    **{"warp_efficiency": "threads"},
    **{"bank_conflicts": "1", "instructions": "1"},
    **{"matrix_activity": "%", "occupancy": "%", "compute_share": "%", "memory_share": "%"},
    **{"sm_efficiency": "%", "fp32_activity": "%"},
}

WAVEFRONT_BYTES = 128
"""Bytes that shared memory moves in one wavefront: a word of each of its 32 banks."""

WARP_THREADS = 32

PLAIN = {"1": 1.0, "wavefronts": float(WAVEFRONT_BYTES), "threads": 100 / WARP_THREADS}
"""Factors to our units of counts, which Nsight Compute gives unscaled."""

FACTORS = {
    "ms": {
        **{"nsecond": 1e-6, "usecond": 1e-3, "msecond": 1.0, "second": 1e3},
        **{"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3},
    },
    "B": {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    "%": {"%": 1.0},
}
"""By our unit, the factors of Nsight Compute's, which change from row to row."""

MARKER = "spin_kernel"
"""The kernel launched ahead of each pass (`torch.cuda._sleep`), which tells the passes apart: a
range pushed by the calling thread would not hold what autograd's own thread launches."""

NO_PERMISSION = "ERR_NVGPUCTRPERM"


class NsightError(Exception):
    """Nsight Compute cannot be started, or did not give the counters."""


@dataclass(frozen=True)
class Kernel:
    """One launched kernel and its counters, by our own names, in our units."""

    name: str
    counted: Mapping[str, float]


@cache
def version() -> str | None:
    """The version of the Nsight Compute on PATH; None where there is none."""
    program = shutil.which(PROGRAM)
    if program is None:
        return None
    try:
        printed = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"Version (\S+)", printed)
    return match[1] if match else None


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


def _number(cell: str, unit: str, ours: str, metric: str) -> float:
    factor = PLAIN.get(ours) or FACTORS[ours].get(unit)
    if factor is None:
        raise NsightError(f"Nsight Compute gives {metric} in {unit!r}, which is not known")
    try:
        return float(cell.replace(",", "")) * factor
    except ValueError as error:
        raise NsightError(f"Nsight Compute gives no {metric}: {cell!r}") from error


def check_permission(log: str) -> None:
    """NsightError where Nsight Compute was not allowed to read the counters."""
    if NO_PERMISSION in log:
        raise NsightError(
            f"Nsight Compute may not read the GPU's counters ({NO_PERMISSION}); an administrator "
            "can allow it: https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )


def read_kernels(log: str, counted: Iterable[str]) -> list[Kernel]:
    """The kernels of Nsight Compute's CSV, a row for each kernel and metric, in order of launch.

    Raises:
        NsightError: it holds no such rows, or a kernel lacks a metric that is `counted`.
    """
    metrics = metrics_for(counted)
    lines = log.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        said = [line for line in lines if line.startswith("==ERROR==")]
        raise NsightError(
            "Nsight Compute counted no kernel: " + (said[0] if said else "its output has no table")
        )
    ours = {theirs: name for name, theirs in metrics.items()}
    names: dict[str, str] = {}
    counted_by: dict[str, dict[str, float]] = {}
    rows = csv.DictReader(io.StringIO("\n".join(lines[header:])))
    for row in rows:
        if (row["ID"] or "").startswith("==") or row.get("Metric Name") not in ours:
            continue
        metric = row["Metric Name"]
        name = ours[metric]
        value = _number(row["Metric Value"], row["Metric Unit"], UNITS[name], metric)
        names[row["ID"]] = row["Kernel Name"]
        counted_by.setdefault(row["ID"], {})[name] = value
    for kernel, values in counted_by.items():
        if lacking := metrics.keys() - values.keys():
            theirs = metrics[min(lacking)]
            raise NsightError(f"Nsight Compute gives no {theirs} of {names[kernel]}")
    return [Kernel(names[kernel], counted_by[kernel]) for kernel in sorted(counted_by, key=int)]


def split_passes(kernels: Sequence[Kernel], passes: Sequence[str]) -> dict[str, list[Kernel]]:
    """The kernels of each pass, which follow its marker.

    Raises:
        NsightError: there are not as many markers as passes, or a pass has no kernel.
    """
    groups: list[list[Kernel]] = []
    for kernel in kernels:
        if MARKER in kernel.name:
            groups.append([])
        elif groups:
            groups[-1].append(kernel)
    if len(groups) != len(passes) or not all(groups):
        raise NsightError(
            f"Nsight Compute counted {[len(group) for group in groups]} kernels in {len(groups)} "
            f"passes, where there are {len(passes)}: {', '.join(passes)}"
        )
    return dict(zip(passes, groups, strict=True))


def of_pass(kernels: Sequence[Kernel]) -> dict[str, float]:
    """The counters of a pass, by our own names."""
    total = sum(kernel.counted["busy_time"] for kernel in kernels)
    counters = {"kernels": float(len(kernels))}
    for name in kernels[0].counted:
        if name in SUMS:
            counters[name] = sum(kernel.counted[name] for kernel in kernels)
        else:
            weighted = (kernel.counted[name] * kernel.counted["busy_time"] for kernel in kernels)
            counters[name] = sum(weighted) / total if total else 0.0
    return counters


def details(passes: Mapping[str, Sequence[Kernel]]) -> dict[str, Any]:
    """The kernels of each pass with their counters, as a record keeps them."""
    return {
        "kernels": {
            name: [{"name": kernel.name, **kernel.counted} for kernel in kernels]
            for name, kernels in passes.items()
        }
    }
