from __future__ import annotations

import pytest

from flashlab.grading.gpus import FASTEST, GPUS, find_gpu


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA GeForce RTX 3070", "RTX 3070"),
        ("rtx3070", None),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 3070 Ti", None),
        ("NVIDIA GeForce RTX 3070 Laptop GPU", None),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("Abacus", None),
        ("", None),
        (None, None),
    ],
)
def test_a_device_is_known_by_its_name(name: str | None, found: str | None) -> None:
    gpu = find_gpu(name)
    assert (gpu.name if gpu else None) == found


def test_the_fastest_is_faster_than_any() -> None:
    assert all(gpu.ceiling <= FASTEST.ceiling for gpu in GPUS)
