from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import implementations_of
from flashlab.config import Layer, resolve_config
from flashlab.plan import planning as plan
from flashlab.plan.datasets import Dataset, Entry
from flashlab.plan.documents import stage_documents, style_numbers
from flashlab.runs import Run

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
KERNELS = implementations_of(ATTENTION)
RUN = attention_run("Flash2", Shape(1, 128, 8, 512, False), "float16", "cuda")
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.1, "timeout_s": 300}


def resolved(**changes: Any) -> dict[str, Any]:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["experiments"][0].update(changes)
    return resolve_config([Layer(str(CONFIG), config)], ["Pytorch", "Flash2"])


# Which runs


def test_the_default_configuration_is_the_labs_list_on_cuda() -> None:
    experiments = plan.experiments(resolved(), ATTENTION, "cuda")
    runs = {run for experiment in experiments for run in experiment.runs("float16", "cuda")}
    expected = {Shape(16, n, 32, 2048, c) for n in (128, 256, 512, 1024) for c in (False, True)}
    expected |= {Shape(b, 512, 32, 2048, True) for b in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, h, 2048, True) for h in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, 32, e, True) for e in (512, 1024, 2048, 4096)}
    assert {Shape.of(run) for run in runs} == expected
    assert (len(expected), len(runs)) == (17, 34)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"num_heads": 2, "head_dim": [16, 32]}, [(64, 2, 32), (64, 2, 64)]),
        ({"emb_dim": 64, "head_dim": [16, 32]}, [(64, 4, 64), (64, 2, 64)]),
        ({"num_heads": [4, 2], "head_dim": [16, 32]}, [(64, 4, 64), (64, 2, 64)]),
        ({"emb_dim": [32, 64], "head_dim": [16, 32]}, [(64, 2, 32), (64, 2, 64)]),
        ({"seq_len": [64, 8], "num_heads": 1, "head_dim": [16, 32]}, [(64, 1, 16), (8, 1, 32)]),
    ],
)
def test_lists_beside_the_sweep_go_with_it_and_sizes_of_heads_follow(
    block: dict[str, Any], expected: list[tuple[int, int, int]]
) -> None:
    block = {"batch_size": 8, "seq_len": 64, "causal": False, **block}
    (_, experiment, *_) = plan.experiments(
        resolved(sweep="head_dim", cuda=block, cpu=block), ATTENTION, "cpu"
    )
    assert experiment.sweep == "head_dim"
    assert [Shape.of(problem) for problem in experiment.problems] == [
        Shape(8, *sizes, False) for sizes in expected
    ]


def test_further_processes_of_a_run_have_records_of_their_own() -> None:
    run = replace(RUN, device="cpu")

    def planned(count: int) -> plan.PlannedRun:
        entries = plan.plan_local(ATTENTION, [run], PROTOCOL, KERNELS, Path("r"), lambda _: count)
        return entries[run]

    three = planned(3)
    assert [part.process for part in three.processes] == [0, 1, 2]
    assert len(set(plan.record_files([three]))) == 3
    assert "-cpu-process2-" in three.replicates[1].path.name
    for count in (1, 2, 5):  # how many there are decides no name
        both = zip(planned(count).processes, three.processes, strict=False)
        assert all(one.path == other.path for one, other in both)
    orders = [plan.measuring_order(ATTENTION, part, PROTOCOL) for part in three.processes]
    assert [order["process"] for order in orders] == [0, 1, 2]


# What decides nothing


def test_titles_figures_and_languages_decide_no_name() -> None:
    def names(config: dict[str, Any]) -> dict[Run, str]:
        runs = plan.experiments(config, ATTENTION, "cpu")[1].runs("float32", "cpu")
        protocol = plan.protocol_of(config, "cpu")
        planned = plan.plan_local(ATTENTION, runs, protocol, KERNELS, Path("records"))
        return {run: entry.path.name for run, entry in planned.items()}

    other = resolved(title={"zh_TW": "別的", "en": "Other"}, figures=["rate"], name="other")
    other["languages"], other["baseline"] = ["en"], "Flash2"
    other["measure"]["lab5"]["repeats"] = 99
    assert names(other) == names(resolved())


