from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kinds.claim import claims, wanted_range
from flashlab.plan.published import ClaimsError, read_claims

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
FILE = Path(__file__).parents[2] / "data" / "published" / "claims.yaml"
PUBLISHED = read_claims(FILE)
AT = {"batch_size": 2, "num_heads": 4, "emb_dim": 64, "causal": False}
RATIO = {
    "metrics": ["forward_rate"],
    "terms": [{"implementation": "Flash2"}, {"implementation": "Pytorch"}],
    "at": [{**AT, "seq_len": [128, 256]}],
}
MEMORY = {**RATIO, "metrics": ["peak_memory"]}
NAMES = ("Flash2", "Pytorch")
ON_CUDA = {"dtype": "float16", "device": "cuda"}
TEXTS = {"zh_TW": "快", "en": "fast"}


def document(**claim: Any) -> dict[str, Any]:
    return {
        "benchmark": "attention",
        **ON_CUDA,
        "sources": {"paper": {"title": TEXTS, "statistic": "mean_of_30", "protocol": "lab5"}},
        "claims": [
            {
                "id": "claim",
                "source": "paper",
                "place": TEXTS,
                "says": TEXTS,
                "device": "Abacus",
                "bound_to_device": False,
                **claim,
            }
        ],
    }


@pytest.fixture
def twice_as_fast(sweep: Plant, noisy: Noisy) -> Sweep:
    """Flash2 at twice the speed and half the memory of Pytorch, on CUDA."""
    return sweep(
        {
            (name, False, n): {"forward": noisy(n * 1e-6 * scale), "peak": 100.0 * scale}
            for name, scale in (("Flash2", 1), ("Pytorch", 2))
            for n in (128, 256)
        },
        **ON_CUDA,
    )


def checked(claim: dict[str, Any], *sweeps: Sweep) -> Finding:
    """The finding on a claim."""
    (found,) = claims(document(**claim), sweeps, Estimates())
    return found


# The verdicts


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [
        ({"least": 1.06}, "confirmed"),
        ({"least": 1.9, "most": 2.1}, "confirmed"),
        ({"most": 1.5}, "contradicted"),
        ({"least": 2.0}, "inconclusive"),
    ],
)
def test_a_claim_holds_where_every_interval_lies_in_its_range(
    twice_as_fast: Sweep, wanted: dict[str, float], verdict: str
) -> None:
    found = checked({"test": {**RATIO, "wanted": wanted}}, twice_as_fast)
    assert found.verdict == verdict
    assert found.params["count"] == 2
    assert found.params["ours_lowest"] == pytest.approx(2, rel=0.02)


def test_one_size_at_which_it_fails_contradicts_a_claim(twice_as_fast: Sweep) -> None:
    growth = {
        "metrics": ["forward_time", "peak_memory"],
        "terms": [{"seq_len": 256}, {"seq_len": 128}],
        "at": [{**AT, "implementation": "Flash2"}],
        "wanted": {"least": 1.5},
    }
    found = checked({"test": growth}, twice_as_fast)  # time doubles, memory stays
    assert found.verdict == "contradicted"
    assert (found.params["held_count"], found.params["failed_count"]) == (1, 1)
    time, memory = found.params["by_metric"]
    assert (time["metric"], time["held_count"]) == ("forward_time", 1)
    assert (memory["metric"], memory["failed_count"], memory["ours"]) == ("peak_memory", 1, 1.0)


@pytest.mark.parametrize(
    ("figure", "verdict"), [(2.0, "confirmed"), (2.1, "confirmed"), (3.0, "contradicted")]
)
def test_a_figure_holds_within_its_tolerance(
    twice_as_fast: Sweep, figure: float, verdict: str
) -> None:
    published = {"figure": figure, "unit": "ratio", "tolerance": 0.1}
    found = checked({"test": RATIO, "published": published}, twice_as_fast)
    assert found.verdict == verdict
    assert (found.params["published"], found.params["tolerance"]) == (figure, 0.1)
    assert Reason("published_mean") in found.reasons


def test_growth_is_compared_by_four_runs(twice_as_fast: Sweep) -> None:
    terms = [
        {"implementation": name, "seq_len": n} for name in ("Pytorch", "Flash2") for n in (256, 128)
    ]
    test = {"metrics": ["forward_time"], "terms": terms, "at": [AT], "wanted": {"most": 1.1}}
    found = checked({"test": test}, twice_as_fast)
    assert (found.verdict, found.params["count"]) == ("confirmed", 1)
    assert found.params["ours"] == pytest.approx(1, abs=0.03)
    assert found.params["ours_low"] < found.params["ours"] < found.params["ours_high"]


RISES = [{"implementation": n, "seq_len": s} for n in ("Pytorch", "Flash2") for s in (256, 128)]


