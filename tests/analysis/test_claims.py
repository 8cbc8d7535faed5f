"""Published claims: each holds, fails, depends on the reading, or is not judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from analysis.deriving import Plant, claims_document

from flashlab.analysis.claims import COLUMNS, claims_csv, judge_claims
from flashlab.analysis.estimates import Estimates

AT = {"batch_size": 2, "num_heads": 4, "emb_dim": 64, "causal": False}
RATIO = {
    "metrics": ["forward_rate"],
    "terms": [{"implementation": "Flash2"}, {"implementation": "Pytorch"}],
    "at": [{**AT, "seq_len": [128, 256]}],
}
RISES = {
    "metrics": ["forward_time"],
    "terms": [{"implementation": n, "seq_len": s} for n in ("Pytorch", "Flash2")
              for s in (256, 128)],
    "at": [AT],
}  # fmt: skip
ON_CUDA = {"dtype": "float16", "device": "cuda"}
INF = float("inf")


def asking(asked: dict[str, Any], least: float = 0, most: float = INF, **more: Any) -> Any:
    wanted = {name: end for name, end in (("least", least), ("most", most)) if 0 < end < INF}
    return {**asked, **more, "wanted": wanted}


def figure(value: float) -> dict[str, Any]:
    return {"published": {"figure": value, "unit": "ratio", "tolerance": 0.1}}


def checked(*experiments: Any, **claim: Any) -> pd.DataFrame:
    """The rows of a claim."""
    return judge_claims(claims_document(**claim), experiments, Estimates(experiments))


def verdict_of(rows: pd.DataFrame) -> str:
    (verdict,) = set(rows.verdict)
    return str(verdict)


@pytest.fixture
def plant(experiment: Plant) -> Callable[..., Any]:
    """Times in units of 10 µs at N = 128 and 256, on CUDA."""
    return lambda name="seq_len", **runs: experiment(runs, name, **ON_CUDA)


@pytest.fixture
def twice_as_fast(plant: Callable[..., Any]) -> Any:
    """Flash2 at twice the speed and half the memory of Pytorch."""
    return plant(
        Flash2=[{"forward": t, "peak": 100.0} for t in (1, 2)],
        Pytorch=[{"forward": t, "peak": 200.0} for t in (2, 4)],
    )


@pytest.mark.parametrize(
    ("claim", "verdict", "figures"),
    [
        ({"test": asking(RATIO, 1.06)}, "confirmed", [2, 2]),
        ({"test": asking(RATIO, 1.9, 2.1)}, "confirmed", [2, 2]),
        ({"test": asking(RATIO, 0, 1.5)}, "contradicted", [2, 2]),
        ({"test": asking(RATIO, 2.0)}, "inconclusive", [2, 2]),
        ({"test": RATIO, **figure(2.0)}, "confirmed", [2, 2]),
        ({"test": RATIO, **figure(2.1)}, "confirmed", [2, 2]),
        ({"test": RATIO, **figure(3.0)}, "contradicted", [2, 2]),
        ({"test": RATIO, **figure(9), "bound_to_device": True}, "contradicted", [2, 2]),
        # Ours stands beside a figure of another device, without a verdict.
        ({"test": RATIO, **figure(9), "bound_to_device": True, "device": "RTX"}, "other_device",
         [2, 2]),
        # Growth, by how many times or by how much.
        ({"test": asking(RISES, 0.9, 1.1)}, "confirmed", [1]),
        ({"test": asking(RISES, 1.8, 2.2, compare="amounts")}, "confirmed", [2]),
        # Time doubles, memory stays.
        ({"test": asking({"metrics": ["forward_time", "peak_memory"],
                          "terms": [{"seq_len": 256}, {"seq_len": 128}],
                          "at": [{**AT, "implementation": "Flash2"}]}, 1.5)},
         "contradicted", [2, 1]),
        # Where nothing rises, no rise is compared with it.
        ({"test": asking({**RISES, "metrics": ["peak_memory"]}, 1, compare="amounts")},
         "inconclusive", [None]),
    ],
)  # fmt: skip
def test_a_claim_holds_where_every_interval_lies_in_its_range(
    twice_as_fast: Any, claim: dict[str, Any], verdict: str, figures: list[float | None]
) -> None:
    rows = checked(twice_as_fast, **claim)
    assert verdict_of(rows) == verdict
    found = [None if pd.isna(each) else each for each in rows.estimate]
    assert found == [pytest.approx(each, rel=0.05) if each else None for each in figures]


def test_what_cannot_be_compared_has_a_row_that_says_why(twice_as_fast: Any) -> None:
    (untold,) = checked(twice_as_fast, untested="needs_training").to_dict("records")
    assert (untold["verdict"], untold["reason"]) == ("not_tested", "needs_training")
    longer = {**RATIO, "at": [{**AT, "seq_len": [256, 512]}]}
    (missing,) = checked(twice_as_fast, test=asking(longer, 1.5)).to_dict("records")
    assert missing["verdict"] == "not_tested"
    assert missing["reason"].count(": missing") == 2


@pytest.mark.parametrize(
    ("pytorch", "flash", "verdict"),
    [
        # 1700 µs more against 400 µs, but 18.0 times against 21.0 times.
        ((10, 180), (2, 42), "ambiguous"),
        ((10, 180), (10, 50), "confirmed"),
        ((10, 20), (2, 42), "contradicted"),
    ],
)
def test_a_claim_of_growth_is_ambiguous_where_amounts_and_factors_disagree(
    plant: Callable[..., Any], pytorch: tuple[int, int], flash: tuple[int, int], verdict: str
) -> None:
    planted = plant(Pytorch=pytorch, Flash2=flash)
    rows = checked(planted, test=asking(RISES, 1.06, compare=["amounts", "times"]))
    assert verdict_of(rows) == verdict
    (a, b), (c, d) = pytorch, flash
    assert list(rows["compare"]) == ["amounts", "times"]
    expected = [(b - a) / (d - c), (b / a) / (d / c)]
    assert list(rows.estimate) == pytest.approx(expected, rel=0.05)


def by_lab5(planted: Any) -> Any:
    """The same runs as records of the course's protocol: means, without samples."""
    runs = [{**row, "protocol": "lab5", "record": f"{row['record']}-lab5"} for row in planted.runs]
    plan = {**planted.plan, "name": "claims-lab5"}
    return replace(planted, plan=plan, runs=runs, samples={})


def test_a_claim_is_judged_by_samples_where_there_are_any(twice_as_fast: Any) -> None:
    """Exact memory decides by any protocol; means without an interval decide nothing."""
    looped = by_lab5(twice_as_fast)
    exact = checked(looped, test=asking({**RATIO, "metrics": ["peak_memory"]}, 0, 0.6))
    assert (verdict_of(exact), set(exact.protocol)) == ("confirmed", {"lab5"})
    assert verdict_of(checked(looped, test=asking(RATIO, 1.5))) == "inconclusive"
    both = checked(looped, twice_as_fast, test=asking(RATIO, 1.5))
    assert (verdict_of(both), set(both.protocol)) == ("confirmed", {"sampled"})


def test_the_table_is_one_that_a_spreadsheet_reads(twice_as_fast: Any) -> None:
    lines = claims_csv(checked(twice_as_fast, test=asking(RATIO, 1.5))).splitlines()
    assert lines[0].split(",") == list(COLUMNS) and len(lines) == 3
