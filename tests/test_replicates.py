"""The number of processes of each run, and the runs that get one more to decide a verdict."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted.sorting import sorting

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS, PREVIOUS, Comparison
from flashlab.analysis.experiment import COMPARISONS
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.calls.replicates import (
    MOST_ADDED,
    Replicates,
    open_runs,
    processes_asked,
    read_replicates,
    runs_to_decide,
    undecided,
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


BEFORE = {"Flex": "Flash2"}
"""Flex is a step beyond Flash2."""

COMPARED = Comparison(
    experiment="seq_len",
    compared=IMPLEMENTATIONS,
    variant="causal=true",
    metric="forward_time",
    subject="Flash2",
    reference="Pytorch",
    value=128,
    ratio=0.98,
    low=None,
    high=None,
    verdict="inconclusive",
)
"""Undecided at N = 128: Flash2 against the baseline."""


def behind(*rows: Comparison, previous: dict[str, str] | None = None) -> set[tuple[str, Any, Any]]:
    asked = undecided(rows, ATTENTION, "Pytorch", previous or {})
    found = open_runs(asked, [EXPERIMENT], KIND)
    return {(run.implementation, run["seq_len"], run["causal"]) for run in found}


BOTH = {("Flash2", 128, True), ("Pytorch", 128, True)}
OTHERS = {("Flash2", 128, True), ("Flex", 128, True)}


def test_the_runs_of_an_undecided_comparison_with_the_baseline_are_found() -> None:
    assert behind(COMPARED) == BOTH


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "above"},
        {"verdict": "equal"},
        {"experiment": "causal"},
        {"experiment": None},
        {"value": None},
        {"compared": PREVIOUS},
        {"compared": FIRST},
    ],
    ids=lambda change: "-".join(map(str, next(iter(change.items())))),
)
def test_nothing_is_added_for_what_is_decided_pooled_or_growth(change: dict[str, Any]) -> None:
    assert behind(replace(COMPARED, **change)) == set()


def test_of_two_others_what_the_best_and_the_step_before_are_to_be_is_decided() -> None:
    """Flash2 is 10 times as fast as the baseline; Flex is about as fast as Flash2, or as it."""
    decided = replace(COMPARED, ratio=0.1, verdict="below")
    near = replace(COMPARED, subject="Flex", reference="Flash2", ratio=1.01)
    far = replace(decided, subject="Flex", ratio=0.101)
    assert behind(decided, far, near) == OTHERS
    best = replace(decided, subject="SdpaCudnn", ratio=0.01)
    beyond = [replace(best, reference=name, ratio=0.1) for name in ("Flash2", "Flex")]
    assert behind(decided, far, near, best, *beyond) == set()
    assert behind(decided, far, near, best, *beyond, previous=BEFORE) == OTHERS


def test_the_best_of_rates_is_the_highest() -> None:
    """Radix sorts 10 times as much as the baseline; Bubble about as much as Radix."""
    of_rate = replace(COMPARED, variant="", metric="throughput", reference="Merge")
    decided = replace(of_rate, subject="Radix", ratio=10.0, verdict="above")
    far = replace(decided, subject="Bubble", ratio=9.9)
    near = replace(of_rate, subject="Bubble", reference="Radix", ratio=0.99)
    assert undecided([decided, far, near], sorting(), "Merge", {}) == [near]


def test_an_undecided_effect_of_a_mask_is_of_runs_with_and_without_it() -> None:
    masked = replace(COMPARED, compared="causal", reference="Flash2")
    assert behind(masked) == {("Flash2", 128, True), ("Flash2", 128, False)}


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
    asked = processes_asked([EXPERIMENT, repeated], KIND)
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


def test_only_runs_whose_comparisons_are_current_get_another_process(tmp_path: Path) -> None:
    planned: dict[Run, plan.PlannedRun] = {
        run: plan.PlannedRun(run, tmp_path / f"{run.slug}.json") for run in RUNS
    }
    for entry in planned.values():
        entry.path.touch()
    table = tmp_path / COMPARISONS

    def to_decide() -> set[str]:
        found = runs_to_decide(table, [EXPERIMENT], planned, KIND, "Pytorch", {})
        return {run.implementation for run in found}

    assert to_decide() == set()
    columns = {**vars(COMPARED), "low": "", "high": ""}
    table.write_text("\n".join([",".join(columns), ",".join(map(str, columns.values())), ""]))
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
    later = table.stat().st_mtime_ns + 10**9
    os.utime(flash.path, ns=(later, later))
    assert to_decide() == {"Pytorch"}
    flash.path.unlink()
    assert to_decide() == {"Pytorch"}
    table.write_text("[\n1\n")
    assert to_decide() == set()
