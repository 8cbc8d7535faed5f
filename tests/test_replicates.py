"""How many processes measure each run, and which runs get one more to decide a verdict."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.analysis.finding import Finding
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.calls.replicates import (
    MOST_ADDED,
    Replicates,
    open_runs,
    read_replicates,
    runs_to_decide,
)
from flashlab.plan import planning as plan
from flashlab.runs import Run

KIND = ("float32", "cpu")
EXPERIMENT = plan.PlannedExperiment(
    benchmark=ATTENTION,
    name="seq_len",
    title={},
    sweep="seq_len",
    problems=tuple(
        ATTENTION.complete(
            {"batch_size": 1, "seq_len": n, "num_heads": 2, "emb_dim": 32, "causal": causal}
        )
        for causal in (False, True)
        for n in (64, 128)
    ),
    implementations=("Pytorch", "Flash2", "Flex"),
    figures=(),
)
RUNS = EXPERIMENT.runs(*KIND)


def finding(**changes: Any) -> Finding:
    """A comparison that is told, and undecided at N = 128."""
    estimates = [{"value": 64, "verdict": "above"}, {"value": 128, "verdict": "inconclusive"}]
    return replace(
        Finding(
            kind="comparison",
            experiment="seq_len",
            subject={
                "implementation": "Flash2",
                "baseline": "Pytorch",
                "metric": "forward_time",
                "variant": {"causal": True},
            },
            verdict="mixed",
            estimates=estimates,
            told=True,
        ),
        **changes,
    )


def behind(*findings: Finding) -> set[tuple[str, Any, Any]]:
    found = open_runs(findings, [EXPERIMENT], KIND)
    return {(run.implementation, run["seq_len"], run["causal"]) for run in found}


BOTH = {("Flash2", 128, True), ("Pytorch", 128, True)}


def test_the_runs_behind_what_a_sentence_leaves_undecided_are_found() -> None:
    assert behind(finding()) == BOTH
    assert behind(finding(told=False, rank=2)) == BOTH
    assert behind(finding(verdict="inconclusive")) == BOTH


@pytest.mark.parametrize(
    "change",
    [
        {"told": False},
        {"verdict": "better"},
        {"experiment": "causal"},
        {"experiment": None},
        {"subject": {"metric": "peak_memory", "variant": {"causal": True}}},
        {"subject": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_nothing_is_added_for_what_is_not_told_is_decided_or_is_exact(
    change: dict[str, Any],
) -> None:
    assert behind(finding(**change)) == set()


def test_one_more_process_is_added_up_to_a_limit() -> None:
    one, other = RUNS[:2]
    found = Replicates(3, {})
    for expected in range(4, MOST_ADDED + 1):
        found = found.with_one_more([one])
        assert (found.of(one), found.of(other)) == (expected, 3)
    assert found.with_one_more([one]).of(one) == MOST_ADDED
    assert Replicates(12, found.added).with_one_more([one]).of(one) == 12


def test_an_experiment_asks_for_more_processes_of_some_of_its_implementations(
    tmp_path: Path,
) -> None:
    repeated = replace(EXPERIMENT, replicates={"Flash2": 3})
    asked = plan.processes_asked([EXPERIMENT, repeated], KIND)
    found = read_replicates({"replicates": 1}, KIND[1], tmp_path / "none.json", asked)
    assert {(run.implementation, found.of(run)) for run in RUNS} >= {("Flash2", 3), ("Pytorch", 1)}
    run = next(run for run in RUNS if run.implementation == "Flash2")
    assert found.with_one_more([run]).of(run) == 4  # to decide a verdict
    assert read_replicates({"replicates": 5}, KIND[1], tmp_path / "none.json", asked).of(run) == 5


WILD = st.recursive(st.none() | st.integers() | st.text(), lambda s: st.dictionaries(st.text(), s))


@given(content=st.binary() | WILD.map(lambda value: json.dumps(value).encode()))
def test_whatever_was_kept_the_configured_number_is_the_least(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("kept") / "processes.json"
    path.write_bytes(content)
    found = read_replicates({"replicates": 2}, "cpu", path, {})
    assert 2 <= found.of(RUNS[0]) <= max(map(found.of, RUNS)) <= MOST_ADDED


def test_only_runs_whose_findings_are_current_get_another_process(tmp_path: Path) -> None:
    planned: dict[Run, plan.PlannedRun] = {
        run: plan.PlannedRun(run, tmp_path / f"{run.slug}.json") for run in RUNS
    }
    for entry in planned.values():
        entry.path.touch()
    findings = tmp_path / "findings.json"

    def to_decide() -> set[str]:
        found = runs_to_decide(findings, [EXPERIMENT], planned, KIND)
        return {run.implementation for run in found}

    assert to_decide() == set()
    findings.write_text(json.dumps([finding().to_json()]))
    assert to_decide() == {"Flash2", "Pytorch"}
    (flash,) = (
        entry
        for run, entry in planned.items()
        if (run.implementation, run["seq_len"], run["causal"]) == ("Flash2", 128, True)
    )
    second = plan.PlannedRun(flash.run, tmp_path / "second.json", process=1)
    planned[flash.run] = replace(flash, replicates=(second,))
    assert to_decide() == {"Pytorch"}  # until that process is measured
    planned[flash.run] = flash
    later = findings.stat().st_mtime_ns + 10**9
    os.utime(flash.path, ns=(later, later))
    assert to_decide() == {"Pytorch"}
    flash.path.unlink()
    assert to_decide() == {"Pytorch"}
    findings.write_text("[")
    assert to_decide() == set()
