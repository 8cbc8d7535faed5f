"""The state of the GPU while a pass is timed: its clock, its power, and whether that limits it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

import torch

from flashlab import machine

LOOK_SECONDS = 0.05
"""Least time between two looks."""

MIN_SECONDS = 0.25
"""Shortest watch that counts, in seconds: the driver renews its figures several times in it."""

POWER_CAP = 0x4 | 0x80
"""NVML's reasons SwPowerCap and HwPowerBrakeSlowdown."""


def gpu_uuid() -> str:
    """The UUID of the GPU that this process computes on, as NVML writes it."""
    return f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"


def energy_consumed() -> float | None:
    """The GPU's energy since its driver was loaded, in J; None where nothing counts it."""
    nvml = machine.nvml()
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu_uuid())
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)
    return None


class Watch:
    """Reads the GPU's state between batches of calls, when nothing runs on it or is timed."""

    def __init__(self, device: str) -> None:
        self._looks: list[tuple[float, float, bool]] = []
        self._begin, self._last = perf_counter(), -LOOK_SECONDS
        self._nvml = machine.nvml() if device == "cuda" else None
        if self._nvml is not None:
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(gpu_uuid())

    def look(self) -> None:
        """Read the state, unless the last time was just now."""
        nvml, now = self._nvml, perf_counter()
        if nvml is None or now < self._last + LOOK_SECONDS:
            return
        self._last = now
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        (power,) = nvml.nvmlDeviceGetFieldValues(self._handle, [nvml.NVML_FI_DEV_POWER_INSTANT])
        clock = float(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM))
        self._looks.append((clock, power.value.uiVal / 1e3, bool(reasons & POWER_CAP)))

    def seen(self) -> Mapping[str, Any] | None:
        """Medians and extremes of clock (MHz) and power (W), and the share of looks at the limit.

        None for a pass that was over too soon to tell.
        """
        if self._last - self._begin < MIN_SECONDS:
            return None
        clocks, powers, capped = zip(*self._looks, strict=True)
        return {
            "looks": len(self._looks),
            "sm_clock_MHz": [min(clocks), statistics.median(clocks), max(clocks)],
            "power_W": [min(powers), statistics.median(powers), max(powers)],
            "at_power_limit": round(sum(capped) / len(capped), 3),
        }
