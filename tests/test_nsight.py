from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nsight_csv
import pytest
from nsight_csv import COUNTED, FORWARD, MARKER, NAIVE, SPIN, Cells, flash2, table

from flashlab import nsight
from flashlab.nsight import NsightError

PASSES = ("forward_time", "backward_time")


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    nsight.version.cache_clear()
    yield
    nsight.version.cache_clear()


def naive_forward() -> dict[str, float]:
    kernels = [(MARKER, SPIN), *((name, NAIVE[name]) for name in FORWARD)]
    passes = nsight.read_passes(table(kernels), COUNTED, PASSES[:1])
    return nsight.of_pass(passes["forward_time"])


def read(cells: Cells) -> dict[str, float]:
    """The counters of a kernel with these cells."""
    passes = nsight.read_passes(table([(MARKER, SPIN), ("k", cells)]), COUNTED, PASSES[:1])
    return nsight.of_pass(passes["forward_time"])


# Passes


def test_each_pass_has_the_kernels_after_its_marker() -> None:
    passes = nsight.read_passes(flash2(), COUNTED, PASSES)
    assert [len(passes[name]) for name in PASSES] == [1, 3]
    assert passes["forward_time"][0]["name"].startswith("void flash_fwd_kernel")
    forward, backward = (nsight.of_pass(passes[name]) for name in PASSES)
    assert forward["kernels"] == 1
    assert forward["busy_time"] == pytest.approx(6.9)
    assert forward["dram_bytes"] == pytest.approx(318e6)
    assert forward["matrix_activity"] == pytest.approx(63)
    assert backward["dram_bytes"] == pytest.approx(1.4e9)
    assert backward["busy_time"] == pytest.approx(17.2)
    assert backward["matrix_activity"] == pytest.approx(51 * 17.1 / 17.2)


def test_shares_are_weighted_by_time_and_bytes_are_added_up() -> None:
    found = naive_forward()
    assert found["kernels"] == 6
    assert found["busy_time"] == pytest.approx(3 * 0.04512 + 0.333 + 0.787 + 0.303)
    assert found["dram_bytes"] == pytest.approx(3 * 201.33e6 + 1.14e9 + 2.15e9 + 1.01e9)
    activity = (22 * 0.333 + 25 * 0.303) / found["busy_time"]
    assert found["matrix_activity"] == pytest.approx(activity)


@pytest.mark.parametrize(
    ("unit", "value", "milliseconds"),
    [
        *(("nsecond", "1,500", 0.0015), ("usecond", "18.5", 0.0185), ("msecond", "6.9", 6.9)),
        *(("second", "1.25", 1250), ("ns", "800", 0.0008), ("us", "18", 0.018)),
        *(("ms", "2", 2), ("s", "0.5", 500)),
    ],
)
def test_times_are_read_in_every_unit(unit: str, value: str, milliseconds: float) -> None:
    assert read(((unit, value), *SPIN[1:]))["busy_time"] == pytest.approx(milliseconds)


@pytest.mark.parametrize(
    ("unit", "value", "count"),
    [
        *(("byte", "2,048", 2048), ("Kbyte", "1.5", 1500), ("Mbyte", "318.00", 318e6)),
        *(("Gbyte", "4.87", 4.87e9), ("Tbyte", "0.001", 1e9)),
    ],
)
def test_bytes_are_read_in_every_unit(unit: str, value: str, count: float) -> None:
    assert read((SPIN[0], (unit, value), *SPIN[2:]))["dram_bytes"] == pytest.approx(count)


# What cannot be read


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no kernel: its output has no table"),
        ("==ERROR== Failed to find metric sm__x\n", "no kernel: ==ERROR== Failed to find metric"),
        (table([("k", (("fortnight", "1"), *SPIN[1:]))]), "in 'fortnight'"),
        (table([("k", (("ns", "n/a"), *SPIN[1:]))]), "gives no gpu__time_duration.sum: 'n/a'"),
        (
            "\n".join(
                line
                for line in flash2().splitlines()
                if "dram__bytes" not in line or "spin" in line
            ),
            "gives no dram__bytes.sum of void flash_fwd_kernel",
        ),
    ],
    ids=["nothing", "an error", "a unit", "no number", "a metric that is missing"],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(NsightError, match=told.replace("(", r"\(")):
        nsight.read_passes(text, COUNTED, PASSES)


def test_a_pass_without_kernels_or_a_marker_too_few_is_told() -> None:
    with pytest.raises(NsightError, match=r"\[0\] kernels in 1 passes, where there are 2"):
        nsight.read_passes(table([(MARKER, SPIN)]), COUNTED, PASSES)


def test_a_refusal_of_the_driver_is_told_with_the_remedy() -> None:
    with pytest.raises(NsightError, match=r"ERR_NVGPUCTRPERM.*administrator"):
        nsight.check_permission("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")


# The program


def test_the_version_is_that_of_the_program_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nsight.version() is None
    nsight.version.cache_clear()
    nsight_csv.install(tmp_path)
    assert nsight.version() == "2025.3.1.0"


def test_the_clocks_are_left_alone_and_only_what_is_asked_for_is_counted() -> None:
    found = nsight.command("log.csv", ["python", "x.py"], COUNTED)
    assert found[:5] == ["ncu", "--profile-from-start", "off", "--clock-control", "none"]
    assert found[-2:] == ["python", "x.py"]
    assert found[found.index("--log-file") + 1] == "log.csv"
    assert "dram__bytes.sum" in found[found.index("--metrics") + 1].split(",")
