"""Training from planted records to findings: curves, failures, claims.

What its report says is a golden text.
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


def test_the_section_names_whom_the_host_and_the_power_limit_hold_back(results: Path) -> None:
    section = find(results, "conclusion", "attention", topic="section")
    told = {statement.key: statement for statement in section.statements}
    teller = Teller("en", TRAINING)
    assert teller.tell(told["conclusion.alternatives.host_bound"]) == (
        "Limited by the host, for which the GPU waits: with Flash2 [eager] the GPU is busy for "
        "68.8 of 172 ms an iteration (2,400 kernels); with Flash2 [compiled] the GPU is busy for "
        "75.2 of 188 ms an iteration (2,400 kernels)."
    )
    assert "Pytorch [eager]" in teller.tell(told["conclusion.alternatives.power_limited"])


def test_the_section_names_whose_model_is_not_compiled_whole(results: Path) -> None:
    section = find(results, "conclusion", "attention", topic="section")
    told = {statement.key: statement for statement in section.statements}
    sentence = Teller("en", TRAINING).tell(told["conclusion.alternatives.graph_breaks"])
    assert sentence == (
        "torch.compile did not get the model into one graph with Flash2 (graph breaks: 3)."
    )


class Varied(PlantedReport):
    """With three processes of the naive implementation, and one of any other."""

    def _record(self, run: Run, records: Path) -> PlannedRun:
        processes = 3 if run.implementation == TRAINING.naive else 1
        return PlantedReport._record(replace(REPORT, processes=processes), run, records)


@pytest.mark.parametrize(
    ("report", "told", "says"),
    [
        (REPORT, "conclusion.alternatives.single", "Each run is one process"),
        (
            Varied(**vars(REPORT)),
            "conclusion.alternatives.single.some",
            "Flash2 [eager]: one process each",
        ),
        (replace(REPORT, processes=3), None, ""),
    ],
    ids=["one process each", "several of some", "several of all"],
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


def test_the_claims_are_decided(results: Path) -> None:
    findings = read_findings(results / "findings.json")
    verdicts = {f.subject["claim"]: f.verdict for f in findings if f.kind == "claim"}
    assert verdicts["training_flash_before_efficient"] == "confirmed"
    assert verdicts["compiled_naive_slower_than_flash"] == "confirmed"
    assert verdicts["training_flash_65_percent"] == "other_device"
    assert verdicts["compile_slows_fused"] == "not_tested"  # two of its runs failed
