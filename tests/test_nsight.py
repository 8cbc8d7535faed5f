"""Reading what Nsight Compute prints: the kernels of each pass, in every unit; and what is none."""

from __future__ import annotations

from pathlib import Path

import nsight_csv
import pytest
from nsight_csv import COUNTED, MARKER, SPIN, cells, flash2, table

from flashlab import nsight
from flashlab.nsight import NsightError

PASSES = ("forward_time", "backward_time")


@pytest.mark.parametrize(
    ("name", "counters"),
    [
        ("forward_time", [1, 6.9, 318e6, 63]),
        ("backward_time", [3, 17.2, 1.4e9, 51 * 17.1 / 17.2]),  # weighted by time, and added up
    ],
)
def test_a_pass_has_the_kernels_after_its_marker(name: str, counters: list[float]) -> None:
    kernels = nsight.read_passes(flash2(), COUNTED, PASSES)[name]
    assert kernels[0]["name"].startswith(("void flash_fwd_kernel", "flash_bwd_kernel_0"))
    found = nsight.of_pass(kernels)
    told = [found[each] for each in ("kernels", "busy_time", "dram_bytes", "matrix_activity")]
    assert told == pytest.approx(counters)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *(("1,500 nsecond", 0.0015), ("18.5 usecond", 0.0185), ("2 ms", 2), ("1.25 second", 1250)),
        *(("2,048 byte", 2048), ("1.5 Kbyte", 1500), ("318.00 Mbyte", 318e6), ("4 Gbyte", 4e9)),
    ],
)
def test_times_and_bytes_are_read_in_every_unit(cell: str, number: float) -> None:
    at, name = (1, "dram_bytes") if cell.endswith("byte") else (0, "busy_time")
    printed = table([(MARKER, SPIN), ("k", (*SPIN[:at], *cells(cell), *SPIN[at + 1 :]))])
    (kernels,) = nsight.read_passes(printed, COUNTED, PASSES[:1]).values()
    assert nsight.of_pass(kernels)[name] == pytest.approx(number)


NO_BYTES = [line for line in flash2().splitlines() if "dram__bytes" not in line or "spin" in line]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no kernel: its output has no table"),
        ("==ERROR== Failed to find metric sm__x\n", "no kernel: ==ERROR== Failed to find metric"),
        (table([("k", (*cells("1 fortnight"), *SPIN[1:]))]), "in 'fortnight'"),
        (table([("k", (*cells("n/a ns"), *SPIN[1:]))]), "gives no gpu__time_duration.sum: 'n/a'"),
        ("\n".join(NO_BYTES), r"gives no dram__bytes.sum of void flash_fwd_kernel"),
        (table([(MARKER, SPIN)]), r"\[0\] kernels in 1 passes, where there are 2"),
    ],
    ids=["nothing", "an error", "a unit", "no number", "a metric that is missing", "a marker"],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(NsightError, match=told):
        nsight.read_passes(text, COUNTED, PASSES)


def test_a_refusal_of_the_driver_is_told_with_the_remedy() -> None:
    with pytest.raises(NsightError, match=r"ERR_NVGPUCTRPERM.*administrator"):
        nsight.check_permission("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")


def test_the_clocks_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in (None, "2025.3.1.0"):
        nsight.version.cache_clear()
        assert nsight.version() == version
        nsight_csv.install(tmp_path)
    nsight.version.cache_clear()
    found = nsight.command("log.csv", ["python", "x.py"], COUNTED)
    assert found[:5] == ["ncu", "--profile-from-start", "off", "--clock-control", "none"]
    assert "dram__bytes.sum" in found[found.index("--metrics") + 1].split(",")
