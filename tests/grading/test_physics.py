"""The bounds that no sound result can break, from the same bytes that the analysis counts."""

from __future__ import annotations

import pytest

from flashlab.benchmarks.attention.costs import compulsory_bytes
from flashlab.course.declaration import Declaration
from flashlab.course.identity import Candidate
from flashlab.course.results import Numbers
from flashlab.course.words import FLASH2, NAIVE
from flashlab.devices import Device, find_device, known_devices
from flashlab_grading.model import Result
from flashlab_grading.physics import (
    PASSES,
    bytes_moved,
    check_physics,
)

# Short heads and rows, whose time is that of moving their bytes.
FAMILY = Candidate(FLASH2, 2**18, 16, 8, False)


def device(name: str) -> Device:
    found = find_device(name)
    assert found is not None
    return found


def test_what_need_not_move_is_not_counted() -> None:
    """A fused kernel moves what is compulsory, the other its scores too, and the L2 holds some."""
    compulsory = compulsory_bytes(FAMILY.shape, "float16")
    assert [bytes_moved(FAMILY, name, 0) for name in PASSES] == [compulsory[n] for n in PASSES]
    naive = Candidate(NAIVE, 64, 2048, 64, False, copied=True)
    least = compulsory_bytes(naive.shape, "float16")["forward"]
    assert bytes_moved(naive, "forward", 0) == least + 4 * 2 * 64 * 2048**2
    size = 2.0 * FAMILY.groups * FAMILY.seq_len * FAMILY.head_dim
    assert bytes_moved(FAMILY, "backward", size) == 2 * size + 0 + 2 * size
    assert bytes_moved(FAMILY, "backward", 4 * size) == 0


@pytest.mark.parametrize(("share", "verdict"), [(1.01, "pass"), (0.99, "fail")])
def test_a_backward_pass_is_refuted_only_below_the_time_of_its_compulsory_bytes(
    share: float, verdict: str
) -> None:
    gpu = device("NVIDIA H100 PCIe")
    least = bytes_moved(FAMILY, "backward", gpu.l2_bytes) / (1.1e9 * gpu.bandwidth)
    seconds = {"forward": least, "backward": share * least, "forward_backward": 2 * least}
    rates = dict.fromkeys(seconds, 1.0)
    declared = Declaration("runs.csv", device_name="NVIDIA H100 PCIe")
    result = Result("a.json", Numbers(seconds, rates, 1.0), declared)
    line = check_physics(result, [FAMILY])
    assert line.verdict == verdict
    assert line.params["device"] == "H100 PCIe"


@pytest.mark.parametrize(
    ("name", "code"),
    [("NVIDIA H100 PCIe", "pass"), (None, "pass_unknown"), ("AMD EPYC (2 CPUs)", "cpu")],
)
@pytest.mark.parametrize(("share", "is_possible"), [(0.99, True), (1.01, False)])
def test_no_rate_is_above_the_devices_ceiling(
    name: str | None, code: str, share: float, is_possible: bool
) -> None:
    known = [device(name)] if name == "NVIDIA H100 PCIe" else known_devices()
    ceiling = 1.25 * max(gpu.peak_tflops["float16"] for gpu in known)
    seconds = dict.fromkeys((*PASSES, "forward_backward"), 1.0)
    rates = {**seconds, "backward": share * ceiling}
    declared = Declaration("runs.csv", device_name=name)
    line = check_physics(Result("a.json", Numbers(seconds, rates, 1.0), declared), [])
    assert line.code == f"physics.{code if is_possible else 'rate'}"
    assert is_possible or line.params["pass"] == "backward"
