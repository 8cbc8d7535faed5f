from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from findings.lookups import excluded_run, the_one
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Reason
from flashlab.analysis.kinds.comparison import comparisons, crossovers, variant_effects
from flashlab.analysis.ratios import Ratio, rounded, rounded_off_margin

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
SIZES = (128, 256, 512, 1024)


def pair(noisy: Noisy, factors: dict[int, float], **options: Any) -> dict[Any, Any]:
    """Flash2 this many times as fast as Pytorch at each value."""
    runs: dict[Any, Any] = {}
    for size, factor in factors.items():
        naive = size**2 * 1e-8
        runs["Pytorch", False, size] = {"forward": noisy(naive, **options)}
        runs["Flash2", False, size] = {"forward": noisy(naive / factor, **options)}
    return runs


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.06, 2.0, "above"),
        (1.0501, 2.0, "above"),
        (0.5, 0.94, "below"),
        (0.5, 1 / 1.0501, "below"),
        (0.96, 1.04, "equal"),
        (1 / 1.05, 1.05, "equal"),
        (0.95, 1.05, "inconclusive"),
        (1.04, 1.5, "inconclusive"),
        (0.5, 1.5, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_a_ratio_counts_only_where_its_interval_lies_beyond_five_percent(
    low: float | None, high: float | None, verdict: str
) -> None:
    assert Ratio(128, 1.0, low, high, 30).verdict == verdict


OPPOSITE = {"above": "below", "below": "above"}
factors = st.floats(0.8, 1.25) | st.sampled_from([1.05, 1 / 1.05, 1.0])


@given(factors, factors, factors)
def test_the_inverse_of_a_ratio_has_the_opposite_verdict(a: float, b: float, c: float) -> None:
    low, estimate, high = sorted((a, b, c))
    found = Ratio(128, estimate, low, high, 30)
    inverse = Ratio(128, 1 / estimate, 1 / high, 1 / low, 30)
    assert inverse.verdict == OPPOSITE.get(found.verdict, found.verdict)
    assert (inverse.may_be_above, inverse.may_be_below) == (found.may_be_below, found.may_be_above)


@given(factors)
def test_a_printed_ratio_is_on_the_side_of_the_margin_that_decided(ratio: float) -> None:
    assume(ratio in (1.05, 1 / 1.05) or abs(abs(math.log(ratio)) - math.log(1.05)) > 1e-6)
    printed = rounded_off_margin(ratio)
    assert printed == pytest.approx(ratio, rel=5e-3)
    assert (printed > 1.05) == (ratio > 1.05)
    assert (printed < rounded(1 / 1.05, 9)) == (ratio < 1 / 1.05)


@pytest.mark.parametrize(
    ("ratio", "printed"), [(1.0512, 1.051), (1.0488, 1.049), (1.0573, 1.06), (0.9521, 0.952)]
)
def test_more_digits_are_printed_beside_the_margin_alone(ratio: float, printed: float) -> None:
    assert rounded_off_margin(ratio) == printed


# Comparisons


def test_a_kernel_that_is_faster_everywhere_is_faster(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(pair(noisy, {128: 2.0, 256: 3.0, 512: 4.0, 1024: 5.0}))
    found = the_one(comparisons(planted, Estimates()))
    assert found.verdict == "better"
    assert found.subject == {
        "implementation": "Flash2",
        "baseline": "Pytorch",
        "metric": "forward_time",
        "variant": {"causal": False},
    }
    assert found.params["trend"] == "widens"
    assert (found.params["low_at"], found.params["high_at"]) == (128, 1024)
    assert found.params["low"] == pytest.approx(2.0, rel=0.02)
    assert found.params["high"] == pytest.approx(5.0, rel=0.02)
    assert found.params["better_at"] == list(SIZES)
    assert found.evidence.n == 40
    assert len(found.evidence.estimates) == 4


def test_a_kernel_that_is_slower_everywhere_is_slower(sweep: Plant, noisy: Noisy) -> None:
    found = the_one(comparisons(sweep(pair(noisy, {128: 0.5, 256: 0.4})), Estimates()))
    assert (found.verdict, found.params["trend"]) == ("worse", "narrows")


@pytest.mark.parametrize(
    ("factors", "trend"),
    [
        ((2.0, 2.0, 2.2, 2.3), "widens"),
        ((2.0, 1.9, 1.8, 1.7), "narrows"),
        ((2.0, 2.1, 2.1, 2.15), "none"),  # beyond one margin, not beyond that of four medians
        ((2.0, 2.6, 2.3, 1.7), "peaks"),
        ((1.5, 2.6, 2.2, 2.0), "peaks"),
        ((2.0, 1.5, 1.6, 2.3), "dips"),
        ((2.0, 2.5, 2.0, 2.5), "none"),
    ],
)
def test_a_trend_is_stated_where_the_ratio_goes_one_way_else_its_extremum(
    sweep: Plant, noisy: Noisy, factors: tuple[float, ...], trend: str
) -> None:
    planted = sweep(pair(noisy, dict(zip(SIZES, factors, strict=True)), spread=0.002))
    found = the_one(comparisons(planted, Estimates()))
    assert found.params["trend"] == trend
    keys = [key for key in found.sentences if ".trend." in key]
    assert keys == ([] if trend == "none" else [f"comparison.trend.{trend}"])
    if trend == "peaks":
        assert found.params["high_at"] == 256


def test_identical_code_with_a_percent_of_drift_is_equivalent(sweep: Plant, noisy: Noisy) -> None:
    found = the_one(comparisons(sweep(pair(noisy, {128: 1.01, 256: 0.99, 512: 1.0})), Estimates()))
    assert found.verdict == "equivalent"


def test_a_difference_within_the_noise_is_inconclusive(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(pair(noisy, {128: 1.06, 256: 1.05}, count=12, spread=0.3))
    assert the_one(comparisons(planted, Estimates())).verdict == "inconclusive"


def test_a_kernel_that_wins_here_and_loses_there_is_mixed(sweep: Plant, noisy: Noisy) -> None:
    found = the_one(comparisons(sweep(pair(noisy, {128: 0.5, 256: 1.0, 512: 2.0})), Estimates()))
    assert found.verdict == "mixed"
    assert found.params["worse_at"] == [128]
    assert found.params["equal_at"] == [256]
    assert found.params["better_at"] == [512]


def test_means_alone_decide_nothing_and_say_why(sweep: Plant) -> None:
    runs = {
        ("Pytorch", False, 128): {"forward": [1.0], "means": True},
        ("Flash2", False, 128): {"forward": [0.1], "means": True},
    }
    found = the_one(comparisons(sweep(runs), Estimates()))
    assert found.verdict == "inconclusive"
    assert found.reasons == [Reason("no_samples")]
    assert found.params["low"] == 10


def test_a_run_that_failed_is_left_out_of_the_numbers_and_named(sweep: Plant, noisy: Noisy) -> None:
    runs = pair(noisy, {128: 2.0, 256: 2.0}) | {
        ("Pytorch", False, 512): "oom",
        ("Flash2", False, 512): {"forward": noisy(1.0)},
    }
    planted, estimates = sweep(runs), Estimates()
    for found in (*comparisons(planted, estimates), *crossovers(planted, estimates)):
        assert (found.params["last"], found.params["count"]) == (256, 2)
        assert found.reasons == [excluded_run("Pytorch", 512, "oom")]


def test_a_comparison_is_withheld_where_a_run_is_missing_and_names_it(
    sweep: Plant, noisy: Noisy
) -> None:
    planted = sweep(
        {("Pytorch", False, 128): "error", ("Flash2", False, 128): {"forward": noisy(1.0)}}
    )
    found = the_one(comparisons(planted, Estimates()))
    assert (found.verdict, found.params["count"]) == ("inconclusive", 0)
    assert found.evidence.estimates == []
    assert found.reasons == [excluded_run("Pytorch", 128, "error")]


def test_doubts_about_a_record_go_along_with_what_is_built_on_it(
    sweep: Plant, noisy: Noisy
) -> None:
    runs = pair(noisy, {128: 2.0})
    runs["Pytorch", False, 128]["warnings"] = [{"code": "drift"}, {"code": "cpu_load"}]
    assert the_one(comparisons(sweep(runs), Estimates())).warnings == ["cpu_load", "drift"]


def test_the_headline_compares_the_total_of_both_passes_too(sweep: Plant, noisy: Noisy) -> None:
    runs = pair(noisy, {128: 2.0})
    runs["Flash2", False, 128]["warnings"] = [{"code": "drift", "metric": "backward_time"}]
    planted = sweep(runs, name="summary", sweep="")
    found = the_one(comparisons(planted, Estimates()), "forward_backward_time")
    assert (found.verdict, found.warnings) == ("better", ["drift"])
    assert found.evidence.rows["metric"] == ["forward_time", "backward_time"]
    assert found.params["low"] == pytest.approx(2, rel=0.02)
    assert the_one(comparisons(planted, Estimates()), "forward_time").warnings == []
    swept = comparisons(sweep(runs), Estimates())
    assert {finding.metric for finding in swept} == {"forward_time", "backward_time"}


# Variants


def masked(noisy: Noisy, gain: float) -> dict[Any, Any]:
    return {
        ("Flash2", causal, size): {"forward": noisy(size * 1e-5 / (gain if causal else 1))}
        for size in SIZES
        for causal in (False, True)
    }


@pytest.mark.parametrize(
    ("gain", "verdict"), [(1.9, "better"), (1.0, "equivalent"), (0.7, "worse")]
)
def test_what_causal_masking_does_to_time(
    sweep: Plant, noisy: Noisy, gain: float, verdict: str
) -> None:
    found = the_one(variant_effects(sweep(masked(noisy, gain)), Estimates()))
    assert found.verdict == verdict
    assert found.params["low"] == pytest.approx(gain, rel=0.02)


def test_one_mask_alone_shows_no_effect(sweep: Plant, noisy: Noisy) -> None:
    assert list(variant_effects(sweep(pair(noisy, {128: 2.0})), Estimates())) == []


def test_a_failed_run_of_the_other_mask_is_not_the_comparisons_affair(
    sweep: Plant, noisy: Noisy
) -> None:
    runs = pair(noisy, {128: 2.0}) | {("Flash2", True, 128): "oom"}
    found = comparisons(sweep(runs), Estimates())
    reasons = {finding.subject["variant"]["causal"]: finding.reasons for finding in found}
    assert reasons == {False: [], True: [excluded_run("Flash2", 128, "oom", causal=True)]}


# Crossovers


def test_a_crossover_lies_between_the_values_at_which_one_and_the_other_is_faster(
    sweep: Plant, noisy: Noisy
) -> None:
    found = the_one(
        crossovers(sweep(pair(noisy, {128: 0.5, 256: 0.8, 512: 1.0, 1024: 2.0})), Estimates())
    )
    assert found.verdict == "crosses"
    bracket = {key: found.params[key] for key in ("low_at", "high_at", "before", "after")}
    assert bracket == {"low_at": 256, "high_at": 1024, "before": "Pytorch", "after": "Flash2"}


def test_each_change_of_the_faster_one_is_a_finding(sweep: Plant, noisy: Noisy) -> None:
    planted = sweep(pair(noisy, {128: 0.5, 256: 2.0, 512: 0.5, 1024: 0.5}))
    found = [f for f in crossovers(planted, Estimates()) if f.metric == "forward_time"]
    brackets = [(f.params["low_at"], f.params["high_at"], f.params["after"]) for f in found]
    assert brackets == [(128, 256, "Flash2"), (256, 512, "Pytorch")]


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({128: 2.0, 256: 1.0}, {"relation": "leads", "leader": "Flash2", "trailer": "Pytorch"}),
        ({128: 0.5, 256: 1.0}, {"relation": "leads", "leader": "Pytorch", "trailer": "Flash2"}),
        ({128: 1.0, 256: 1.01}, {"relation": "level"}),
    ],
)
def test_where_none_is_ever_overtaken_there_is_no_crossover(
    sweep: Plant, noisy: Noisy, speeds: dict[int, float], expected: dict[str, str]
) -> None:
    found = the_one(crossovers(sweep(pair(noisy, speeds)), Estimates()))
    assert found.verdict == "none_in_range"
    assert expected.items() <= found.params.items()


def test_noise_that_allows_either_to_be_faster_decides_no_crossover(
    sweep: Plant, noisy: Noisy
) -> None:
    planted = sweep(pair(noisy, {128: 1.0, 256: 1.01}, count=12, spread=0.3))
    assert the_one(crossovers(planted, Estimates())).verdict == "inconclusive"


NAMES = {"Flash2": "Pytorch", "Pytorch": "Flash2"}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.floats(0.9, 1.11), min_size=4, max_size=4), st.integers(12, 40))
def test_no_name_decides_a_verdict(
    sweep: Plant, noisy: Noisy, speeds: list[float], count: int
) -> None:
    """To exchange two names exchanges them in what is found, and nothing else."""
    speeds_at = dict(zip(SIZES, speeds, strict=True))
    runs = pair(noisy, speeds_at, count=count, spread=0.03)
    exchanged = {(NAMES[name], *rest): run for (name, *rest), run in runs.items()}

    def summary(runs: dict[Any, Any]) -> list[dict[str, Any]]:
        found = (f for f in crossovers(sweep(runs), Estimates()) if f.metric == "forward_time")
        return [{**f.params, "verdict": f.verdict} for f in found]

    def named_otherwise(finding: dict[str, Any]) -> dict[str, Any]:
        return {k: NAMES.get(v, v) if isinstance(v, str) else v for k, v in finding.items()}

    assert summary(exchanged) == [named_otherwise(finding) for finding in summary(runs)]

    def sides(runs: dict[Any, Any]) -> list[list[int]]:
        params = the_one(comparisons(sweep(runs), Estimates())).params
        return [params[key] for key in ("better_at", "worse_at", "equal_at", "undecided_at")]

    better, worse, equal, undecided = sides(runs)
    assert sides(exchanged) == [worse, better, equal, undecided]


def test_another_name_changes_no_number(sweep: Plant, noisy: Noisy) -> None:
    runs = pair(noisy, dict.fromkeys(SIZES, 1.05), count=20, spread=0.03)
    renamed = {
        ("Flex" if name == "Flash2" else name, *rest): r for (name, *rest), r in runs.items()
    }
    found, again = (
        the_one(comparisons(sweep(each, name=name), Estimates()))
        for each, name in ((runs, "seq_len"), (renamed, "another"))
    )
    assert (found.verdict, found.params) == (again.verdict, again.params)
    assert found.estimates == again.estimates


def test_every_pair_of_implementations_is_looked_at(sweep: Plant, noisy: Noisy) -> None:
    runs = {(name, False, n): {"forward": noisy(1e-3)} for name in "ABC" for n in SIZES}
    pairs = {
        (f.subject["implementation"], f.subject["other"])
        for f in crossovers(sweep(runs), Estimates())
    }
    assert pairs == {("A", "B"), ("A", "C"), ("B", "C")}
