"""Which findings their section tells in prose, where no recorded report shows it.

What the recorded ones tell is a golden text.
"""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant

from flashlab.analysis.finding import Finding
from flashlab.analysis.select import select
from flashlab.telling.values import say

HEADLINE = ("Pytorch", "Flash2")


def finding(
    kind: str, verdict: str, experiment: str = "first", estimates: Any = (), **facts: Any
) -> Finding:
    """A finding about Flash2, which has something to tell."""
    subject = {"implementation": "Flash2", "metric": "forward_time"}
    told = [say("kind.comparison", facts=str(facts))]
    return Finding(kind, experiment, subject, verdict, told, facts, estimates)


@pytest.fixture
def sections(experiment: Plant) -> list[Any]:
    """Two sections, in an order that is not that of their names; nothing of a third ran."""
    runs = {name: ({}, {}) for name in HEADLINE}
    failed = dict.fromkeys(HEADLINE, ("unsupported",) * 2)
    first, second = (experiment(runs, name) for name in ("second", "first"))
    return [first, second, experiment(failed, "failed")]


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        # Of a section in which nothing ran.
        ([finding("out_of_memory", "limit_found", "failed")], [False]),
        # Of the brief kinds the strongest finding, where it has any strength.
        (
            [
                finding("jump", "rises", "second", ratio=2.0),
                finding("jump", "rises", "first", ratio=4.0),
            ],
            [False, True],
        ),
        ([finding("jump", "falls", ratio=0.4), finding("jump", "rises", ratio=2.0)], [True, False]),
    ],
)
def test_each_finding_is_told_by_its_section_or_not(
    sections: list[Any], findings: list[Finding], told: list[bool]
) -> None:
    assert [each.told for each in select(findings, sections, HEADLINE)] == told
