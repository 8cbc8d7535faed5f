"""Which findings their section tells in prose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from analysis.deriving import Plant

from flashlab.analysis.finding import Finding
from flashlab.analysis.select import select
from flashlab.telling.values import say

HEADLINE = ("Pytorch", "Flash2")
TOTAL = "total_time"


def finding(
    kind: str,
    verdict: str,
    *,
    told: bool = True,
    experiment: str | None = "first",
    facts: Any = None,
    estimates: Any = (),
    **subject: Any,
) -> Finding:
    """A finding about Flash2 beside Pytorch, which has something to tell but where it has not."""
    usual = {"implementation": "Flash2", "baseline": "Pytorch", "metric": "forward_time"}
    return Finding(
        kind=kind,
        experiment=experiment,
        subject={k: v for k, v in {**usual, **subject}.items() if v is not None},
        verdict=verdict,
        statements=[say("kind.comparison", facts=str(facts))] if told else [],
        facts=facts or {},
        estimates=estimates,
    )


def comparison(experiment: str = "first", **changes: Any) -> Finding:
    return finding("comparison", "better", experiment=experiment, **changes)


def choice(experiment: str | None, metric: str = TOTAL, of: int = 7) -> Finding:
    one = {"implementation": None, "baseline": None, "metric": metric}
    return finding("choice", "changes", experiment=experiment, facts={"of": of}, **one)


def roofline(share: float, name: str = "Flash2", verdict: str = "neither") -> Finding:
    return finding("roofline", verdict, implementation=name, facts={"matrix_high": share})


def brief(kind: str, verdict: str, experiment: str = "first", **facts: Any) -> Finding:
    return finding(kind, verdict, experiment=experiment, facts=facts, baseline=None)


def level(times_work: float, experiment: str, **more: Any) -> Finding:
    return brief("launch_bound", "level", experiment, times_work=times_work, **more)


@pytest.fixture
def sections(sweep: Plant) -> list[Any]:
    """Two sections, in an order that is not that of their names; nothing of a third ran."""
    runs = {name: ({}, {}) for name in HEADLINE}
    failed = dict.fromkeys(HEADLINE, ("unsupported",) * 2)
    first, second = (sweep(runs, name) for name in ("second", "first"))
    return [first, second, sweep(failed, "failed")]


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        # The headline's implementations, what breaks a rule, and nothing that only counts.
        ([comparison(), comparison(implementation="Flash4")], [True, False]),
        ([finding("monotonicity", "broken", implementation="Flash4")], [True]),
        ([finding("out_of_memory", "limit_found", implementation="Flash4")], [True]),
        ([finding("monotonicity", "monotone", told=False)], [False]),
        ([finding("claim", "confirmed", experiment=None)], [False]),
        # What an earlier section has told; unless it says something else.
        ([comparison("first"), comparison("second")], [False, True]),
        ([comparison("first", facts={"low": 2.05}), comparison("second")], [True, True]),
        # Of a section in which nothing ran.
        ([finding("out_of_memory", "limit_found", experiment="failed")], [False]),
        # Of the ceilings the errors, and the nearest approach of each of the headline's.
        ([roofline(30), roofline(40), roofline(20, "Pytorch"), roofline(90, "Flash4"),
          roofline(120, "Flash4", "model_error")], [False, True, True, False, True]),
        # The choice by the metric that decides, once, and only among several.
        ([choice("first"), choice("second"), choice("second", "forward_time"), choice(None)],
         [False, True, False, False]),
        ([choice("first", of=2), choice(None)], [False, False]),
        # Of the brief kinds the strongest finding, where it has any strength.
        ([level(4.0, "second"), level(16.0, "first"),
          finding("launch_bound", "none", told=False, facts={"times_work": 1.0}, baseline=None)],
         [False, True, False]),
        ([brief("saturation", "reached", **{"from": 256, "first": 128})], [True]),
        ([brief("saturation", "reached", **{"from": 128, "first": 128})], [False]),
        ([finding("balance", "above", facts={"ideal": 2.5}, estimates=[{"estimate": 2.5}],
                  baseline=None)], [False]),
        # At most three of them.
        ([brief("jump", "rises", ratio=2.0), brief("exact_account", "explained", share=80.0),
          level(4.0, "first"), brief("saturation", "falls", share=50.0)],
         [True, True, True, False]),
        # Of the dataset the one with the most settings; the naive one by the deciding metric.
        ([finding("variant_gain", "below", experiment=None, facts={"count": n}, baseline=None)
          for n in (3, 13, 5)], [False, True, False]),
        ([finding("worse_than_naive", "worse", experiment=None, facts={"count": 3},
                  implementation="Flash4", metric=metric) for metric in ("forward_time", TOTAL)]
         + [choice(None)], [False, True, False]),
    ],
)  # fmt: skip
def test_each_finding_is_told_by_its_section_or_not(
    sections: list[Any], findings: list[Finding], told: list[bool]
) -> None:
    found = select(findings, sections, HEADLINE)
    assert [each.told for each in found] == told
    assert [replace(each, told=False) for each in found] == findings


def test_growth_is_not_told_where_a_table_has_it_for_more_implementations(
    sections: list[Any],
) -> None:
    growth = finding("scaling", "power_law", baseline=None)
    assert [each.told for each in select([growth], sections, HEADLINE)] == [True]
    assert [each.told for each in select([growth], sections, ["Flash2"])] == [False]


def test_the_strength_of_a_jump_is_the_same_either_way(sections: list[Any]) -> None:
    jumps = [brief("jump", "falls", ratio=0.4), brief("jump", "rises", ratio=2.0)]
    assert [each.told for each in select(jumps, sections, HEADLINE)] == [True, False]
