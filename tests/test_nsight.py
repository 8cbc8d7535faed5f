from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import nsight_csv
import pytest
from nsight_csv import COUNTED, FORWARD, MARKER, NAIVE, SPIN, Cells, cells, flash2, table

from flashlab import nsight
from flashlab.nsight import NsightError

PASSES = ("forward_time", "backward_time")


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    nsight.version.cache_clear()
    yield
    nsight.version.cache_clear()


def counters(kernels: Sequence[tuple[str, Cells]]) -> dict[str, float]:
    """The counters of a forward pass of these kernels."""
    printed = table([(MARKER, SPIN), *kernels])
    return nsight.of_pass(nsight.read_passes(printed, COUNTED, PASSES[:1])["forward_time"])


def test_each_pass_has_the_kernels_after_its_marker() -> None:
    passes = nsight.read_passes(flash2(), COUNTED, PASSES)
    assert [len(passes[name]) for name in PASSES] == [1, 3]
    assert passes["forward_time"][0]["name"].startswith("void flash_fwd_kernel")
    forward, backward = (nsight.of_pass(passes[name]) for name in PASSES)
    names = ("kernels", "busy_time", "dram_bytes", "matrix_activity")
    assert [forward[name] for name in names] == pytest.approx([1, 6.9, 318e6, 63])
    activity = 51 * 17.1 / 17.2
    assert [backward[name] for name in names] == pytest.approx([3, 17.2, 1.4e9, activity])


def test_shares_are_weighted_by_time_and_bytes_are_added_up() -> None:
    found = counters([(name, NAIVE[name]) for name in FORWARD])
    assert found["kernels"] == 6
    assert found["busy_time"] == pytest.approx(3 * 0.04512 + 0.333 + 0.787 + 0.303)
    assert found["dram_bytes"] == pytest.approx(3 * 201.33e6 + 1.14e9 + 2.15e9 + 1.01e9)
    activity = (22 * 0.333 + 25 * 0.303) / found["busy_time"]
    assert found["matrix_activity"] == pytest.approx(activity)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *(("1,500 nsecond", 0.0015), ("18.5 usecond", 0.0185), ("6.9 msecond", 6.9)),
        *(("1.25 second", 1250), ("800 ns", 0.0008), ("18 us", 0.018), ("2 ms", 2), ("0.5 s", 500)),
        *(("2,048 byte", 2048), ("1.5 Kbyte", 1500), ("318.00 Mbyte", 318e6)),
        *(("4.87 Gbyte", 4.87e9), ("0.001 Tbyte", 1e9)),
    ],
)
def test_times_and_bytes_are_read_in_every_unit(cell: str, number: float) -> None:
    at, name = (1, "dram_bytes") if cell.endswith("byte") else (0, "busy_time")
    kernel = (*SPIN[:at], *cells(cell), *SPIN[at + 1 :])
    assert counters([("k", kernel)])[name] == pytest.approx(number)


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
