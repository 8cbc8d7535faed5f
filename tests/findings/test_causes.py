"""Causes of planted counters, among them what was measured on an H200."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flashlab.report.finding_words import FindingWords
from flashlab.report.wording import Words

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, read_sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.cause import causes, counted_runs
from flashlab.analysis.kinds.roofline import rooflines
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab.records import Record

NAIVE, FUSED, SHORT = (
    Shape(16, 1024, 32, 2048, False),
    Shape(1, 16384, 16, 2048, False),
    Shape(16, 128, 32, 2048, False),
)
ESTIMATES = Estimates()
COPY = Ceiling(2 * 4.273e9, ESTIMATES.of(("copy",), [2.0] * 30))
"""The H200's copy bandwidth, 4273 GB/s, as a time in ms and the bytes moved in it."""
PRODUCT = Ceiling(1.1e12, ESTIMATES.of(("product",), [1.5] * 30))
CEILINGS = Ceilings("Abacus", {"float16": PRODUCT}, COPY)

Plant = Callable[..., Sweep]


def counters(
    kernels: int = 1,
    busy_time: float = 1.0,
    dram_bytes: float = 1e8,
    matrix_activity: float = 20.0,
    occupancy: float = 60.0,
) -> dict[str, float]:
    return {
        **{"kernels": kernels, "busy_time": busy_time, "dram_bytes": dram_bytes},
        **{"matrix_activity": matrix_activity, "occupancy": occupancy},
    }


@pytest.fixture
def counted(
    record_of: Callable[..., Record],
    counters_of: Callable[..., Record],
    planned: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> Plant:
    """The sweep of runs with counters: implementation, shape, milliseconds, counters of a pass.

    None plants no counters, a text a failure to read them.
    """

    def build(*runs: tuple[str, Shape, float, Any], **changes: Any) -> Sweep:
        records, counters = [], []
        for name, shape, milliseconds, found in runs:
            run = attention_run(name, shape, "float16", "cuda")
            times = [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]
            records.append(record_of(run, forward=times, backward=times))
            if isinstance(found, str):
                counters.append(counters_of(records[-1], "error", message=found))
            elif found:
                counters.append(counters_of(records[-1], **found, **changes))
        plan = planned(records, counters=counters)
        write_json(tmp_path / "plan.json", plan)
        write_tables(tmp_path / "plan.json", tmp_path / "tables" / plan["name"])
        return read_sweep(plan, tmp_path / "tables", with_samples=True)

    return build


def forward(sweep: Sweep) -> list[Finding]:
    found = causes(sweep, Estimates(), CEILINGS)
    return [finding for finding in found if finding.metric == "forward_time"]


def verdict(sweep: Sweep) -> str:
    (found,) = forward(sweep)
    return found.verdict


# What was measured on an H200


@pytest.mark.parametrize(
    ("name", "shape", "milliseconds", "found", "expected"),
    [
        ("Pytorch", NAIVE, 1.83, counters(6, 1.78, 4.87e9, 8.2, 60), "unfused"),
        ("Flash2", FUSED, 5.87, counters(1, 5.85, 0.318e9, 63, 12), "matrix_bound"),
        ("Flash2", FUSED, 17.39, counters(3, 17.2, 1.40e9, 51, 12), "matrix_bound"),
        ("SdpaCudnn", FUSED, 3.67, counters(1, 3.6, 0.268e9, 77, 18), "matrix_bound"),
        ("SdpaCudnn", FUSED, 11.03, counters(5, 10.5, 2.1e9, 67, 18), "matrix_bound"),
        ("Flash2", SHORT, 0.0228, counters(1, 0.018, 0.03e9, 22, 40), "launch_bound"),
    ],
)
def test_what_an_h200_showed_has_its_cause(
    counted: Plant, name: str, shape: Shape, milliseconds: float, found: Any, expected: str
) -> None:
    assert verdict(counted((name, shape, milliseconds, found))) == expected


def test_the_naive_implementation_moves_what_it_need_not(counted: Plant) -> None:
    (found,) = forward(counted(("Pytorch", NAIVE, 1.83, counters(6, 1.78, 4.87e9, 8.2))))
    assert found.params["excess_low"] == pytest.approx(18.1, rel=0.01)
    assert found.params["copy_low"] == pytest.approx(64, rel=0.01)
    words = FindingWords(Words(["zh_TW", "en"]), ATTENTION).tell(found, "N")
    assert words["en"].startswith(
        "Forward (full): at N = 1024, Pytorch is bound by memory because it is not fused: it moves "
        "4.87 GB to and from DRAM, 18.1 times what any implementation must move"
    )
    assert words["en"].endswith("(kernels per pass: 6).")
    assert "是任何實作至少要搬移的 18.1 倍" in words["zh_TW"]


# Planted truth


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (counters(10, busy_time=0.5), "launch_bound"),
        (counters(10, busy_time=0.5, matrix_activity=90), "launch_bound"),
        (counters(100, 0.95), "launch_bound"),
        (counters(matrix_activity=70), "matrix_bound"),
        (counters(matrix_activity=70, occupancy=10), "matrix_bound"),
        (counters(matrix_activity=70, dram_bytes=4e9), "memory_bound"),
        (counters(dram_bytes=3.5e9), "memory_bound"),
        (counters(5, dram_bytes=3.5e9), "unfused"),
        (counters(occupancy=10), "occupancy"),
        (counters(occupancy=60), "none"),
    ],
)
def test_each_cause_is_found_where_it_is_planted(
    counted: Plant, found: dict[str, float], expected: str
) -> None:
    assert verdict(counted(("Flash2", NAIVE, 1.0, found))) == expected


