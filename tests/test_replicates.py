"""The number of processes of each run."""

from __future__ import annotations

from dataclasses import replace

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.calls.replicates import processes_asked
from flashlab.plan.planning import PlannedExperiment

EXPERIMENT = PlannedExperiment(
    benchmark=ATTENTION,
    name="seq_len",
    sweep="seq_len",
    problems=(
        ATTENTION.complete(
            {"batch_size": 1, "seq_len": 64, "num_heads": 2, "emb_dim": 32, "causal": True}
        ),
    ),
    implementations=("Pytorch", "Flash2"),
)


def test_an_experiment_asks_for_more_processes_of_some_of_its_implementations() -> None:
    repeated = replace(EXPERIMENT, replicates={"Flash2": 3})
    more = replace(EXPERIMENT, replicates={"Flash2": 2})
    asked = processes_asked([EXPERIMENT, repeated, more], ("float32", "cpu"))
    assert {(run.implementation, count) for run, count in asked.items()} == {
        ("Flash2", 3),
        ("Pytorch", 1),
    }
