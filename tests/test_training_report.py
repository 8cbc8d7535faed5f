"""Training from planted records to findings: curves, what limits a run, how many processes it has.

What its report says, its claims too, is a golden text.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from planted.results import PlantedReport, find
from planted.training import FAR, REPORT, loss_of

from flashlab.analysis.finding import read_findings
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.plan.planning import PlannedRun
from flashlab.records import Record, read_record
from flashlab.runs import Run
from flashlab.telling.teller import Teller


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder. To be read."""
    return REPORT.write(tmp_path_factory.mktemp("training"))


def test_a_record_keeps_its_curve_and_lacks_what_its_run_has_not(results: Path) -> None:
    (path,) = results.glob("records/flash2-*-eager-*")
    document = json.loads(path.read_text(encoding="utf-8"))
    run = Run.of(TRAINING, document["record"]["run"])
    kept = read_record(path, run)
    assert kept.curves["loss"] == list(loss_of(run))
    assert "compile_time" not in kept.metrics


def test_a_curve_beyond_the_spread_of_the_seeds_differs(results: Path) -> None:
    (experiment,) = {
        f.experiment for f in read_findings(results / "findings.json") if f.kind == "curve"
    }
    far = find(results, "curve", experiment, implementation=FAR)
    near = find(results, "curve", experiment, implementation="Flash2", variant={"compile": False})
    assert (far.verdict, far.facts["distance"], far.facts["spread"]) == ("differs", 0.5, 0.08)
    assert (far.facts["last_distance"], far.facts["last_spread"]) == (0.5, 0.08)
    assert (near.verdict, near.facts["distance"]) == ("within", 0.0)


def test_what_the_gpu_waits_for_is_told_only_where_it_was_measured(results: Path) -> None:
    found = {
        (f.subject["implementation"], f.subject["variant"]["compile"]): f
        for f in read_findings(results / "findings.json")
        if f.kind == "device_use" and f.experiment == "attention"
    }
    assert {name for name, _ in found} == {"Flash2", "Pytorch"}  # nothing is known of the others
    waiting, busy = found["Flash2", False], found["Pytorch", False]
    assert (waiting.verdict, waiting.facts["share"], waiting.facts["kernels"]) == (
        *("host_bound", 0.4, 2400),
    )
    assert (busy.verdict, busy.facts["share"]) == ("busy", 0.98)
    assert not waiting.facts["power_limited"] and busy.facts["power_limited"]


class Varied(PlantedReport):
    """With three processes of the naive implementation, and one of any other."""

    def _record(self, run: Run, records: Path) -> PlannedRun:
        processes = 3 if run.implementation == TRAINING.naive else 1
        return PlantedReport._record(replace(REPORT, processes=processes), run, records)


@pytest.mark.parametrize(
    ("report", "told", "says"),
    [
        (
            Varied(**vars(REPORT)),
            "conclusion.alternatives.single.some",
            "Flash2 [eager]: one process each",
        ),
        (replace(REPORT, processes=3), None, ""),
    ],
    ids=["several of some", "several of all"],
)
def test_the_answer_says_which_runs_have_one_process(
    tmp_path: Path, report: PlantedReport, told: str | None, says: str
) -> None:
    answer = find(report.write(tmp_path, drawn=[]), "conclusion", topic="answer")
    doubts = {s.key: s for s in answer.statements if ".single" in s.key}
    assert [*doubts] == ([told] if told else [])
    assert all(Teller("en", TRAINING).tell(each).startswith(says) for each in doubts.values())


def test_the_answer_says_where_what_it_compares_was_measured_on_different_cards(
    tmp_path: Path,
) -> None:
    def on_two_cards(run: Run) -> Record:
        found = REPORT.record(run)
        card = f"GPU-{int(bool(run['compile']))}"
        return replace(found, environment={**found.environment, "gpu_uuid": card})

    home = replace(REPORT, record=on_two_cards).write(tmp_path, drawn=[])
    teller = Teller("en", TRAINING)
    told = {
        statement.key: teller.tell(statement)
        for topic, experiment in (("answer", None), ("section", "attention"))
        for statement in find(home, "conclusion", experiment, topic=topic).statements
    }
    assert told["conclusion.alternatives.cards"] == (
        "The times compared were measured on different cards: (1) Flash2, Pytorch (each eager); "
        "(2) Flash2 [compiled]."
    )
    assert told["conclusion.alternatives.effect.cards"] == (
        "For Flash2, Pytorch, eager and compiled were measured on different cards."
    )
