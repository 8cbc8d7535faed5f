"""Conclusions quote what was planted, decide nothing more, and tell ties as ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from analysis.deriving import NO_CLAIMS, Plant, check, keys

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import sections_of
from flashlab.analysis.finding import Finding
from flashlab.telling.values import Range

NAIVE = (30, 60, 120, 240)
FASTER = (10, 20, 40, 80)
FAILED = ("oom",) * 4


def concluded(*sweeps: Any) -> list[Finding]:
    """The conclusions from all findings on these experiments, which are checked with them."""
    found = derive(sweeps, Estimates(), NO_CLAIMS, None)
    check(found, sweeps[0].benchmark)
    return [finding for finding in found if finding.kind == "conclusion"]


def of_section(found: Sequence[Finding]) -> Finding:
    (section,) = (each for each in found if each.subject["topic"] == "section")
    return section


def of_front(found: Sequence[Finding], topic: str) -> list[Finding]:
    return [each for each in found if each.rank is not None and each.subject["topic"] == topic]


def said(finding: Finding, key: str) -> Any:
    """What the statement with this key quotes."""
    (values,) = (statement.values for statement in finding.statements if statement.key == key)
    return values


def ends(value: Range) -> list[float]:
    low, high = value.low, value.high
    return [low.value, high.value]  # type: ignore[union-attr]


# Two implementations


@pytest.mark.parametrize(
    ("other", "verdict", "key"),
    [
        (FASTER, "better", "conclusion.pair.better.none"),
        ((20, 32, 50, 80), "better", "conclusion.pair.better.widens"),
        ((10, 25, 65, 160), "better", "conclusion.pair.better.narrows"),
        ((20, 20, 40, 160), "better", "conclusion.pair.better.peaks"),
        ((60, 120, 240, 480), "worse", "conclusion.pair.worse"),
        (NAIVE, "equivalent", "conclusion.pair.equivalent"),
        ((10, 60, 240, 480), "mixed", "conclusion.pair.mixed"),
    ],
)
def test_a_pair_is_concluded_by_its_verdict_and_trend(
    sweep: Plant, other: Sequence[float], verdict: str, key: str
) -> None:
    found = concluded(sweep({"Pytorch": NAIVE, "Flash2": other}))
    section = of_section(found)
    assert (section.verdict, keys(section)[0]) == (verdict, key)
    ratios = [base / mine for base, mine in zip(NAIVE, other, strict=True)]
    assert ends(said(section, key)["ratio_range"]) == pytest.approx(
        [min(ratios), max(ratios)], rel=0.02
    )
    (answer,) = of_front(found, "answer")
    assert answer.verdict == verdict
    assert not any("cause" in told for each in found for told in keys(each))  # nothing was counted


def with_peaks(times: Sequence[float], factor: float) -> list[Any]:
    """Runs whose peak grows with their place along the sweep."""
    return [{"forward": time, "peak": factor * 2**place} for place, time in enumerate(times)]


def test_memory_is_quoted_from_the_tables_where_it_differs_most(sweep: Plant) -> None:
    planted = sweep({"Pytorch": with_peaks(NAIVE, 4.0), "Flash2": with_peaks(FASTER, 1.0)})
    told = said(of_section(concluded(planted)), "conclusion.exact.less")
    assert ends(told["exact_share"]) == [25, 25]
    assert told["exact_theirs"].value == 4 * told["exact_mine"].value


@pytest.mark.parametrize(
    ("runs", "section", "answer"),
    [
        # Means decide nothing.
        ({name: [{"forward": [t * 1e-5], "means": True} for t in times]
          for name, times in (("Pytorch", NAIVE), ("Flash2", FASTER))},
         "inconclusive", "inconclusive"),
        ({"Pytorch": ("error",) * 4, "Flash2": FAILED}, "no_numbers", "no_numbers"),
        ({"Pytorch": FAILED, "Flash2": FASTER}, "alone", "alone"),
        # The only numbers may be of another variant than the first.
        ({"Pytorch": FAILED, "Flash2": FAILED, ("Pytorch", True): FAILED,
          ("Flash2", True): (10, 20, 40, "error")}, "alone", "alone"),
        # A variant helps one and hurts the other.
        ({"Pytorch": NAIVE, "Flash2": FASTER, ("Pytorch", True): (40, 80, 160, 320),
          ("Flash2", True): (8, 14, 24, 44)}, "mixed", "better"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_concluded_as_such(
    sweep: Plant, runs: Any, section: str, answer: str
) -> None:
    found = concluded(sweep(runs))
    assert of_section(found).verdict == section
    assert [each.verdict for each in of_front(found, "answer")] == [answer]


def test_what_ran_out_of_memory_is_told_once_and_not_as_checked(sweep: Plant) -> None:
    section = of_section(concluded(sweep({"Pytorch": (30, 60, 120, "oom"), "Flash2": FASTER})))
    told = said(section, "conclusion.out_of_memory")
    assert (told["oom_at"], told["oom_names"].items) == (1024, ["Pytorch"])
    absent = [each.key for each in said(section, "conclusion.checked")["absent"].items]
    assert absent and "conclusion.absent.out_of_memory" not in absent
    assert not any(reason.status == "oom" for reason in section.reasons)


def test_a_variant_is_concluded_by_whom_it_helps(sweep: Plant) -> None:
    masked = {("Pytorch", True): (40, 80, 160, 320), ("Flash2", True): (8, 14, 24, 44)}
    section = of_section(concluded(sweep({"Pytorch": NAIVE, "Flash2": FASTER, **masked})))
    outcomes = said(section, "conclusion.variant")["outcomes"].items
    assert [(each.key, each.values["names"].items) for each in outcomes] == [
        ("conclusion.outcome.gains", ["Flash2"]),
        ("conclusion.outcome.loses", ["Pytorch"]),
    ]


@pytest.mark.parametrize(
    ("operators", "key", "idle"),
    [
        ({"operators": 1, "fused_share": 100.0, "product_share": 0.0}, ".fused", 0),
        ({"operators": 20, "operator_time": 0.5, "fused_share": 100.0}, ".launch_bound", 50),
        ({"operators": 6, "product_share": 80.0, "softmax_share": 10.0}, "", 0),
    ],
)
def test_a_cause_tells_the_verdict_and_not_only_the_shares(
    sweep: Plant, operators: dict[str, float], key: str, idle: float
) -> None:
    """An operator that is idle half the time is not told by what it does in the other half."""
    counted = {"forward": 100, "counters": {"operator_time": 1.0} | operators}
    found = of_section(concluded(sweep({"Flash2": [counted]})))
    told = said(found, f"conclusion.cause.operators{key}")
    assert told["cause_idle"].value == pytest.approx(idle, abs=2)


# More


def many(**changes: Sequence[Any]) -> dict[str, Sequence[Any]]:
    return {
        "Pytorch": (300, 600, 1200, 2400),
        "Flash2": (10, 20, 60, 120),
        "Flash4": (15, 30, 40, 80),
        **changes,
    }


def cells(found: Sequence[Finding]) -> list[Any]:
    """The only column of the map by the total."""
    (chart,) = of_front(found, "map")
    return [row[0] for row in chart.facts["charts"][-1]["cells"]]


def test_the_map_names_who_is_best_at_each_size_with_its_lead(sweep: Plant) -> None:
    found = concluded(sweep(many()))
    assert [c["names"][0] for c in cells(found)] == ["Flash2", "Flash2", "Flash4", "Flash4"]
    assert {cell["state"] for cell in cells(found)} == {"alone"}
    assert all(45 <= int(cell["lead_low"]) <= 55 for cell in cells(found))
    heading = of_front(found, "choice")[-1]
    assert heading.verdict == "by_size"
    stretches = said(heading, "conclusion.front.choice.by_size")["stretches"].items
    where = [
        (each.values["where"].key, *each.values["where"].values.values()) for each in stretches
    ]
    assert where == [("conclusion.stretch.to", "N", 256), ("conclusion.stretch.from", "N", 512)]
    ranks = [each.rank for each in found if each.rank is not None]
    assert ranks == list(range(len(ranks)))


def test_a_tie_is_shown_as_a_tie_and_not_as_a_lead(sweep: Plant) -> None:
    found = concluded(sweep(many(Flash4=(10.05, 20.1, 60, 120.5))))
    assert {cell["state"] for cell in cells(found)} == {"level"}
    assert all(set(cell["names"]) == {"Flash2", "Flash4"} for cell in cells(found))
    assert not any("leads" in key for key in keys(of_front(found, "choice")[-1]))


def test_settings_of_one_place_that_differ_are_no_single_choice(sweep: Plant) -> None:
    other = many(Flash2=(15, 30, 60, 120), Flash4=(10, 20, 40, 80))
    batches = sweep(other, "batches", sizes=lambda n: {"seq_len": n, "batch_size": 7})
    found = cells(concluded(sweep(many()), batches))
    assert [cell["state"] for cell in found] == ["changes", "changes", "alone", "alone"]


def test_what_is_slower_than_the_naive_one_is_to_be_avoided(sweep: Plant) -> None:
    found = concluded(sweep(many(SdpaMath=(900, 1800, 3600, 7200))))
    (avoid,) = of_front(found, "avoid")
    told = avoid.statements[0].values
    assert (avoid.statements[0].key, told["avoid"]) == (
        "conclusion.front.avoid.everywhere",
        "SdpaMath",
    )
    headings = [keys(each)[0] for each in found if each.rank is not None]
    assert not any("pair" in heading for heading in headings)  # no speedup over the naive one


def test_a_lead_of_many_times_is_told_as_a_factor(sweep: Plant) -> None:
    section = of_section(concluded(sweep(many(Flash2=(5, 10, 20, 40), Flash4=(15, 30, 60, 120)))))
    told = said(section, "conclusion.choice.one_best.times")
    assert (section.verdict, told["name"]) == ("one_best", "Flash2")
    assert ends(told["ratio_range"])[0] == pytest.approx(3.0, rel=0.02)


# Sections


def test_neighbours_that_differ_in_one_fixed_parameter_share_a_section(sweep: Plant) -> None:
    def of(name: str, causal: bool, heads: int, batch: int = 1) -> Any:
        runs = {(who, causal): times for who, times in many().items()}
        sizes = {"num_heads": heads, "batch_size": batch}
        return sweep(runs, name, sizes=lambda value: {"seq_len": value, **sizes})

    sweeps = [of("a", False, 2), of("b", True, 2), of("c", False, 4), of("d", True, 8, 7)]
    assert [[s.name for s in group] for group in sections_of(sweeps)] == [["a", "b", "c"], ["d"]]
    sections = [each for each in concluded(*sweeps) if each.subject["topic"] == "section"]
    assert [each.experiment for each in sections] == ["a", "d"]


def test_an_experiment_with_both_variants_has_a_section_of_its_own(sweep: Plant) -> None:
    masked = {(name, True): times for name, times in many().items()}
    full, both = sweep(many()), sweep({**many(), **masked}, "both")
    assert [len(group) for group in sections_of([full, both])] == [1, 1]
