"""Whether what is concluded of planted times is right, on a small scale (docs/findings.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis.deriving import NO_CLAIMS
from analysis.study.choosing import TOTAL, Choices, Judge, plant, score, write
from analysis.study.scores import Scores

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding

DATASETS = 10


def test_what_is_concluded_is_true_and_leads_of_ten_percent_are_told(tmp_path: Path) -> None:
    scores = score(range(1, DATASETS + 1), tmp_path)
    assert scores.out_of_bounds() == [], scores.examples
    assert sum(kind.decided for kind in scores.kinds.values()) > 300
    assert scores.kinds["front: leads of 10%"].plain > 30
    assert {kind.partition(".")[0].partition(":")[0] for kind in scores.kinds} == {
        *("front", "map", "section")
    }


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
    false = []
    for truth in (planted, exchanged):
        scores = Scores()
        Judge(truth, experiments, scores).conclusions(found)
        false.append({kind for kind, each in scores.kinds.items() if each.false})
    assert not false[0]
    assert "map.alone" in false[1]
    assert any(kind.startswith("front: front.choice") for kind in false[1])


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