def test_the_protocol_holds_only_what_it_depends_on() -> None:
    config = copy.deepcopy(resolved())
    assert plan.protocol_of(config, "cuda") == PROTOCOL
    assert plan.protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 0.2}
    config["measure"]["sampled"]["max_seconds"] = 2
    assert plan.protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 2}
    config["measure"]["sampled"]["energy_seconds"] = 1  # which only a GPU tells
    assert plan.protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 2}
    assert plan.protocol_of(config, "cuda")["energy_seconds"] == 1
    config["measure"]["protocol"] = "lab5"
    assert plan.protocol_of(config, "cpu") == {"name": "lab5", "repeats": 30, "timeout_s": 300}


# Recorded datasets


def test_a_recorded_dataset_is_looked_up_by_run_and_lists_what_it_lacks() -> None:
    other = replace(RUN, implementation="Other")
    entry = Entry(RUN, {"name": "sampled"}, Path("data/x/records/r.json"), "abc")
    dataset = Dataset("x", "cuda", "float16", "sampled", {}, None, (entry,))
    found = plan.plan_recorded([RUN, RUN], "sampled", dataset, "x")
    assert found == {RUN: plan.PlannedRun(RUN, entry.path, "abc")}
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_recorded([RUN, other], "sampled", dataset, "x")
    assert "lacks 1 of the 2 runs" in str(caught.value)
    assert str(other) in str(caught.value) and str(RUN) not in str(caught.value)


def test_a_recorded_run_has_all_of_its_processes_in_their_order() -> None:
    entries = [
        Entry(RUN, {"name": name}, Path(f"{name}{process}.json"), f"{name}{process}", process)
        for process in (2, 0, 1)
        for name in ("sampled", "lab5")
    ]
    dataset = Dataset("x", "cuda", "float16", "sampled", {}, None, tuple(entries))
    found = plan.plan_recorded([RUN], "sampled", dataset, "x")[RUN]
    assert [part.sha256 for part in found.processes] == ["sampled0", "sampled1", "sampled2"]


def test_records_of_a_dataset_that_are_gone_are_listed(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    there.touch()
    gone = tmp_path / "gone.json"
    runs = {RUN: plan.PlannedRun(RUN, there), replace(RUN, dtype="bfloat16"): None}
    planned = {run: entry or plan.PlannedRun(run, gone) for run, entry in runs.items()}
    with pytest.raises(plan.PlanError, match="lacks 1 of its records") as caught:
        plan.check_recorded(planned.values(), "x")
    assert str(gone) in str(caught.value) and str(there) not in str(caught.value)


# The plan's files


def test_an_implementation_looks_the_same_in_every_report() -> None:
    all_of_them = style_numbers(["SdpaMath", "Pytorch", "Own", "FlashLab"])
    assert all_of_them == {"SdpaMath": 2, "Pytorch": 0, "Own": 1, "FlashLab": 7}
    assert style_numbers(["First", "Second"]) == {"First": 0, "Second": 1}


def test_the_order_of_implementations_changes_the_figures_and_not_the_tables() -> None:
    kind, documents = ("float32", "cpu"), []
    for config in (resolved(), resolved(implementations=["Flash2", "Pytorch"])):
        experiment = plan.experiments(config, ATTENTION, "cpu")[1]
        protocol, runs = plan.protocol_of(config, "cpu"), experiment.runs(*kind)
        files = plan.plan_local(ATTENTION, runs, protocol, KERNELS, Path("records"))
        documents.append(stage_documents([(experiment, files)], KERNELS, config, kind, Path()))
    differing = {path for path, document in documents[0].items() if documents[1][path] != document}
    assert differing == {Path(f"plan/{of}/seq_len.json") for of in ("experiments", "sweeps")}
