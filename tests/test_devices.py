"""One table of device facts: every figure has a source, and a name finds its own row or none."""

from __future__ import annotations

import csv

import pytest

from flashlab.devices import DEVICES_CSV, find_device, known_devices

WORKSPACES = {"9.0": 2 * 32 * 1024**2, "10.0": None}
"""What PyTorch takes by default; not established after 9.0."""
BEFORE_HOPPER = 2 * 8320 * 1024


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("NVIDIA H200", "H200"), ("NVIDIA H200 MIG 1g.18gb", None)),
        *(("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"), ("NVIDIA H100 PCIe", "H100 PCIe")),
        *(("A100-SXM4-80GB", "A100-SXM4-80GB"), ("Tesla T4", "T4"), ("NVIDIA L40S", "L40S")),
        *(("NVIDIA GeForce RTX 3070", "RTX 3070"), ("RTX 3070", "RTX 3070"), ("rtx3070", None)),
        *(("NVIDIA GeForce RTX 3070 Ti", None), ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti")),
        *(("Abacus", None), ("NVIDIA", None), ("", None), (None, None)),
    ],
)
def test_a_device_is_found_by_its_own_name_only(name: str | None, found: str | None) -> None:
    device = find_device(name)
    assert (device.name if device else None) == found


def test_every_figure_is_plausible_and_has_its_source() -> None:
    with DEVICES_CSV.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["device"] for row in rows}) == len(rows)
    for row, device in zip(rows, known_devices(), strict=True):
        assert row["source"].startswith("NVIDIA") and row["l2_source"]
        assert bool(row["cublas_workspaces_source"]) == bool(row["cublas_workspaces_bytes"])
        assert device.peak_tflops["float16"] > device.peak_tflops["float32"] > 0
        assert 100 < device.bandwidth < 10_000
        assert 2**21 < device.l2_bytes < 2**28
        assert 8 <= device.memory_gb <= 288
        expected = WORKSPACES.get(device.compute_capability, BEFORE_HOPPER)
        assert device.cublas_workspaces == expected
