"""Which findings their section tells in prose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Evidence, Finding
from flashlab.analysis.select import (
    is_told,
    select,
)

Plant = Callable[..., Sweep]

HEADLINE = ("Pytorch", "Flash2")


def finding(kind: str, verdict: str, **keys: Any) -> Finding:
    estimates, params = keys.pop("estimates", []), keys.pop("params", {})
    experiment = keys.pop("experiment", "seq_len")
    subject = {"implementation": "Flash2", "baseline": "Pytorch", "metric": "forward_time"}
    return Finding(
        kind=kind,
        experiment=experiment,
        device="Abacus",
        subject=subject | keys,
        verdict=verdict,
        sentences=[],
        params=params,
        evidence=Evidence("samples.csv", {}, "planted", 12, estimates),
    )


def ratio(low: float, high: float) -> dict[str, Any]:
    return {"estimate": math.sqrt(low * high), "low": low, "high": high}


def comparison(low: float, high: float, **keys: Any) -> Finding:
    return finding("comparison", "better", estimates=[ratio(low, high)], **keys)


def test_prose_tells_of_the_headlines_implementations_and_of_what_breaks_a_rule() -> None:
    def told(found: Finding, tabulated: bool = False) -> bool:
        return is_told(found, HEADLINE, tabulated)

    assert told(comparison(2.0, 2.1))
    assert not told(comparison(2.0, 2.1, implementation="Flash4"))
    assert told(finding("monotonicity", "broken", implementation="Flash4"))
    assert not told(finding("monotonicity", "monotone"))
    assert not told(finding("claim", "confirmed"))
    growth = finding("scaling", "power_law")
    assert told(growth)
    assert not told(growth, tabulated=True)


# The place of each finding in a report


@pytest.fixture
def sections(sweep: Plant) -> list[Sweep]:
    """Two sections, in an order that is not that of their names; nothing of a third ran."""
    names, sizes = ("Pytorch", "Flash2"), (128, 256)
    runs: dict[Any, Any] = {(name, False, n): {} for name in names for n in sizes}
    failed = dict.fromkeys(runs, "unsupported")
    first, second = (sweep(runs, name=name) for name in ("second", "first"))
    return [first, second, sweep(failed, name="failed")]


def test_each_finding_is_told_by_its_section_or_not(sections: list[Sweep]) -> None:
    strong = comparison(8.0, 8.1, experiment="second")
    weak = comparison(2.0, 2.1, experiment="first", metric="backward_time")
    level = finding("monotonicity", "monotone", experiment="first")
    claim = replace(finding("claim", "confirmed"), experiment=None)
    found = select([weak, strong, level, claim], sections, HEADLINE)
    assert [each.told for each in found] == [True, True, False, False]
    assert [replace(each, told=False) for each in found] == [weak, strong, level, claim]


def test_what_an_earlier_section_has_told_is_not_told_again(sections: list[Sweep]) -> None:
    found = [comparison(2.0, 2.1, experiment=name) for name in ("first", "second")]
    assert [each.told for each in select(found, sections, HEADLINE)] == [False, True]
    found[0] = replace(found[0], params={"low": 2.05})
    assert [each.told for each in select(found, sections, HEADLINE)] == [True, True]


def test_a_section_in_which_nothing_ran_tells_nothing(sections: list[Sweep]) -> None:
    found = [finding("out_of_memory", "limit_found", experiment="failed")]
    assert [each.told for each in select(found, sections, HEADLINE)] == [False]


def test_growth_is_not_told_where_a_table_has_it_for_more_implementations(
    sections: list[Sweep],
) -> None:
    params = {"times": 4.0, "times_size": 2.0, "covaried": []}
    growth = finding("scaling", "power_law", params=params, experiment="first")
    assert [each.told for each in select([growth], sections, HEADLINE)] == [True]
    only = [replace(growth, subject={"implementation": "Flash2", "metric": "forward_time"})]
    assert [each.told for each in select(only, sections, ["Flash2"])] == [False]


def test_of_the_ceilings_errors_are_told_and_the_nearest_approach_of_each_of_the_headlines(
    sections: list[Sweep],
) -> None:
    def roofline(share: float, name: str = "Flash2", verdict: str = "neither") -> Finding:
        return finding("roofline", verdict, implementation=name, params={"matrix_high": share})

    shares = [roofline(30), roofline(40), roofline(20, "Pytorch"), roofline(90, "Flash4")]
    error = roofline(120, "Flash4", "model_error")
    found = select([*shares, error], sections, HEADLINE)
    assert [each.told for each in found] == [False, True, True, False, True]


# Choices, and what sections tell briefly


def of_dataset(kind: str, verdict: str, **keys: Any) -> Finding:
    found = finding(kind, verdict, **keys)
    subject = {k: v for k, v in found.subject.items() if k not in ("baseline", *DROPPED[kind])}
    return replace(found, experiment=None, subject=subject)


DROPPED = {"correctness": ("metric",), "choice": ("implementation",), "variant_gain": ()}


def choice(of: int = 7) -> Finding:
    return of_dataset("choice", "changes", params={"of": of}, metric="total_time")


def along(kind: str, verdict: str, experiment: str, **params: Any) -> Finding:
    metric = params.pop("metric", "forward_time")
    found = finding(kind, verdict, params=params, experiment=experiment, metric=metric)
    drop = ("baseline", *(("implementation",) if kind == "choice" else ()))
    return replace(found, subject={k: v for k, v in found.subject.items() if k not in drop})


def test_a_section_tells_the_choice_by_the_metric_that_decides_and_once(
    sections: list[Sweep],
) -> None:
    total = [along("choice", "changes", e, of=7, metric="total_time") for e in ("first", "second")]
    single = along("choice", "one_best", "second", of=7)
    told = [each.told for each in select([*total, single, choice()], sections, HEADLINE)]
    assert told == [False, True, False, False]  # "second" is the earlier section
    few = [along("choice", "changes", "first", of=2, metric="total_time"), choice()]
    assert [each.told for each in select(few, sections, HEADLINE)] == [False, False]


def test_a_section_tells_each_new_kind_once_and_where_it_is_strongest(
    sections: list[Sweep],
) -> None:
    found = [
        along("launch_bound", "level", "second", times_work=4.0),
        along("launch_bound", "level", "first", times_work=16.0),
        along("launch_bound", "none", "first", times_work=1.0, metric="backward_time"),
        along("saturation", "reached", "first", **{"from": 256, "first": 128}),
        along("saturation", "rising", "second", metric="backward_time"),
    ]
    assert [each.told for each in select(found, sections, HEADLINE)] == [
        *(False, True, False, True, False)
    ]


def test_a_section_tells_at_most_three_findings_of_the_new_kinds(sections: list[Sweep]) -> None:
    found = [
        along("jump", "rises", "first", ratio=2.0),
        along("exact_account", "explained", "first", share=80.0),
        along("launch_bound", "level", "first", times_work=4.0),
        along("saturation", "falls", "first", share=50.0),
    ]
    told = [each.told for each in select(found, sections, HEADLINE)]
    assert told == [True, True, True, False]


def test_of_the_whole_dataset_the_kind_with_the_most_settings_is_told(
    sections: list[Sweep],
) -> None:
    gains = [of_dataset("variant_gain", "below", params={"count": count}) for count in (3, 13, 5)]
    assert [each.told for each in select(gains, sections, HEADLINE)] == [False, True, False]
