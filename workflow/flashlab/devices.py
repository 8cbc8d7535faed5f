"""Vendors' figures of GPUs, from ``data/devices.csv``, by the device's own name.

Every figure has its source in the same row. Rates are of dense products, without sparsity, at the
stated boost clock; float16 is accumulated in float32. Where several cards share one name, as the
RTX 3080 with 10 and with 12 GB do, the row describes the fastest, so that no true result looks
impossible. What a multiprocessor does in a cycle: operations on ``float32_lanes``, ``shared_bytes``
of its shared memory, and ``issued`` instructions of warps.

A GPU's two cuBLAS workspaces are held by PyTorch: one for the handle of the thread that runs the
forward pass, one for that of the thread on which autograd runs the backward pass.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

DEVICES_CSV = Path(__file__).parents[2] / "data" / "devices.csv"

_DTYPES = ("float16", "float32")


@dataclass(frozen=True)
class Device:
    """The facts of one GPU.

    Attributes:
        name: the driver's name of it, without the brand: ``RTX 3070``, ``A100-SXM4-40GB``.
        peak_tflops: dense TFLOP/s by dtype, ``float16`` and ``float32``.
        bandwidth: GB/s (10⁹ bytes) between chip and memory.
        l2_bytes: size of the L2 cache.
        memory_gb: size of the memory in GB as the vendor states it.
        compute_capability: CUDA's, such as ``8.6``.
        cublas_workspaces: bytes of PyTorch's two cuBLAS workspaces; None where not established.
        shared_rate: bytes a second between all multiprocessors and their shared memories.
        issue_rate: instructions of warps a second that all multiprocessors can issue.
    """

    name: str
    peak_tflops: Mapping[str, float] = field(hash=False)
    bandwidth: float
    l2_bytes: int
    memory_gb: float
    compute_capability: str
    cublas_workspaces: int | None
    shared_rate: float
    issue_rate: float


@cache
def known_devices() -> tuple[Device, ...]:
    """The devices of ``data/devices.csv``, in its order."""
    devices = []
    with DEVICES_CSV.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            # Cycles a second of all multiprocessors: a lane ends two operations in each.
            cycles = float(row["float32_TFLOPs"]) * 1e12 / 2 / int(row["float32_lanes"])
            device = Device(
                name=row["device"],
                peak_tflops={dtype: float(row[f"{dtype}_TFLOPs"]) for dtype in _DTYPES},
                bandwidth=float(row["bandwidth_GBs"]),
                l2_bytes=int(row["l2_KiB"]) * 1024,
                memory_gb=float(row["memory_GB"]),
                compute_capability=row["compute_capability"],
                cublas_workspaces=int(row["cublas_workspaces_bytes"] or 0) or None,
                shared_rate=cycles * int(row["shared_bytes"]),
                issue_rate=cycles * int(row["issued"]),
            )
            devices.append(device)
    return tuple(devices)


def _model(name: str) -> str:
    """A device's name in lower case, without the brand, its words separated by single spaces."""
    words = re.sub("[^a-z0-9]+", " ", name.lower()).strip()
    return re.sub(r"^(nvidia )?((geforce|tesla) )?", "", words)


def find_device(name: str | None) -> Device | None:
    """The device that a name, such as ``NVIDIA GeForce RTX 3070``, is exactly that of.

    None for any other name: an RTX 4070 Ti is not an RTX 4070, nor is a part of an H200 an H200.
    """
    if name is None:
        return None
    model = _model(name)
    return next((device for device in known_devices() if _model(device.name) == model), None)


def kind_of_device(name: str | None) -> str:
    """One name for all ways to write a known device's; any other name as it is."""
    return device.name if (device := find_device(name)) else name or ""
