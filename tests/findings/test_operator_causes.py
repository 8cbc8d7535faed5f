"""Causes of planted operators on a CPU, among them what was measured on one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flashlab.report.finding_words import FindingWords
from flashlab.report.wording import Words

from flashlab.analysis.conclusions.quoting import Known, tell_cause
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, read_sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.cause import causes, counted_runs
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab.records import Record

SHAPE = Shape(1, 512, 8, 512, True)
"""Any implementation must move 4.19 MB in its forward pass."""

Plant = Callable[..., Sweep]


def operators(
    count: int = 6,
    time: float = 1.0,
    allocated: float = 36.7e6,
    product: float = 50.0,
    softmax: float = 30.0,
    fused: float = 0.0,
) -> dict[str, float]:
    return {
        **{"operators": count, "operator_time": time, "allocated_bytes": allocated},
        **{"product_share": product, "softmax_share": softmax, "fused_share": fused},
        "elementwise_share": 100 - product - softmax - fused,
    }


@pytest.fixture
def counted(
    record_of: Callable[..., Record],
    counters_of: Callable[..., Record],
    planned: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> Plant:
    """The sweep of runs with their operators: implementation, shape, ms, counters of a pass.

    None plants no counters, a text a failure to count.
    """

    def build(*runs: tuple[str, Shape, float, Any], **changes: Any) -> Sweep:
        records, counters = [], []
        for name, shape, milliseconds, found in runs:
            run = attention_run(name, shape, "float32", "cpu")
            times = [milliseconds / 1e3 * factor for factor in np.linspace(0.99, 1.01, 15)]
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
    found = causes(sweep, Estimates(), None)
    return [finding for finding in found if finding.metric == "forward_time"]


def verdict(sweep: Sweep) -> str:
    (found,) = forward(sweep)
    return found.verdict


@pytest.mark.parametrize(
    ("milliseconds", "found", "expected"),
    [
        # Measured on an AMD EPYC, 2 CPUs, B 1, H 8, E 512: N 512 and 128
        (10.4, operators(6, 10.4, 36.7e6, 64.8, 7.2), "products"),
        (7.6, operators(1, 7.6, 1.36e6, 0, 0, 100), "fused"),
        (16.3, operators(3, 16.3, 9.96e6, 0, 0, 87.7), "fused"),
        (9.8, operators(8, 9.8, 25.2e6, 86.7, 6.5), "products"),
        # Planted
        (1.0, operators(product=30), "unfused"),
        (1.0, operators(product=30, allocated=4e6), "elementwise"),
        (1.0, operators(1, product=30), "elementwise"),
        (1.0, operators(product=80, softmax=10), "products"),
        (1.0, operators(product=30, time=0.7), "launch_bound"),
        (1.0, operators(fused=90, product=5, softmax=5, time=0.5, count=20), "launch_bound"),
    ],
)
def test_each_cause_is_found_where_it_is_planted(
    counted: Plant, milliseconds: float, found: dict[str, float], expected: str
) -> None:
    assert verdict(counted(("Mine", SHAPE, milliseconds, found))) == expected


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (operators(1, 1.0, 1.36e6, 0, 0, 100), "conclusion.cause.operators.fused"),
        (operators(20, 0.5, 1.36e6, 0, 0, 100), "conclusion.cause.operators.launch_bound"),
        (operators(product=80, softmax=10), "conclusion.cause.operators"),
    ],
)
def test_a_conclusion_tells_the_verdict_and_not_only_the_shares(
    counted: Plant, found: dict[str, float], key: str
) -> None:
    """An operator that is idle half the time is not told by what it does in the other half."""
    sweep = counted(("Mine", SHAPE, 1.0, found))
    (told,) = tell_cause(Known(forward(sweep), [sweep]), [sweep], "Mine")
    assert told.key == key
    assert (float(told.params["cause_idle"]) > 40) == key.endswith("launch_bound")


@pytest.mark.parametrize(
    "found",
    [
        operators(product=50),
        operators(product=42, softmax=0),
        operators(product=5, softmax=45, fused=50),
        operators(product=30, allocated=1.75 * 4.2e6),
    ],
    ids=["half", "more than half", "fused and not", "allocated"],
)
def test_the_dead_zone_states_no_cause(counted: Plant, found: dict[str, float]) -> None:
    assert verdict(counted(("Mine", SHAPE, 1.0, found))) == "none"


@pytest.mark.parametrize("time", [0.1, 1.6])
def test_operators_of_another_time_are_no_cause(counted: Plant, time: float) -> None:
    """Calling an operator takes no 0.15 ms, and none runs half as long again when profiled."""
    found = operators(product=80, softmax=10, time=time)
    assert verdict(counted(("Mine", SHAPE, 1.0, found))) == "none"


@pytest.mark.parametrize("noise", [0.05, 0.15])
def test_shares_that_scatter_give_no_contrary_cause(counted: Plant, noise: float) -> None:
    """Each class's time off by some percent: what was planted, or nothing."""
    random = np.random.default_rng(11)
    truths = {
        "products": (62.0, 20.0, 0.0),
        "unfused": (38.0, 32.0, 0.0),
        "fused": (20.0, 10.0, 62.0),
    }
    for expected, (product, softmax, fused) in truths.items():
        for _ in range(20):
            times = np.array([product, softmax, fused, 100 - product - softmax - fused])
            times *= np.exp(random.normal(0, noise, 4))
            product_, softmax_, fused_, _rest = (float(t) for t in 100 * times / times.sum())
            drawn = operators(6, 1.0, 36.7e6, product_, softmax_, fused_)
            assert verdict(counted(("Mine", SHAPE, 1.0, drawn))) in {expected, "none"}