@pytest.mark.parametrize(("compare", "ours"), [("times", 1), ("amounts", 2)])
def test_rises_are_compared_by_how_many_times_or_by_how_much(
    twice_as_fast: Sweep, compare: str, ours: float
) -> None:
    test = {"metrics": ["forward_time"], "terms": RISES, "at": [AT], "compare": compare}
    found = checked({"test": {**test, "wanted": {"least": ours / 1.1}}}, twice_as_fast)
    assert (found.verdict, found.params["compare"]) == ("confirmed", compare)
    assert found.params["ours"] == pytest.approx(ours, rel=0.05)


@pytest.mark.parametrize("metric", ["peak_memory", "forward_rate"])
def test_where_nothing_rises_no_rise_is_compared_with_it(twice_as_fast: Sweep, metric: str) -> None:
    at = AT if metric == "peak_memory" else {**AT, "implementation": "Flash2"}
    terms = RISES if metric == "peak_memory" else [{"seq_len": n} for n in (256, 128, 128, 256)]
    test = {"metrics": [metric], "terms": terms, "at": [at], "compare": "amounts"}
    found = checked({"test": {**test, "wanted": {"least": 1}}}, twice_as_fast)
    assert (found.verdict, found.params["ours"]) == ("inconclusive", None)
    assert found.evidence.estimates[0]["low"] is None


def test_a_figure_of_another_device_is_shown_beside_ours_without_a_verdict(
    twice_as_fast: Sweep,
) -> None:
    published = {"figure": 9, "unit": "ratio", "tolerance": 0.1}
    claim = {"test": RATIO, "published": published, "bound_to_device": True}
    assert checked(claim, twice_as_fast).verdict == "contradicted"
    found = checked({**claim, "device": "RTX 3070"}, twice_as_fast)
    assert found.verdict == "other_device"
    assert found.params["ours_lowest"] == pytest.approx(2, rel=0.02)


def test_a_dataset_of_a_cpu_is_another_device(sweep: Plant) -> None:
    planted = sweep({("Flash2", False, 128): {}})
    for found in claims(PUBLISHED, [planted], Estimates()):
        assert (found.verdict, found.params["count"]) == ("other_device", 0)


# Growth that can be compared in two ways


def growing(noisy: Noisy, **rates: tuple[float, float]) -> dict[Any, Any]:
    """Each implementation's times in µs at N = 128 and at N = 256."""
    return {
        (name, False, n): {"forward": noisy(time * 1e-6)}
        for name, times in rates.items()
        for n, time in zip((128, 256), times, strict=True)
    }


@pytest.mark.parametrize(
    ("pytorch", "flash", "verdict"),
    [
        # 1700 µs more against 400 µs, but 18.0 times against 21.0 times.
        ((100, 1800), (20, 420), "ambiguous"),
        ((100, 1800), (100, 500), "confirmed"),
        ((100, 200), (20, 420), "contradicted"),
    ],
)
def test_a_claim_of_growth_is_ambiguous_where_amounts_and_factors_disagree(
    sweep: Plant,
    noisy: Noisy,
    pytorch: tuple[float, float],
    flash: tuple[float, float],
    verdict: str,
) -> None:
    planted = sweep(growing(noisy, Pytorch=pytorch, Flash2=flash), **ON_CUDA)
    test = {"metrics": ["forward_time"], "terms": RISES, "at": [AT], "wanted": {"least": 1.06}}
    found = checked({"test": {**test, "compare": ["amounts", "times"]}}, planted)
    assert found.verdict == verdict
    by_way = {reading["compare"]: reading["ours"] for reading in found.params["readings"]}
    (a, b), (c, d) = pytorch, flash
    assert by_way["amounts"] == pytest.approx((b - a) / (d - c), rel=0.05)
    assert by_way["times"] == pytest.approx((b / a) / (d / c), rel=0.05)
    assert [each["compare"] for each in found.evidence.estimates] == ["amounts", "times"]


# Records by the document's own protocol


def by_lab5(planted: Sweep) -> Sweep:
    """The same runs as records of the course's protocol: means, without samples."""
    runs = [{**row, "protocol": "lab5", "record": f"{row['record']}-lab5"} for row in planted.runs]
    plan = {**planted.plan, "name": "claims-lab5"}
    return replace(planted, plan=plan, runs=runs, samples={})


def test_a_claim_takes_the_records_of_its_own_protocol(twice_as_fast: Sweep) -> None:
    """Exact memory decides by any protocol; means without an interval decide nothing."""
    found = checked({"test": {**MEMORY, "wanted": {"most": 0.6}}}, by_lab5(twice_as_fast))
    assert (found.verdict, found.reasons) == ("confirmed", [])
    (record,) = {name[-5:] for name in found.evidence.rows["record"]}
    assert record == "-lab5"
    timed = checked({"test": {**RATIO, "wanted": {"least": 1.5}}}, by_lab5(twice_as_fast))
    assert (timed.verdict, timed.reasons) == ("inconclusive", [Reason("no_samples")])
    assert timed.params["ours_lowest"] == pytest.approx(2, rel=0.02)


