"""Whether what is concluded of planted times is right, on a small scale (docs/findings.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from analysis.deriving import NO_CLAIMS
from analysis.study.choosing import TOTAL, Choices, Judge, Score, plant, score, write

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding

DATASETS = 10
MOST_FALSE, LEAST_TOLD = 0.01, 0.9


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Score:
    found = score(range(1, DATASETS + 1), tmp_path_factory.mktemp("choosing"))
    print(f"\n{found.text()}")
    return found


def test_what_is_concluded_is_true(scored: Score) -> None:
    assert sum(scored.stated.values()) > 300
    assert scored.false_share() <= MOST_FALSE, scored.examples
    assert {kind.partition(".")[0].partition(":")[0] for kind in scored.stated} == {
        *("front", "map", "section")
    }


def test_leads_of_ten_percent_are_told_on_page_one(scored: Score) -> None:
    assert scored.plain > 30
    assert scored.told >= LEAST_TOLD * scored.plain


def test_the_order_of_runs_changes_nothing(tmp_path: Path) -> None:
    planted = plant(3)
    told, choices = [], []
    for shuffled in (False, True):
        experiments = write(planted, tmp_path / str(shuffled), 3, shuffled)
        found = derive(experiments, Estimates(experiments), NO_CLAIMS, None)
        told.append([f.to_json() for f in found if f.kind == "conclusion"])
        order = experiments[::-1] if shuffled else experiments
        found = derive(order, Estimates(order), NO_CLAIMS, None)
        choices.append([f.to_json() for f in found if f.rank is not None and _is_chosen(f)])
    assert told[0] == told[1]
    assert choices[0] == choices[1]


def test_the_judge_notices_a_false_choice(tmp_path: Path) -> None:
    """What is told of the one dataset is false of another, in which the times are exchanged."""
    planted = plant(4, ("Pytorch", "Flash2", "Flash4"))
    experiments = write(planted, tmp_path, 4)
    found = derive(experiments, Estimates(experiments), NO_CLAIMS, None)
    other = {"Flash2": "Flash4", "Flash4": "Flash2", "Pytorch": "Pytorch"}
    passes = {(other[name], *at): each for (name, *at), each in planted.dataset.passes.items()}
    exchanged = Choices(replace(planted.dataset, passes=passes), planted.experiments)
    scores = [Score(), Score()]
    for truth, into in zip((planted, exchanged), scores, strict=True):
        Judge(truth, experiments, into).conclusions(found)
    assert not scores[0].false
    assert {"map.alone"} <= {*scores[1].false}
    assert any(kind.startswith("front: front.choice") for kind in scores[1].false)


def test_a_choice_may_be_told_by_nobody(tmp_path: Path) -> None:
    """Where nothing is decided, nobody is named as the choice."""
    planted = plant(5, ("Pytorch", "Flash2", "Flash4"))
    planted.dataset.noise = 40.0
    written = write(planted, tmp_path, 5)
    found = derive(written, Estimates(written), NO_CLAIMS, None)
    assert {f.verdict for f in found if _is_choice(f)} == {"varies"}


def _is_chosen(finding: Finding) -> bool:
    return finding.subject["topic"] in ("map", "choice")


def _is_choice(finding: Finding) -> bool:
    is_front = finding.rank is not None and finding.subject["topic"] == "choice"
    return is_front and finding.metric == TOTAL
