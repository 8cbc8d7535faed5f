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
from flashlab.plan.datasets import Dataset, DatasetError, Entry
from flashlab.plan.experiments import Experiment, experiments_of, protocol_of, runs_of
from flashlab.plan.runs import Namer, Planned, plan_local, plan_recorded
from flashlab.plan.views import style_numbers, views_of
from flashlab.runs import Run

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
KERNELS = implementations_of(ATTENTION)
RUN = attention_run("Flash2", Shape(1, 128, 8, 512, False), "float16", "cuda")
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.05, "timeout_s": 300}


def resolved(**changes: Any) -> dict[str, Any]:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["experiments"][0].update(changes)
    return resolve_config([Layer(str(CONFIG), config)], ["Pytorch", "Flash2"])


# Which runs


def test_the_default_configuration_is_the_labs_list_on_cuda() -> None:
    runs = {*runs_of(experiments_of(resolved(), ATTENTION, ("float16", "cuda")))}
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
    config = resolved(sweep="head_dim", cuda=block, cpu=block)
    (_, experiment, *_) = experiments_of(config, ATTENTION, ("float32", "cpu"))
    assert experiment.sweep == "head_dim"
    assert [Shape.of(run) for run in experiment.runs[::2]] == [
        Shape(8, *sizes, False) for sizes in expected
    ]


NAMER = Namer(ATTENTION, KERNELS, Path("records"), "a CPU")


def planned_in(config: dict[str, Any]) -> Planned:
    experiments = experiments_of(config, ATTENTION, ("float32", "cpu"))
    return plan_local(experiments, config, protocol_of(config, "cpu"), None, NAMER)


def test_further_processes_of_a_run_have_records_of_their_own() -> None:
    three = planned_in({**resolved(), "replicates": {"cuda": 9, "cpu": 3}})
    for run, entries in three.processes.items():
        assert [entry.process for entry in entries] == [0, 1, 2]
        assert "-cpu-process2-" in entries[2].path.name
        assert [NAMER.order(entry)["process"] for entry in entries] == [0, 1, 2]
        assert len({*three.files_of([run])}) == 3
    for count in (1, 2, 5):  # how many there are decides no name
        found = planned_in({**resolved(), "replicates": count}).processes
        assert all(found[run][:3] == entries[:count] for run, entries in three.processes.items())


def test_an_experiment_asks_for_more_processes_of_some_of_its_implementations() -> None:
    config = {**resolved(replicates={"Flash2": 3}), "replicates": 2}
    counts = {run: len(entries) for run, entries in planned_in(config).processes.items()}
    more = {run for run, count in counts.items() if count == 3}
    assert {*counts.values()} == {2, 3}
    assert {run.implementation for run in more} == {"Flash2"}
    assert {run["seq_len"] for run in more} == {*config["experiments"][0]["cpu"]["seq_len"]}


# What decides nothing


def test_titles_figures_and_languages_decide_no_name() -> None:
    def names(config: dict[str, Any]) -> set[str]:
        return {entry.path.name for entry in planned_in(config).entries}

    other = resolved(title={"zh_TW": "別的", "en": "Other"}, figures=["rate"], name="other")
    other["languages"], other["baseline"] = ["en"], "Flash2"
    other["measure"]["lab5"]["repeats"] = 99
    assert names(other) == names(resolved())


def test_the_protocol_holds_only_what_it_depends_on() -> None:
    config = copy.deepcopy(resolved())
    assert protocol_of(config, "cuda") == PROTOCOL
    assert protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 0.2}
    config["measure"]["sampled"]["max_seconds"] = 2
    assert protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 2}
    config["measure"]["sampled"]["energy_seconds"] = 1  # which only a GPU tells
    assert protocol_of(config, "cpu") == {**PROTOCOL, "max_seconds": 2}
    assert protocol_of(config, "cuda")["energy_seconds"] == 1
    config["measure"]["protocol"] = "lab5"
    assert protocol_of(config, "cpu") == {"name": "lab5", "repeats": 30, "timeout_s": 300}


# Recorded datasets


def recorded(runs: list[Run], *entries: Entry, imported: bool = True) -> Planned:
    """Runs as they are looked up in a dataset; files that are not there count as imported ones."""
    dataset = Dataset("x", "cuda", "float16", "sampled", {}, None, entries)
    asked = Experiment("seq_len", ("Flash2",), tuple(runs))
    return plan_recorded([asked], "sampled", dataset, imported=imported)


def test_a_recorded_dataset_is_looked_up_by_run_and_lists_what_it_lacks() -> None:
    other = replace(RUN, implementation="Other")
    entry = Entry(RUN, {"name": "sampled"}, Path("data/x/records/r.json"), "abc")
    assert recorded([RUN, RUN], entry).processes == {RUN: [entry]}
    with pytest.raises(DatasetError) as caught:
        recorded([RUN, other], entry)
    assert "lacks 1 of the 2 runs" in str(caught.value)
    assert str(other) in str(caught.value) and str(RUN) not in str(caught.value)


def test_a_recorded_run_has_all_of_its_processes_in_their_order() -> None:
    entries = [
        Entry(RUN, {"name": name}, Path(f"{name}{process}.json"), f"{name}{process}", process)
        for process in (2, 0, 1)
        for name in ("sampled", "lab5")
    ]
    found = recorded([RUN], *entries).processes[RUN]
    assert [entry.sha256 for entry in found] == ["sampled0", "sampled1", "sampled2"]


def test_records_of_a_dataset_that_are_gone_are_listed(tmp_path: Path) -> None:
    there, gone = tmp_path / "there.json", tmp_path / "gone.json"
    there.touch()
    files = {RUN: there, replace(RUN, dtype="bfloat16"): gone}
    entries = [Entry(run, {"name": "sampled"}, path, "") for run, path in files.items()]
    with pytest.raises(DatasetError, match="lacks 1 of its records") as caught:
        recorded([*files], *entries, imported=False)
    assert str(gone) in str(caught.value) and str(there) not in str(caught.value)


# The plan's files


def test_an_implementation_looks_the_same_in_every_report() -> None:
    all_of_them = style_numbers(["SdpaMath", "Pytorch", "Own", "FlashLab"])
    assert all_of_them == {"SdpaMath": 2, "Pytorch": 0, "Own": 1, "FlashLab": 7}
    assert style_numbers(["First", "Second"]) == {"First": 0, "Second": 1}


def test_the_order_of_implementations_changes_the_figures_and_not_the_tables() -> None:
    views = []
    for config in (resolved(), resolved(implementations=["Flash2", "Pytorch"])):
        experiments = experiments_of(config, ATTENTION, ("float32", "cpu"))[1:2]
        planned = planned_in(config)
        views.append(views_of(ATTENTION, KERNELS, config, Path(), experiments, planned))
    differing = {path for path, view in views[0].items() if views[1][path] != view}
    assert differing == {f"plan/{of}/seq_len.json" for of in ("experiments", "sweeps")}