def test_a_published_figure_is_compared_with_the_documents_own_protocol_first(
    twice_as_fast: Sweep,
) -> None:
    published = {"figure": 2.0, "unit": "ratio", "tolerance": 0.1}
    found = checked({"test": RATIO, "published": published}, twice_as_fast, by_lab5(twice_as_fast))
    assert [reading["protocol"] for reading in found.params["readings"]] == ["lab5", "sampled"]
    assert (found.verdict, found.reasons) == ("confirmed", [])


def test_a_claim_is_ambiguous_where_the_protocols_disagree(
    sweep: Plant, noisy: Noisy, twice_as_fast: Sweep
) -> None:
    """Launches count in back-to-back calls: there both take as long."""
    alike = {(n, False, s): {"forward": noisy(1e-4)} for n in NAMES for s in (128, 256)}
    looped = by_lab5(sweep(alike, name="looped", **ON_CUDA))
    found = checked({"test": {**RATIO, "wanted": {"least": 1.5}}}, twice_as_fast, looped)
    assert found.verdict == "ambiguous"
    near = checked({"test": {**RATIO, "wanted": {"least": 1.02}}}, twice_as_fast, looped)
    assert near.verdict == "confirmed"  # 1.00 without an interval may be 1.02


def test_what_a_claim_is_about_is_in_its_file(twice_as_fast: Sweep) -> None:
    claim = document(test={**RATIO, "wanted": {"least": 1}})
    (found,) = claims({**claim, "dtype": "bfloat16"}, [twice_as_fast], Estimates())
    assert found.verdict == "not_tested"
    (found,) = claims({**claim, "device": "cpu"}, [twice_as_fast], Estimates())
    assert found.verdict == "other_device"


# What is not tested


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (512, Reason("missing", {"implementation": "Flash2", **AT, "seq_len": 512, **ON_CUDA})),
        (
            256,
            Reason(
                "excluded", {"implementation": "Pytorch", **AT, "seq_len": 256, **ON_CUDA}, "oom"
            ),
        ),
    ],
)
def test_a_claim_whose_runs_are_missing_is_not_tested(
    sweep: Plant, noisy: Noisy, size: int, reason: Reason
) -> None:
    planted = sweep(
        {("Flash2", False, 256): {"forward": noisy(1e-3)}, ("Pytorch", False, 256): "oom"},
        **ON_CUDA,
    )
    test = {**RATIO, "at": [{**AT, "seq_len": size}], "wanted": {"least": 1}}
    found = checked({"test": test}, planted)
    assert (found.verdict, found.reasons[0]) == ("not_tested", reason)
    assert found.evidence.estimates == []


def test_every_run_that_a_claim_lacks_is_named(twice_as_fast: Sweep) -> None:
    test = {**RATIO, "at": [{**AT, "seq_len": [128, 512, 1024]}], "wanted": {"least": 1}}
    found = checked({"test": test}, twice_as_fast)
    lacking = [reason.run for reason in found.reasons if reason.run]
    assert [(run["implementation"], run["seq_len"]) for run in lacking] == [
        *(("Flash2", 512), ("Flash2", 1024), ("Pytorch", 512), ("Pytorch", 1024))
    ]


def test_a_claim_about_training_is_not_tested(twice_as_fast: Sweep) -> None:
    found = checked({"untested": "needs_training"}, twice_as_fast)
    assert (found.verdict, found.reasons) == ("not_tested", [Reason("needs_training")])


# The file


def test_the_published_claims_are_many_and_each_has_a_test_or_says_what_it_needs() -> None:
    tested = [claim for claim in PUBLISHED["claims"] if "test" in claim]
    assert len(tested) >= 20
    assert len({claim["source"] for claim in PUBLISHED["claims"]}) == len(PUBLISHED["sources"])
    for claim in tested:
        wanted = wanted_range(claim)
        assert wanted.get("least", 0) < wanted.get("most", float("inf"))


def test_a_tolerance_goes_by_factors_both_ways() -> None:
    claim = {"test": RATIO, "published": {"figure": 9, "unit": "ratio", "tolerance": 0.25}}
    assert wanted_range(claim) == {"least": 7.2, "most": 11.2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tolerance": 3}, "tolerance"),
        ({"source": "nobody"}, "there is no source nobody"),
        ({"test": {**RATIO, "terms": [], "wanted": {"least": 1}}}, "terms"),
        ({"test": RATIO}, "published"),
        ({"test": {**RATIO, "compare": "amounts", "wanted": {"least": 1}}}, "too short"),
        ({"untested": "tired"}, "untested"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    claim = {"untested": "needs_training"} if "test" not in change else {}
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(document(**claim | change)), encoding="utf-8")
    with pytest.raises(ClaimsError, match=said) as caught:
        read_claims(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff", b"a: [", b"[]"])
def test_what_is_no_file_of_claims_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "claims.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ClaimsError, match=r"claims\.yaml"):
        read_claims(path)


def test_two_claims_of_one_name_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    double = document(untested="needs_training")
    double["claims"] *= 2
    path.write_text(yaml.safe_dump(double), encoding="utf-8")
    with pytest.raises(ClaimsError, match="claim names two claims"):
        read_claims(path)
