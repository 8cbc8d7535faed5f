from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from analysis.deriving import Plant, claims_document, derived

from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.claim import CLAIM
from flashlab.telling.teller import Teller

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


def checked(*experiments: Any, **claim: Any) -> Finding:
    """The finding on a claim."""
    (found,) = derived(CLAIM, *experiments, published=claims_document(**claim))
    return found


def told(found: Finding, fact: str = "figure") -> str:
    text: str = Teller("en").tell(found.facts[fact])
    return text


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


# The verdicts


@pytest.mark.parametrize(
    ("claim", "verdict", "said"),
    [
        ({"test": asking(RATIO, 1.06)}, "confirmed", "2 comparisons, all in the range"),
        ({"test": asking(RATIO, 1.9, 2.1)}, "confirmed", "all in the range"),
        ({"test": asking(RATIO, 0, 1.5)}, "contradicted", "none wholly in the range"),
        ({"test": asking(RATIO, 2.0)}, "inconclusive", ""),
        ({"test": RATIO, **figure(2.0)}, "confirmed", ""),
        ({"test": RATIO, **figure(2.1)}, "confirmed", ""),
        ({"test": RATIO, **figure(3.0)}, "contradicted", ""),
        ({"test": RATIO, **figure(9), "bound_to_device": True}, "contradicted", ""),
        # Ours is shown beside a figure of another device, without a verdict.
        ({"test": RATIO, **figure(9), "bound_to_device": True, "device": "RTX"}, "other_device",
         "2.0"),
        # Growth, by how many times or by how much.
        ({"test": asking(RISES, 0.9, 1.1)}, "confirmed", "1.0"),
        ({"test": asking(RISES, 1.8, 2.2, compare="amounts")}, "confirmed", "2.0"),
        # Time doubles, memory stays.
        ({"test": asking({"metrics": ["forward_time", "peak_memory"],
                          "terms": [{"seq_len": 256}, {"seq_len": 128}],
                          "at": [{**AT, "implementation": "Flash2"}]}, 1.5)},
         "contradicted", "peak memory 1.00"),
        # Where nothing rises, no rise is compared with it.
        ({"test": asking({**RISES, "metrics": ["peak_memory"]}, 1, compare="amounts")},
         "inconclusive", "–"),
        ({"untested": "needs_training"}, "not_tested", None),
    ],
)  # fmt: skip
def test_a_claim_holds_where_every_interval_lies_in_its_range(
    twice_as_fast: Any, claim: dict[str, Any], verdict: str, said: str | None
) -> None:
    found = checked(twice_as_fast, **claim)
    assert found.verdict == verdict
    if said is None:
        assert (found.reasons, "figure" in found.facts) == ([Reason("needs_training")], False)
    else:
        assert said in told(found)
        is_sampled = claim["test"]["metrics"] != ["peak_memory"]
        assert (Reason("published_mean") in found.reasons) is is_sampled


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
    found = checked(planted, test=asking(RISES, 1.06, compare=["amounts", "times"]))
    assert found.verdict == verdict
    by_way = {estimate["compare"]: estimate["estimate"] for estimate in found.estimates}
    (a, b), (c, d) = pytorch, flash
    assert list(by_way) == ["amounts", "times"]
    expected = [(b - a) / (d - c), (b / a) / (d / c)]
    assert list(by_way.values()) == pytest.approx(expected, rel=0.05)
    assert "By increments: " in told(found) and "By factors: " in told(found)


# Records by the document's own protocol


def by_lab5(planted: Any) -> Any:
    """The same runs as records of the course's protocol: means, without samples."""
    runs = [{**row, "protocol": "lab5", "record": f"{row['record']}-lab5"} for row in planted.runs]
    plan = {**planted.plan, "name": "claims-lab5"}
    return replace(planted, plan=plan, runs=runs, samples={})


def test_a_claim_takes_the_records_of_its_own_protocol(twice_as_fast: Any) -> None:
    """Exact memory decides by any protocol; means without an interval decide nothing."""
    looped = by_lab5(twice_as_fast)
    found = checked(looped, test=asking({**RATIO, "metrics": ["peak_memory"]}, 0, 0.6))
    assert (found.verdict, found.reasons) == ("confirmed", [])
    assert {name[-5:] for name in found.facts["records"]} == {"-lab5"}
    timed = checked(looped, test=asking(RATIO, 1.5))
    assert (timed.verdict, timed.reasons) == ("inconclusive", [Reason("no_samples")])
    assert "2 comparisons of means, without intervals" in told(timed)


def test_a_published_figure_is_compared_with_the_documents_own_protocol_first(
    twice_as_fast: Any,
) -> None:
    found = checked(twice_as_fast, by_lab5(twice_as_fast), test=RATIO, **figure(2.0))
    protocols = [estimate["protocol"] for estimate in found.estimates]
    assert protocols == ["lab5"] * 2 + ["sampled"] * 2
    assert (found.verdict, found.reasons) == ("confirmed", [])
    assert told(found).index("Back-to-back calls: ") < told(found).index("Single calls: ")


def test_a_claim_is_ambiguous_where_the_protocols_disagree(
    plant: Callable[..., Any], twice_as_fast: Any
) -> None:
    """Launches count in back-to-back calls: there both take as long."""
    looped = by_lab5(plant("looped", Flash2=(10, 10), Pytorch=(10, 10)))
    assert checked(twice_as_fast, looped, test=asking(RATIO, 1.5)).verdict == "ambiguous"
    # 1.00 without an interval may be 1.02.
    assert checked(twice_as_fast, looped, test=asking(RATIO, 1.02)).verdict == "confirmed"