@pytest.mark.parametrize(
    "found",
    [
        counters(matrix_activity=45),
        counters(matrix_activity=45, occupancy=5),
        counters(dram_bytes=0.45 * 4.273e9),
        counters(occupancy=25),
        counters(33, 0.95, occupancy=5),
    ],
    ids=["matrix", "matrix and warps", "memory", "warps", "short kernels"],
)
def test_the_dead_zone_states_no_cause(counted: Plant, found: dict[str, float]) -> None:
    assert verdict(counted(("Flash2", NAIVE, 1.0, found))) == "none"


@pytest.mark.parametrize("busy_time", [0.5, 1.6])
def test_counters_of_another_time_are_no_cause(counted: Plant, busy_time: float) -> None:
    """No launch takes half a millisecond; no cold cache makes a long kernel half as slow again."""
    found = counters(busy_time=busy_time, matrix_activity=70)
    assert verdict(counted(("Flash2", NAIVE, 1.0, found))) == "none"


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_counters_that_scatter_give_no_contrary_cause(counted: Plant, noise: float) -> None:
    """Every figure off by some percent: what was planted, or nothing."""
    random = np.random.default_rng(7)
    truths = {
        "matrix_bound": counters(matrix_activity=54, occupancy=12),
        "unfused": counters(5, dram_bytes=0.54 * 4.273e9),
        "occupancy": counters(matrix_activity=37, occupancy=18),
        "launch_bound": counters(40, 0.7),
    }
    for expected, truth in truths.items():
        for _ in range(10):
            drawn = {
                name: value if name == "kernels" else value * float(np.exp(random.normal(0, noise)))
                for name, value in truth.items()
            }
            drawn["busy_time"] = min(drawn["busy_time"], 1.0)
            assert verdict(counted(("Flash2", NAIVE, 1.0, drawn))) in {expected, "none"}


def test_values_with_one_cause_make_one_finding_with_its_evidence(counted: Plant) -> None:
    longer = replace(NAIVE, seq_len=2048)
    sweep = counted(
        ("Flash2", NAIVE, 1.0, counters(matrix_activity=70)),
        ("Flash2", longer, 2.0, counters(busy_time=1.9, matrix_activity=80)),
        ("Flash2", SHORT, 0.02, counters(busy_time=0.01)),
    )
    launch, matrix = forward(sweep)
    assert (launch.verdict, launch.params["values"]) == ("launch_bound", [128])
    assert (matrix.verdict, matrix.params["values"]) == ("matrix_bound", [1024, 2048])
    assert (matrix.params["matrix_low"], matrix.params["matrix_high"]) == (70, 80)
    assert matrix.evidence.table == "tables/seq_len/metrics.csv"
    assert "forward_dram_bytes" in matrix.evidence.rows["metric"]
    assert [estimate["value"] for estimate in matrix.estimates] == [1024, 2048]


# Nothing that was not counted on the same run


def test_without_counters_nothing_is_said(counted: Plant) -> None:
    sweep = counted(("Flash2", NAIVE, 1.0, None))
    assert forward(sweep) == []
    (found,) = counted_runs([sweep])
    assert (found.verdict, found.params) == ("uncounted", {"count": 0, "failed": 0})


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"device_name": "Other"}},
        {"environment": {"device_name": "Abacus", "provider": "x"}},
    ],
    ids=["device", "provider"],
)
def test_counters_of_other_code_or_another_device_are_no_cause(
    counted: Plant, changes: dict[str, Any]
) -> None:
    sweep = counted(("Flash2", NAIVE, 1.0, counters(matrix_activity=70)), **changes)
    assert forward(sweep) == []


def test_counters_that_could_not_be_read_are_counted_as_failed(counted: Plant) -> None:
    longer = replace(NAIVE, seq_len=2048)
    sweep = counted(
        ("Flash2", NAIVE, 1.0, "ERR_NVGPUCTRPERM"),
        ("Flash2", longer, 1.0, counters(matrix_activity=70)),
    )
    assert [finding.params["values"] for finding in forward(sweep)] == [[2048]]
    (found,) = counted_runs([sweep])
    assert (found.verdict, found.params) == ("partly", {"count": 1, "failed": 1})


def test_under_ceilings_of_another_device_nothing_is_said(counted: Plant) -> None:
    sweep = counted(("Flash2", NAIVE, 1.0, counters(matrix_activity=70)))
    other = replace(CEILINGS, device_name="Other")
    assert list(causes(sweep, Estimates(), other)) == []


# The roofline


def test_the_roofline_takes_counted_bytes_and_says_which_they_are(counted: Plant) -> None:
    longer = replace(NAIVE, seq_len=2048)
    sweep = counted(
        ("Pytorch", NAIVE, 1.83, counters(6, 1.78, 4.87e9, 8.2)),
        ("Pytorch", longer, 7.3, None),
    )
    found = [f for f in rooflines(sweep, Estimates(), CEILINGS) if f.metric == "forward_time"]
    by_verdict = {finding.verdict: finding for finding in found}
    assert by_verdict["memory_bound"].params["values"] == [1024]
    assert by_verdict["memory_bound"].params["copy_low"] == pytest.approx(62.3, rel=0.01)
    assert by_verdict["memory_bound"].sentences[0] == "roofline.memory_bound.counted"
    assert by_verdict["neither"].params["values"] == [2048]
    assert by_verdict["neither"].sentences[0] == "roofline.neither"
