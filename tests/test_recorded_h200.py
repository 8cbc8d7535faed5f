"""The recorded H200 dataset holds what its manifest says, and what an expert reads in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple
from datetime import datetime, timedelta
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest
from analysis.deriving import derived, quoted

from flashlab.analysis.experiment import read_experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import CHOICE
from flashlab.analysis.kinds.correctness import CORRECTNESS
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.attention.declaration import exact_peak_memory
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab.plan.datasets import Entry, read_dataset
from flashlab.records import Record, read_record
from flashlab.runs import Run

H200 = read_dataset(Path(__file__).parents[1] / "data" / "h200")
TIMED = [entry for entry in H200.entries if not entry.has_counters]
SHOWN = {
    name for experiment in H200.config["experiments"] for name in experiment["implementations"]
}
PACKED = frozenset(f"{name}Packed" for name in ("Flash2", "Flash3", "FlashLab"))
SEPARATE = frozenset(SHOWN - PACKED)
SAMPLED = [
    entry
    for entry in TIMED
    if entry.protocol["name"] == "sampled" and entry.run.implementation in SHOWN
]
"""What the report is about."""

RUNS: dict[Run, list[Entry]] = {}
for _entry in SAMPLED:
    RUNS.setdefault(_entry.run, []).append(_entry)


Records = Mapping[Path, Record]


@pytest.fixture(scope="module")
def records() -> Records:
    """Every record, of the digest that the manifest states."""
    return {entry.path: read_record(entry.path, entry.run, entry.sha256) for entry in H200.entries}


def test_every_record_is_the_manifests(records: Records) -> None:
    for entry in H200.entries:
        assert records[entry.path].protocol == entry.protocol


def test_the_labs_runs_and_the_slides_are_there_by_the_courses_protocol() -> None:
    counts = Counter(e.run.implementation for e in H200.entries if e.protocol["name"] == "lab5")
    assert counts == {"Flash2": 18, "Pytorch": 18}


def test_peak_memory_equals_the_model_to_the_byte(records: Records) -> None:
    """Every run of both implementations that fitted, those of one sequence among them."""
    checked: Counter[str] = Counter()
    for entry in TIMED:
        record, name = records[entry.path], entry.run.implementation
        if name not in ("Flash2", "Pytorch") or record.status != "ok":
            continue
        stated = record.environment["provider"], record.environment["device_name"]
        assert exact_peak_memory(entry.run, *stated) == record.metrics["peak_memory"].value
        checked[name] += 1
    assert checked == {"Flash2": 18 + 51 + 12, "Pytorch": 18 + 51 + 12}


def test_what_is_compared_ran_on_one_card_within_minutes(records: Records) -> None:
    """Three processes of each, on clean code of one commit.

    Nine implementations at the lab's 17 shapes, and seven at four long ones, at one of them with
    packed inputs too; those beside the lab's ran later.
    """
    blocks: dict[tuple[Any, ...], list[Record]] = {}
    for entry in SAMPLED:
        record = records[entry.path]
        sitting = datetime.fromisoformat(record.started).hour
        blocks.setdefault((sitting, record.process, *entry.run.values()), []).append(record)
    names = Counter(frozenset(r.run.implementation for r in block) for block in blocks.values())
    long = SEPARATE - {"SdpaEfficient", "SdpaMath"}
    assert names == {SEPARATE: 3 * 17, long: 3 * 3, long | PACKED: 3, PACKED: 3}
    for block in blocks.values():
        assert len({record.environment["gpu_uuid"] for record in block}) == 1
        starts = [datetime.fromisoformat(record.started) for record in block]
        assert max(starts) - min(starts) < timedelta(minutes=2)
        for record in block:
            assert (record.environment["commit"][:7], record.environment["dirty"]) == (
                "77298f0",
                False,
            )
            is_packed = record.run.implementation in PACKED
            assert record.sources["inputs"] == ("packed" if is_packed else "separate")


# What an expert reads in it, from the records' medians alone


Medians = dict[tuple[Any, ...], dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def medians(records: Records) -> Medians:
    """Milliseconds by shape, metric and implementation, of the sampled runs that are ok.

    Of a run's processes it is the geometric mean. Without those with packed inputs.
    """
    found: Medians = {}
    for run, entries in RUNS.items():
        if run.implementation in PACKED:
            continue
        processes = [records[entry.path] for entry in entries]
        if any(record.status != "ok" for record in processes):
            continue
        passes = [
            [record.metrics[f"{name}_time"].value for name in ("forward", "backward")]
            for record in processes
        ]
        forward, backward = zip(*passes, strict=True)
        at = found.setdefault(astuple(Shape.of(run)), {})
        times = {"forward": forward, "backward": backward, "total": [*map(sum, passes)]}
        for name, each in times.items():
            at.setdefault(name, {})[run.implementation] = geometric_mean(each)
    return found


def best(times: Mapping[str, float]) -> str:
    return min(times, key=lambda name: times[name])


@pytest.fixture(scope="module")
def overall(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    """The findings about all runs, by kind, from tables of all shapes as one experiment."""
    folder = tmp_path_factory.mktemp("h200")
    files = {
        run: [{"path": e.path.as_posix(), "sha256": e.sha256} for e in entries]
        for run, entries in RUNS.items()
    }
    entries = [
        {"run": run.to_json(), **first, "replicates": others}
        for run, (first, *others) in files.items()
    ]
    names = sorted(SHOWN)
    plan = {
        "benchmark": "attention",
        "name": "all",
        "sweep": "seq_len",
        "baseline": "Pytorch",
        "implementations": [
            {"name": name, **({"packed_of": name.removesuffix("Packed")} if name in PACKED else {})}
            for name in names
        ],
        "records": entries,
        "sources": {name: {} for name in names},
    }
    write_json(folder / "all.json", plan)
    write_tables(folder / "all.json", folder / "all")
    experiment = read_experiment(plan, folder, with_samples=True)
    (choice,) = (f for f in derived(CHOICE, experiment) if f.experiment is None)
    wrong = next(f for f in derived(CORRECTNESS, experiment) if f.verdict == "wrong")
    return {"choice": choice, "correctness": wrong}


def test_who_is_best_over_all_shapes_is_who_has_the_best_medians(
    overall: Mapping[str, Finding], medians: Medians
) -> None:
    found = medians
    assert len(found) == overall["choice"].facts["count"] == 21
    expected = {
        "forward": {"FlashLab": 19, "SdpaCudnn": 2},
        "backward": {"FlashLab": 21},
        "total": {"FlashLab": 21},
    }
    for name, counts in expected.items():
        assert Counter(best(times[name]) for times in found.values()) == counts
        metric = "forward_backward_time" if name == "total" else f"{name}_time"
        (tally,) = (
            t["counts"] for t in overall["choice"].facts["tallies"] if t["metric"] == metric
        )
        assert {c["implementation"]: c["best"] for c in tally if c["best"]} == counts


def test_the_fastest_forward_is_the_fastest_in_total_at_no_shape(
    overall: Mapping[str, Finding], medians: Medians
) -> None:
    """At those where it is decidedly level with the best forward; of one more it is open."""
    found, choice = medians, overall["choice"]
    assert choice.facts["wrong"] == "SdpaCudnn"
    assert choice.facts["part"].texts["en"] == "forward time"
    prices = []
    for estimate in choice.estimates:
        if "SdpaCudnn" in estimate["forward_time"]["level"]:
            times = found[astuple(Shape.of(estimate["setting"]))]
            assert times["forward"]["SdpaCudnn"] <= 1.05 * min(times["forward"].values())
            prices.append(times["total"]["SdpaCudnn"] / min(times["total"].values()))
    assert len(prices) == choice.facts["wrong_count"] == 5
    ends = [choice.facts["low"], choice.facts["high"]]
    assert ends == pytest.approx([min(prices), max(prices)], rel=0.005)


def test_the_one_wrong_gradient_is_flash4s_at_head_dim_16(overall: Mapping[str, Finding]) -> None:
    told = quoted(overall["correctness"])
    assert overall["correctness"].subject == {"implementation": "Flash4"}
    assert (told["count"], told["error"], told["tolerance"]) == (1, 0.47, "0.005")
    (reason,) = overall["correctness"].reasons
    assert reason.run is not None and reason.run["head_dim"] == 16
