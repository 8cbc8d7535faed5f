"""Conclusions quote what was planted, decide nothing more, and tell ties as ties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema
import pytest

from flashlab.analysis.derive import SCHEMA, derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep, sections_of
from flashlab.analysis.finding import Finding
from flashlab.files import read_json

Times = Mapping[str, Sequence[Any]]
Conclude = Callable[..., list[Finding]]
SIZES = (128, 256, 512, 1024)


@pytest.fixture
def planted_sweep(
    sweep: Callable[..., Sweep], noisy: Callable[..., list[float]]
) -> Callable[..., Sweep]:
    """A sweep with these times (in units of 10 µs) of each implementation at each size.

    A text is the status of a run that failed; peak memory is the size times `peaks`.
    """

    def build(
        times: Times,
        peaks: Mapping[str, float] | None = None,
        causal: bool = False,
        name: str = "seq_len",
        masked: Times | None = None,
        **options: Any,
    ) -> Sweep:
        runs: dict[Any, Any] = {}
        for mask, table in ((causal, times), (not causal, masked or {})):
            for implementation, row in table.items():
                for size, time in zip(SIZES, row, strict=False):
                    peak = float(size) * (peaks or {}).get(implementation, 1.0)
                    runs[implementation, mask, size] = (
                        time
                        if isinstance(time, str)
                        else {"forward": noisy(time * 1e-5), "peak": peak}
                    )
        return sweep(runs, name=name, **options)

    return build


@pytest.fixture
def concluded(planted_sweep: Callable[..., Sweep]) -> Conclude:
    """The conclusions from sweeps, all that is planted derived from their tables."""

    def build(*sweeps: Sweep) -> list[Finding]:
        found = derive(
            sweeps, Estimates(), {"benchmark": "attention", "sources": {}, "claims": []}, None
        )
        conclusions = [finding for finding in found if finding.kind == "conclusion"]
        jsonschema.validate([each.to_json() for each in found], read_json(SCHEMA))
        return conclusions

    return build


def of_section(found: Sequence[Finding]) -> Finding:
    (section,) = (each for each in found if each.subject["topic"] == "section")
    return section


def of_front(found: Sequence[Finding], topic: str) -> list[Finding]:
    return [each for each in found if each.front is not None and each.subject["topic"] == topic]


# Two implementations


@pytest.mark.parametrize(
    ("other", "verdict", "key"),
    [
        ((10, 20, 40, 80), "better", "conclusion.pair.better.none"),
        ((20, 32, 50, 80), "better", "conclusion.pair.better.widens"),
        ((10, 25, 65, 160), "better", "conclusion.pair.better.narrows"),
        ((20, 20, 40, 160), "better", "conclusion.pair.better.peaks"),
        ((60, 120, 240, 480), "worse", "conclusion.pair.worse"),
        ((30, 60, 120, 240), "equivalent", "conclusion.pair.equivalent"),
        ((10, 60, 240, 480), "mixed", "conclusion.pair.mixed"),
    ],
)
def test_a_pair_is_concluded_by_its_verdict_and_trend(
    planted_sweep: Callable[..., Sweep],
    concluded: Conclude,
    other: Sequence[float],
    verdict: str,
    key: str,
) -> None:
    found = concluded(planted_sweep({"Pytorch": (30, 60, 120, 240), "Flash2": other}))
    section = of_section(found)
    assert (section.verdict, section.sentences[0]) == (verdict, key)
    ratios = [base / mine for base, mine in zip((30, 60, 120, 240), other, strict=True)]
    assert section.params["low"] == pytest.approx(min(ratios), rel=0.02)
    assert section.params["high"] == pytest.approx(max(ratios), rel=0.02)
    (answer,) = of_front(found, "answer")
    assert answer.verdict == verdict


def test_memory_is_quoted_from_the_tables_where_it_differs_most(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    times = {"Pytorch": (30, 60, 120, 240), "Flash2": (10, 20, 40, 80)}
    section = of_section(concluded(planted_sweep(times, {"Pytorch": 4.0})))
    assert "conclusion.exact.less" in section.sentences
    assert section.params["exact_low"] == section.params["exact_high"] == "25"
    assert section.params["exact_theirs"] == 4 * section.params["exact_mine"]


def test_means_without_samples_decide_nothing(
    sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    runs = {
        (name, False, size): {"forward": [time * 1e-5 * size] * 12, "means": True}
        for name, time in (("Pytorch", 3), ("Flash2", 1))
        for size in SIZES
    }
    found = concluded(sweep(runs))
    assert of_section(found).verdict == "inconclusive"
    assert of_front(found, "answer")[0].verdict == "inconclusive"


def test_without_any_number_nothing_is_compared(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep({"Pytorch": ("error",) * 4, "Flash2": ("oom",) * 4}))
    assert of_section(found).sentences == ["conclusion.no_numbers"]
    assert of_front(found, "answer")[0].verdict == "no_numbers"


def test_one_implementation_alone_is_compared_with_nothing(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep({"Pytorch": ("oom",) * 4, "Flash2": (10, 20, 40, 80)}))
    assert of_section(found).verdict == "alone"
    assert of_front(found, "answer")[0].params["able"] == ["Flash2"]


def test_the_only_numbers_may_be_of_another_variant_than_the_first(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    failed = {"Pytorch": ("oom",) * 4, "Flash2": ("error",) * 4}
    masked = {"Pytorch": ("oom",) * 4, "Flash2": (10, 20, 40, "error")}
    section = of_section(concluded(planted_sweep(failed, masked=masked)))
    assert (section.verdict, section.params["first"], section.params["last"]) == ("alone", 128, 512)


def test_what_ran_out_of_memory_is_told_once_and_not_as_checked(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    times = {"Pytorch": (30, 60, 120, "oom"), "Flash2": (10, 20, 40, 80)}
    section = of_section(concluded(planted_sweep(times)))
    assert section.params["oom_at"] == 1024 and section.params["oom_names"] == ["Pytorch"]
    assert "out_of_memory" not in section.params["absent"]
    assert not any(reason.status == "oom" for reason in section.reasons)


def test_a_cause_is_not_told_without_counters(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep({"Pytorch": (30, 60, 120, 240), "Flash2": (10, 20, 40, 80)}))
    assert not any("cause" in key for each in found for key in each.sentences)


def test_a_variant_helps_one_and_hurts_the_other(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    full = {"Pytorch": (30, 60, 120, 240), "Flash2": (10, 20, 40, 80)}
    masked = {"Pytorch": (40, 80, 160, 320), "Flash2": (8, 14, 24, 44)}
    section = of_section(concluded(planted_sweep(full, masked=masked)))
    outcomes = {each["code"]: each["names"] for each in section.params["outcomes"]}
    assert outcomes == {"gains": ["Flash2"], "loses": ["Pytorch"]}


# More


def many(**changes: Sequence[Any]) -> dict[str, Sequence[Any]]:
    return {
        "Pytorch": (300, 600, 1200, 2400),
        "Flash2": (10, 20, 60, 120),
        "Flash4": (15, 30, 40, 80),
        **changes,
    }


def test_the_map_names_who_is_best_at_each_size_with_its_lead(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep(many()))
    (chart,) = of_front(found, "map")
    cells = [row[0] for row in chart.params["charts"][-1]["cells"]]
    assert [cell["names"][0] for cell in cells] == ["Flash2", "Flash2", "Flash4", "Flash4"]
    assert {cell["state"] for cell in cells} == {"alone"}
    assert all(45 <= int(cell["lead_low"]) <= 55 for cell in cells)
    heading = of_front(found, "choice")[-1]
    assert heading.verdict == "by_size"
    assert [s["values"] for s in heading.params["stretches"]] == [[128, 256], [512, 1024]]


def test_a_tie_is_shown_as_a_tie_and_not_as_a_lead(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep(many(Flash4=(10.05, 20.1, 60, 120.5))))
    (chart,) = of_front(found, "map")
    cells = [row[0] for row in chart.params["charts"][-1]["cells"]]
    assert {cell["state"] for cell in cells} == {"level"}
    assert all(set(cell["names"]) == {"Flash2", "Flash4"} for cell in cells)
    assert not any("leads" in key for key in of_front(found, "choice")[-1].sentences)


def test_settings_of_one_place_that_differ_are_no_single_choice(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    first = planted_sweep(many())
    other = planted_sweep(
        many(Flash2=(15, 30, 60, 120), Flash4=(10, 20, 40, 80)),
        name="batches",
        sizes=lambda value: {"seq_len": value, "batch_size": 7},
    )
    (chart,) = of_front(concluded(first, other), "map")
    cells = [row[0] for row in chart.params["charts"][-1]["cells"]]
    assert [cell["state"] for cell in cells] == ["changes", "changes", "alone", "alone"]


def test_what_is_slower_than_the_naive_one_is_to_be_avoided(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep(many(SdpaMath=(900, 1800, 3600, 7200))))
    (avoid,) = of_front(found, "avoid")
    assert (avoid.params["avoid"], avoid.params["avoid_count"]) == ("SdpaMath", 4)
    headings = [each.sentences[0] for each in found if each.front is not None]
    assert not any("pair" in heading for heading in headings)  # no speedup over the naive one


def test_the_conclusions_of_page_one_are_ranked_from_the_first(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep(many()))
    assert [each.front for each in found if each.front is not None] == list(
        range(sum(each.front is not None for each in found))
    )


def test_a_lead_of_many_times_is_told_as_a_factor(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    found = concluded(planted_sweep(many(Flash2=(5, 10, 20, 40), Flash4=(15, 30, 60, 120))))
    section = of_section(found)
    assert (section.verdict, section.params["name"]) == ("one_best", "Flash2")
    assert section.sentences[0] == "conclusion.choice.one_best.times"
    assert section.params["low"] == pytest.approx(3.0, rel=0.02)


# Sections


def test_neighbours_that_differ_in_one_fixed_parameter_share_a_section(
    planted_sweep: Callable[..., Sweep], concluded: Conclude
) -> None:
    def of(name: str, causal: bool, heads: int, batch: int = 1) -> Sweep:
        return planted_sweep(
            many(),
            name=name,
            causal=causal,
            sizes=lambda value: {"seq_len": value, "num_heads": heads, "batch_size": batch},
        )

    sweeps = [of("a", False, 2), of("b", True, 2), of("c", False, 4), of("d", True, 8, 7)]
    assert [[s.name for s in group] for group in sections_of(sweeps)] == [["a", "b", "c"], ["d"]]
    sections = [each for each in concluded(*sweeps) if each.subject["topic"] == "section"]
    assert [each.experiment for each in sections] == ["a", "d"]


def test_an_experiment_with_both_variants_has_a_section_of_its_own(
    planted_sweep: Callable[..., Sweep],
) -> None:
    full, both = planted_sweep(many()), planted_sweep(many(), name="both", masked=many())
    assert [len(group) for group in sections_of([full, both])] == [1, 1]