def test_values_with_one_cause_make_one_finding_with_its_evidence(counted: Plant) -> None:
    longer = replace(SHAPE, seq_len=1024)
    sweep = counted(
        ("Mine", SHAPE, 1.0, operators(product=30)),
        ("Mine", longer, 1.0, operators(product=20)),
        ("Mine", replace(SHAPE, seq_len=128), 1.0, operators(product=90, softmax=5)),
    )
    products, unfused = forward(sweep)
    assert (products.verdict, products.params["values"]) == ("products", [128])
    assert (unfused.verdict, unfused.params["values"]) == ("unfused", [512, 1024])
    assert (unfused.params["between_low"], unfused.params["between_high"]) == (70, 80)
    assert "forward_allocated_bytes" in unfused.evidence.rows["metric"]
    assert [estimate["value"] for estimate in unfused.estimates] == [512, 1024]


@pytest.mark.parametrize(
    ("found", "en", "zh_tw"),
    [
        (
            operators(product=30),
            "Forward (causal): at N = 512, Pytorch is slowed down by not being fused: 70.0% of "
            "the time in operators is spent outside the matrix products (softmax 30.0%, "
            "element-wise operators and copies 40.0%; operators per pass: 6), on "
            "intermediate results: a pass allocates 36.7 MB, 8.7",
            "因未融合而變慢：運算子時間有 70.0% 花在矩陣乘法以外",
        ),
        (
            operators(1, 1.0, 1.36e6, 0, 0, 100),
            "Forward (causal): at N = 512, Pytorch computes attention in one fused operator, which "
            "takes 100% of the time in operators.",
            "以單一融合運算子計算注意力，占運算子時間的 100%",
        ),
    ],
)
def test_a_cause_is_told_in_both_languages(
    counted: Plant, found: dict[str, float], en: str, zh_tw: str
) -> None:
    (finding,) = forward(counted(("Pytorch", SHAPE, 1.0, found)))
    words = FindingWords(Words(["zh_TW", "en"]), ATTENTION).tell(finding, "N")
    assert words["en"].startswith(en)
    assert zh_tw in words["zh_TW"]


# Nothing that was not counted on the same run


def test_without_operators_nothing_is_said(counted: Plant) -> None:
    sweep = counted(("Mine", SHAPE, 1.0, None))
    assert forward(sweep) == []
    (found,) = counted_runs([sweep])
    assert (found.verdict, found.sentences) == ("uncounted", ["counters.uncounted.operators"])


def test_operators_of_other_code_are_no_cause(counted: Plant) -> None:
    environment = {"device_name": "Abacus", "provider": "x"}
    sweep = counted(("Mine", SHAPE, 1.0, operators(product=30)), environment=environment)
    assert forward(sweep) == []


def test_what_could_not_be_counted_is_stated(counted: Plant) -> None:
    sweep = counted(
        ("Mine", SHAPE, 1.0, "it crashed"),
        ("Mine", replace(SHAPE, seq_len=1024), 1.0, operators(product=30)),
    )
    (found,) = counted_runs([sweep])
    assert (found.verdict, found.params) == ("partly", {"count": 1, "failed": 1})
    assert found.sentences == ["counters.partly.operators"]
