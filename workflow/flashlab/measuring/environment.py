"""The environment of a measurement: device state, and signs that it was disturbed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import psutil
import torch

from flashlab import machine
from flashlab.measuring.clocks import gpu_uuid
from flashlab.measuring.protocols import Timing
from flashlab.statistics import MARGIN, visible_states

OUTLIER_SHARE = 0.1
"""Largest share of samples outside Tukey's fences (1.5 quartile ranges) that needs no warning."""

MALLOC = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""Variables by which glibc's allocator keeps what is freed, or gives it back."""

FOREIGN_LOAD = 0.1
"""Largest share of the machine's CPU time, used by other processes, that needs no warning."""

_HARMLESS_CLOCK_REASONS = 0x1 | 0x2
"""NVML's GpuIdle and ApplicationsClocksSetting."""


def gpu_states(device: str) -> list[dict[str, Any]]:
    """The state of the GPU that this process computes on, as a list; empty on the CPU.

    Clocks (MHz), temperature (°C), power limit (W), clock reasons, other processes' count.
    """
    if device == "cpu":
        return []
    nvml = machine.nvml()
    handle = nvml.nvmlDeviceGetHandleByUUID(gpu_uuid())
    state = {
        "sm_clock_MHz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_MHz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "temperature_C": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_limit_W": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "clock_reasons": nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        # Counted only: in a container their ids are the host's.
        "other_processes": max(0, len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) - 1),
    }
    return [state]


def environment(device: str) -> dict[str, Any]:
    """What this process alone can tell for the record (`machine.surroundings` has the rest)."""
    states = gpu_states(device)
    return {
        "threads": torch.get_num_threads(),
        "malloc": {name: os.environ[name] for name in sorted(os.environ) if name in MALLOC},
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if states else None,
        **({"gpu": states[0]} if states else {}),
    }


class LoadMeter:
    """The share of the machine's CPU time that went to other processes since the meter was made."""

    def __init__(self) -> None:
        self._before = self._read()

    def _read(self) -> tuple[float, float, float]:
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        return sum(times[:8]), idle, own.user + own.system

    def foreign_share(self) -> float:
        """Share between 0 and 1 of all CPU time; 0 over a time too short to tell."""
        total, idle, own = np.subtract(self._read(), self._before).tolist()
        return max(0.0, (total - idle - own) / total) if total > 0 else 0.0


def sample_warnings(name: str, samples: Sequence[float]) -> list[dict[str, Any]]:
    """Warnings about one metric's samples: they drift, change between two states, or scatter.

    Drift is the change of the median from the first third of the samples to the last. Both count
    beyond the margin.
    """
    values, third = np.asarray(samples), len(samples) // 3
    if third < 3:
        return []
    found = list[dict[str, Any]]()
    drift = float(np.median(values[-third:]) / np.median(values[:third])) - 1
    if abs(drift) > MARGIN:
        found.append({"code": "drift", "share": round(drift, 4)})
    if states := visible_states(samples):
        found.append({"code": "states", "share": round(states[1] / states[0] - 1, 4)})
    low, high = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (high - low)
    outside = int(np.sum((values < low - reach) | (values > high + reach)))
    if outside > OUTLIER_SHARE * len(values):
        found.append({"code": "outliers", "count": outside, "samples": len(values)})
    return [{"metric": name, **warning} for warning in found]


def timing_warnings(timings: Mapping[str, Timing]) -> list[dict[str, Any]]:
    """Warnings about timed metrics: their samples', and an interval that was not reached."""
    found = [w for name, timing in timings.items() for w in sample_warnings(name, timing.samples)]
    short = [name for name, timing in timings.items() if timing.stopped == "time"]
    return [*found, *({"code": "interval_not_reached", "metric": name} for name in short)]


def state_warnings(foreign_share: float, states: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Warnings that the machine's state gives: load from elsewhere, throttling, a shared GPU."""
    reasons = reduce(or_, (state["clock_reasons"] for state in states), 0)
    others = max((state["other_processes"] for state in states), default=0)
    signs = [
        ("cpu_load", "share", round(foreign_share, 3) if foreign_share > FOREIGN_LOAD else 0),
        ("throttled", "reasons", reasons & ~_HARMLESS_CLOCK_REASONS),
        ("shared_device", "processes", others),
    ]
    return [{"code": code, what: value} for code, what, value in signs if value]
