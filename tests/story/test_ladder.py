"""The ladder's story: a step is what it gains over the step before it, where that is decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from planted import ladder as planted
from planted.records import samples_around
from planted.results import PlantedReport
from story.planting import tables_of_report
from story.reading import told as told_of

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.story import ladder
from flashlab.story.observation import Observation
from flashlab.story.tables import Section, Tables

Times = Mapping[str, float]
"""Milliseconds of a step's kernel on t = 28, by its name."""

STEPS = ("GlobalMemory", "SharedTiles", "Padded", "Coalesced")
ALIKE = dict.fromkeys(STEPS, 100.0)
CASES = {
    "name": "cases",
    "title": {"zh_TW": "測資", "en": "Cases"},
    "sweep": "case",
    "cuda": {"case": [1, 22]},
    "cpu": {"case": [101]},
    "implementations": ["SharedTiles", "Padded", "Coalesced"],
    "figures": [],
    "supplement": [],
}

Plant = Callable[..., Tables]


def told(observation: Observation | None) -> Mapping[str, str]:
    return told_of(observation, "ladder")


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Tables of the ladder on t = 10 and 28, with other cases where `cases` is set."""

    def tables(
        kernels: Times | None = None,
        hosts: Mapping[tuple[str, int], float] | None = None,
        processes: Times | None = None,
        overhead: Times | None = None,
        counters: Mapping[str, Mapping[str, float]] | None = None,
        cases: bool = False,
        ceilings: Ceilings | None = None,
        packages: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Tables:
        chosen = {**ALIKE, **(kernels or {})}

        def record(run: Run) -> Record:
            found = planted.record(run)
            if run.implementation not in chosen:
                return found
            time = chosen[run.implementation]
            case = int(LADDER.all_parameters(dict(run.parameters))["case"])
            host = (hosts or {}).get((run.implementation, case), time + 1)
            metrics = {"kernel_time": samples_around(time), "host_time": samples_around(host)}
            if processes is not None and run.implementation in processes:
                whole = processes[run.implementation]
                spent = (overhead or {}).get(run.implementation, 0.75 * whole)
                parts = {"process_start": 2 / 3 * spent, "process_compilation": spent / 3}
                metrics |= {name: Measurement(part) for name, part in parts.items()}
                metrics["process_time"] = samples_around(whole)
            package = (packages or {}).get(run.implementation)
            environment = {**found.environment, "provider": package}
            return dataclasses.replace(found, metrics=metrics, environment=environment)

        def counted(run: Run) -> Record | None:
            if counters is None or run.implementation not in counters:
                return None
            of_run = {"busy_time": 1.0, **counters[run.implementation]}
            return dataclasses.replace(
                planted.record(run),
                protocol={"name": "counters"},
                metrics={
                    metric.name: Measurement(of_run.get(metric.quantity.name, 1.0))
                    for metric in LADDER.all_counters("cuda")
                },
            )

        config = {**planted.CONFIG, "counted": list(STEPS)}
        if cases:
            config["experiments"] = [*config["experiments"], CASES]
        report = PlantedReport(
            LADDER, config, ("float32", "cuda"), record, counted, processes=3, **more
        )
        return tables_of_report(report, tmp_path, ceilings)

    return tables


def climbing(tables: Tables) -> Section:
    section = ladder.ladder_section(tables)
    assert section is not None
    return section


# Page one


def test_the_answer_goes_from_the_first_step_to_the_fastest(plant: Plant) -> None:
    tables = plant({"SharedTiles": 20.0, "Padded": 10.0, "Coalesced": 15.0})
    said = told(ladder.answer_kernel(climbing(tables)))
    assert said["en"].startswith(
        "The kernel runs 10.0 times as fast at step 3 (Padded) as at step 1 (GlobalMemory): "
        "100 → 10.0 ms on t = 28"
    )
    assert said["zh_TW"].startswith("第 3 步（Padded）的 kernel 是第 1 步（GlobalMemory）的 10.0")


@pytest.mark.parametrize(("kernels", "best"), [((20.0, 19.9), 2), ((20.0, 18.0), 3)])
def test_of_steps_within_the_margin_the_first_is_the_fastest(
    plant: Plant, kernels: tuple[float, float], best: int
) -> None:
    shared, padded = kernels
    tables = plant({"SharedTiles": shared, "Padded": padded, "Coalesced": 30.0})
    observation = ladder.answer_kernel(climbing(tables))
    assert observation is not None and observation.facts["best"]["number"] == best


def test_where_no_step_is_shown_to_help_there_is_no_answer(plant: Plant) -> None:
    tables = plant()
    assert ladder.answer_kernel(climbing(tables)) is None
    assert told(ladder.ladder_time(climbing(tables)))["en"].startswith(
        "Time: none of 3 steps are shown to shorten the kernel (t = 28); SharedTiles, Padded "
        "and Coalesced make no difference here."
    )


def test_steps_whose_labels_begin_alike_are_one_thing() -> None:
    stem = ladder.stem_of({"en": "Tensor cores, tf32", "zh_TW": "Tensor Core (tf32)"})
    assert stem == (
        {"en": "Tensor cores", "zh_TW": "Tensor Core"},
        {"en": "tf32", "zh_TW": "tf32"},
    )
    assert ladder.stem_of({"en": "Larger tiles", "zh_TW": "較大的分塊"})[1] == {
        "en": "",
        "zh_TW": "",
    }


def test_a_faster_kernel_may_make_a_slower_process(plant: Plant) -> None:
    """Step 2 has the shortest process; step 3 halves the kernel once more, and takes longer."""
    whole = {"GlobalMemory": 2000.0, "SharedTiles": 1000.0, "Padded": 1500.0, "Coalesced": 1010.0}
    tables = plant({"SharedTiles": 50.0, "Padded": 25.0, "Coalesced": 25.0}, processes=whole)
    said = told(ladder.answer_process(climbing(tables)))
    assert "gains less: 2.0 → 1.0 s at best (SharedTiles, within 5% of it Coalesced)" in said["en"]
    assert "Of that, 75% is start-up and compilation." in said["en"]
    assert said["en"].endswith(
        "the whole process gets slower, mostly because it takes longer to start and compile: 1.5 s "
        "with Padded."
    )
    assert said["zh_TW"].endswith("整個行程反而變慢，主要是啟動與編譯變久：Padded 1.5 秒。")
    assert told(ladder.answer_use(climbing(tables)))["en"].startswith(
        "Hand in SharedTiles; in a program"
    )


def test_a_slower_process_has_no_cause_where_its_start_takes_no_longer(plant: Plant) -> None:
    whole = {"GlobalMemory": 2000.0, "SharedTiles": 1000.0, "Padded": 1500.0}
    kernels = {"SharedTiles": 50.0, "Padded": 25.0, "Coalesced": 25.0}
    tables = plant(kernels, processes=whole, overhead=dict.fromkeys(whole, 750.0))
    said = told(ladder.answer_process(climbing(tables)))
    assert said["en"].endswith("process gets slower all the same: 1.5 s with Padded.")
    assert said["zh_TW"].endswith("整個行程仍然變慢：Padded 1.5 秒。")


def test_processes_that_do_not_differ_are_not_said_to_gain(plant: Plant) -> None:
    tables = plant({"SharedTiles": 50.0}, processes=dict.fromkeys(STEPS, 1000.0))
    said = told(ladder.answer_process(climbing(tables)))["en"]
    assert "is no faster than with GlobalMemory" in said and "process gets slower" not in said
    assert told(ladder.answer_use(climbing(tables)))["en"].startswith(
        "In a program that keeps running"
    )


def test_without_a_whole_process_nothing_is_said_of_it(plant: Plant) -> None:
    tables = plant({"SharedTiles": 50.0})
    assert ladder.answer_process(climbing(tables)) is None
    assert told(ladder.answer_use(climbing(tables)))["en"].startswith(
        "In a program that keeps running"
    )


def test_what_is_slower_with_copies_is_not_to_be_run(plant: Plant) -> None:
    """Padded has the shortest kernel, but with copies SharedTiles takes half the time."""
    kernels = {"SharedTiles": 20.0, "Padded": 10.0, "Coalesced": 20.0}
    copies = {("SharedTiles", 28): 30.0, ("Padded", 28): 60.0, ("Coalesced", 28): 60.0}
    observation = ladder.answer_use(climbing(plant(kernels, copies)))
    assert observation is not None and observation.facts["run"]["name"] == "SharedTiles"


# The section that climbs


def test_the_very_first_step_counts_where_it_ended(plant: Plant) -> None:
    said = told(ladder.ladder_time(climbing(plant({"SharedTiles": 1.0}))))
    assert "On t = 10, where Sequential was measured too, the way goes from 11 s to" in said["en"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"instructions": 8e9, "bank_conflicts": 1e6}, {"instructions": 1e9}, "bank_conflicts"),
        ({"instructions": 8e9}, {"instructions": 1e9, "bank_conflicts": 0.5}, "instructions"),
        ({"instructions": 8e9}, {"instructions": 6.5e9}, None),
    ],
    ids=["the largest factor", "no other falls", "by too little"],
)
def test_what_fell_most_is_the_counter_with_the_largest_factor(
    plant: Plant, before: Times, after: Times, expected: str | None
) -> None:
    counters = {"GlobalMemory": before, "SharedTiles": after}
    section = climbing(plant({"SharedTiles": 50.0}, counters=counters))
    fall = ladder.moved(section, "SharedTiles", 28)
    assert (fall and fall["counter"]) == expected


def test_a_step_that_does_not_help_has_no_reason(plant: Plant) -> None:
    counters = {"GlobalMemory": {"instructions": 8e9}, "SharedTiles": {"instructions": 1e9}}
    assert ladder.ladder_why(climbing(plant(counters=counters))) is None
    helping = climbing(plant({"SharedTiles": 50.0}, counters=counters))
    said = told(ladder.ladder_why(helping))
    assert said["en"] == "Why: SharedTiles cuts instructions from 8.0 G to 1.0 G."
    assert said["zh_TW"] == "為什麼：SharedTiles 使指令數由 8.0 G 降到 1.0 G。"


@pytest.mark.parametrize(("time", "is_told"), [(90.0, True), (50.0, False)])
def test_a_counter_that_falls_far_for_little_surprises(
    plant: Plant, time: float, is_told: bool
) -> None:
    counters = {"GlobalMemory": {"instructions": 8e9}, "SharedTiles": {"instructions": 1e9}}
    section = climbing(plant({"SharedTiles": time}, counters=counters))
    observation = ladder.ladder_surprise(section)
    assert (observation is not None) == is_told
    if is_told:
        said = told(observation)
        assert "cuts instructions to 1/8 (8.0 G → 1.0 G)" in said["en"]
        assert "指令數降為 1/8" in said["zh_TW"]


@pytest.mark.parametrize(("share", "is_told"), [(50.0, True), (20.0, False)])
def test_occupancy_surprises_where_a_slower_step_has_twice_that_of_the_fastest(
    plant: Plant, share: float, is_told: bool
) -> None:
    counters = {"GlobalMemory": {"occupancy": share}, "SharedTiles": {"occupancy": 12.5}}
    section = climbing(plant({"SharedTiles": 50.0}, counters=counters))
    assert (ladder.ladder_surprise(section) is not None) == is_told


CEILINGS = {
    "device": "cuda",
    "matrix_product": {
        "float32": {"time(s)": 1e-3, "samples": [], "size": 2920},
        "float16": {"time(s)": 1e-4, "samples": [], "size": 2920},
    },
    "copy": {"time(s)": 0.02, "samples": [], "bytes": 10**9},
    "environment": {"device_name": "NVIDIA H200"},
}
"""50 and 500 TFLOP/s."""


@pytest.mark.parametrize(
    ("time", "expected"), [(11.0, "50% of the float32 ceiling"), (1.1, "50% of the float16")]
)
def test_a_rate_is_a_share_of_the_ceiling_that_it_stays_under(
    plant: Plant, time: float, expected: str
) -> None:
    ceilings = read_ceilings(CEILINGS)
    tables = plant({"SharedTiles": time, "Padded": time, "Coalesced": time}, ceilings=ceilings)
    assert expected in told(ladder.ladder_rate(climbing(tables)))["en"]
    without = Tables(tables.experiments, tables.comparisons, tables.estimates, None)
    assert ladder.ladder_rate(climbing(without)) is None


# Larger problems, other cases


@pytest.mark.parametrize(("last", "is_told"), [("triton 3.6.0", True), ("numba-cuda 0.31", False)])
def test_a_step_to_another_language_says_that_its_gain_is_of_both(
    plant: Plant, last: str, is_told: bool
) -> None:
    packages = {**dict.fromkeys(STEPS, "numba-cuda 0.30.4"), "Coalesced": last}
    observation = ladder.ladder_language(climbing(plant({"Coalesced": 50.0}, packages=packages)))
    assert (observation is not None) is is_told
    if is_told:
        said = told(observation)
        assert said["en"].startswith("From Coalesced on the kernels are written in Triton, before")
        assert said["en"].endswith("this step's 2.0 times come from both changes.")
        assert "這一步的 2.0 倍速" in said["zh_TW"]


def test_a_step_that_helps_at_some_sizes_alone_is_told_with_them(tmp_path: Path) -> None:
    """Padded halves the time at N = 4096 and changes nothing at 16384."""
    report = dataclasses.replace(planted.ON_GPU, processes=3)
    section = tables_of_report(report, tmp_path).sections[1]
    said = told(ladder.ladder_split(section))
    assert said["en"] == (
        "Padded helps at N = 4096 only (2.0 times the speed of SharedTiles); at 16384 it makes no "
        "difference."
    )
    assert said["zh_TW"].startswith("Padded 只在 N = 4096 有用")


def test_a_step_that_helps_nowhere_has_no_sizes(plant: Plant) -> None:
    assert ladder.ladder_split(plant().sections[1]) is None


@pytest.mark.parametrize(("small", "expected"), [(200.0, "costs where"), (101.0, "pays with")])
def test_streams_are_judged_where_there_is_most_and_least_data(
    plant: Plant, small: float, expected: str
) -> None:
    hosts = {("SharedTiles", 22): 500.0, ("Padded", 22): 250.0, ("Padded", 1): small}
    section = plant(hosts=hosts, cases=True).sections[2]
    observation = ladder.ladder_streams(section)
    said = told(observation)["en"]
    assert expected in said and "(t = 22: 500 → 250 ms with copies)" in said


def test_a_step_that_changes_its_kernel_is_no_matter_of_streams(plant: Plant) -> None:
    tables = plant({"Padded": 50.0}, {("SharedTiles", 22): 500.0}, cases=True)
    assert ladder.ladder_streams(tables.sections[2]) is None


@pytest.mark.parametrize(("host", "is_told"), [(400.0, True), (200.0, False)])
def test_copies_count_where_they_hide_a_faster_kernel(
    plant: Plant, host: float, is_told: bool
) -> None:
    """Padded doubles the kernel's speed; with four times its time in copies nobody sees it."""
    kernels = {"SharedTiles": 100.0, "Padded": 50.0, "Coalesced": 100.0}
    hosts = {("SharedTiles", 22): host, ("Padded", 22): host if is_told else host / 2}
    hosts |= {("SharedTiles", 1): 101.0, ("Padded", 1): 51.0}
    observation = ladder.ladder_copies(plant(kernels, hosts, cases=True).sections[2])
    assert (observation is not None) == is_told
    if is_told:
        assert (
            "on t = 22 the kernel of Padded takes 50 ms, 400 with copies" in told(observation)["en"]
        )


# Simulated


def test_of_a_simulator_only_what_is_right_is_told(tmp_path: Path) -> None:
    (observation,) = ladder.story(tables_of_report(planted.SIMULATED, tmp_path))
    said = told(observation)
    assert said["en"].startswith("A simulator ran the kernels on the CPU: 10 of 10 runs are right.")
    assert said["zh_TW"].startswith("kernel 由 CPU 上的模擬器執行：10 項中 10 項結果正確。")


def test_of_a_simulator_what_is_wrong_is_named(tmp_path: Path) -> None:
    def record(run: Run) -> Record:
        found = planted.record(run)
        wrong = run.implementation == "Padded"
        failed = {"status": "incorrect", "message": "too far off", "metrics": {}}
        return dataclasses.replace(found, **failed) if wrong else found

    report = dataclasses.replace(planted.SIMULATED, record=record)
    (observation,) = ladder.story(tables_of_report(report, tmp_path))
    assert "8 of 10 runs are right, wrong are some of Padded." in told(observation)["en"]
