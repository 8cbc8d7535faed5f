"""The training's story: of alternatives only what is decided, or what the busy GPU bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from planted import training as planted
from planted.records import plain_record, samples_around
from planted.results import PlantedReport
from story.planting import tables_of_report
from story.reading import told as told_of

from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.plan.datasets import Entry
from flashlab.records import Measurement, Record
from flashlab.runs import Run
from flashlab.story import training
from flashlab.story.observation import Observation
from flashlab.story.tables import Section, Tables

Key = tuple[str, bool]
"""An implementation, and whether it is compiled."""

TIMES: Mapping[Key, float] = {
    ("Pytorch", False): 120.0,
    ("Pytorch", True): 80.0,
    ("SdpaMath", False): 240.0,
    ("SdpaMath", True): 110.0,
    ("Flash2", False): 80.0,
    ("Flash2", True): 60.0,
    ("SdpaEfficient", False): 90.0,
    ("SdpaEfficient", True): 70.0,
}
MEMORY = {"Pytorch": 6000.0, "SdpaMath": 8000.0, "Flash2": 4000.0, "SdpaEfficient": 4100.0}

Plant = Callable[..., Tables]


def told(observation: Observation | None) -> Mapping[str, str]:
    return told_of(observation, "training")


@dataclasses.dataclass(frozen=True)
class Processes(PlantedReport):
    """With so many processes of each implementation, and cards by whether it is compiled."""

    several: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def _record(self, run: Run, records: Path) -> list[Entry]:
        processes = self.several.get(run.implementation, 1)
        return PlantedReport._record(
            dataclasses.replace(self, processes=processes, several={}), run, records
        )


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Plant:
    """Tables of the four attentions, compiled and not; those of the same truth are made once."""
    known: dict[str, Tables] = {}

    def tables(
        times: Mapping[Key, float] | None = None,
        busy: Mapping[Key, float] | None = None,
        spread: float = 0.0005,
        breaks: Mapping[str, int] | None = None,
        cards: Mapping[Key, str] | None = None,
        several: Mapping[str, int] | None = None,
        only: tuple[Key, ...] | None = None,
        kernels: tuple[float, float] = (3000.0, 2500.0),
        compiling: Mapping[Key, float] | None = None,
    ) -> Tables:
        chosen = {**TIMES, **(times or {})}

        def record(run: Run) -> Record:
            key = run.implementation, bool(run["compile"])
            environment = {"device_name": "NVIDIA A100", "packages": {}}
            if cards and key in cards:
                environment["gpu_uuid"] = cards[key]
            usual: dict[str, Any] = {"environment": environment, "protocol": {"name": "training"}}
            if only is not None and key not in only:
                failed = {"status": "oom", "message": "CUDA out of memory"}
                return plain_record(run, TRAINING.name, **failed, **usual)
            size = MEMORY[run.implementation] - 100 * key[1]
            metrics = {
                "iteration_time": samples_around(chosen[key], spread),
                "first_step": Measurement(1.0 + 30 * key[1]),
                "peak_memory": Measurement(size),
                "process_memory": Measurement(size + 1000),
                "energy": Measurement(chosen[key] / 2),
            }
            if key[1] or key in (compiling or {}):
                metrics["compile_time"] = Measurement((compiling or {}).get(key, 20.0))
            if busy is not None:
                metrics["gpu_busy_time"] = Measurement(busy.get(key, 0.95 * chosen[key]))
                metrics["kernels"] = Measurement(kernels[key[1]])
            usual["details"] = {"compiled": {"graph_breaks": (breaks or {}).get(key[0], 0)}}
            return plain_record(run, TRAINING.name, metrics=metrics, **usual)

        report = Processes(
            *(TRAINING, planted.REPORT.config, planted.REPORT.kind, record),
            several=several or dict.fromkeys(MEMORY, 3),
        )
        return tables_of_report(report, tmp_path_factory.mktemp("planted"))

    def remembered(*given: Any, **named: Any) -> Tables:
        truth = repr((given, named))
        if truth not in known:
            known[truth] = tables(*given, **named)
        return known[truth]

    return remembered


def section_of(tables: Tables) -> Section:
    section = training.alternatives_of(tables)
    assert section is not None
    return section


# Page one


def test_what_to_use_is_what_is_decidedly_faster_than_the_naive_attention(plant: Plant) -> None:
    said = told(training.answer_use(section_of(plant())))
    assert said["en"] == (
        "Use a fused attention with torch.compile: an iteration falls from 120 ms (Pytorch, eager) "
        "to 60–70 ms (Flash2 and SdpaEfficient), 1.7–2.0 times the speed. Peak memory falls from "
        "6,000 to 3,900–4,000 MiB (to 67%)."
    )
    assert said["zh_TW"].startswith(
        "用融合注意力，再加 torch.compile：一次迭代由 120 ms（Pytorch，未編譯）降到 60–70 ms"
    )


def test_compiling_is_not_recommended_where_the_fastest_is_eager(plant: Plant) -> None:
    slow = {("Flash2", True): 100.0, ("SdpaEfficient", True): 100.0}
    observation = training.answer_use(section_of(plant(slow)))
    assert told(observation)["en"].startswith("Use a fused attention: an iteration falls from 120")
    assert training.section_take(section_of(plant(slow))) is None


def test_nothing_is_recommended_that_is_not_decided(plant: Plant) -> None:
    alike = {key: 120.0 for key in TIMES}
    assert training.answer_use(section_of(plant(alike))) is None
    assert "none is shown faster" in told(training.effect_attention(section_of(plant(alike))))["en"]
    assert "no attention is shown" in told(training.effect_compile(section_of(plant(alike))))["en"]


@pytest.mark.parametrize(("time", "is_told"), [(80.0, True), (100.0, False)])
def test_no_gain_from_a_faster_attention_is_told_where_none_is_decided(
    plant: Plant, time: float, is_told: bool
) -> None:
    """The GPU waits for the host with Flash2, as fast eager as SdpaEfficient or 20% faster."""
    key = ("SdpaEfficient", False)
    tables = plant({key: time}, busy={("Flash2", False): 40.0, key: 40.0})
    said = told(training.section_take(section_of(tables)))
    assert ("no fused attention is shown faster than another" in said["en"]) is is_told
    assert ("沒有一種融合實作判定比另一種快" in said["zh_TW"]) is is_told


def test_what_stores_the_scores_is_no_fused_attention(plant: Plant) -> None:
    assert training.fused(section_of(plant())) == ["Flash2", "SdpaEfficient"]


@pytest.mark.parametrize(
    ("busy", "verdict", "by_busy"),
    [
        ({("SdpaEfficient", True): 63.9}, "one", 7),
        ({("SdpaEfficient", True): 60.8}, "open", 6),
        (None, "open", 0),
    ],
    ids=["longer than its interval", "within its interval", "not measured"],
)
def test_who_keeps_the_gpu_busy_for_longer_than_the_fastest_may_take_is_out(
    plant: Plant, busy: Mapping[Key, float] | None, verdict: str, by_busy: int
) -> None:
    """The times of one process each leave open what the busy GPU rules out.

    Flash2 takes 60 ms in its one process; by the spread that is assumed, up to 63.6 ms.
    """
    near = {("SdpaEfficient", True): 64.0}
    tables = plant(near, busy, several=dict.fromkeys(MEMORY, 1))
    observation = training.answer_which(section_of(tables))
    assert observation is not None
    facts = observation.facts
    assert (facts["verdict"], facts["by_busy"]) == (verdict, by_busy)
    assert facts["of"] == 8


def test_who_is_the_fastest_is_told_where_it_is_decided(plant: Plant) -> None:
    said = told(training.answer_which(section_of(plant())))
    assert said["en"].startswith(
        "Which one is the fastest is decided: the lowest median is Flash2 60.0 ms (compiled). Of "
        "the 8 alternatives, 7 are out: decidedly slower."
    )
    assert said["zh_TW"].startswith("誰最快已判定：中位數最低的是 Flash2 60.0 ms（編譯）。")


def test_those_within_the_margin_are_level(plant: Plant) -> None:
    observation = training.answer_which(section_of(plant({("SdpaEfficient", True): 60.5})))
    assert observation is not None and observation.facts["verdict"] == "level"


def test_what_compiles_anyway_is_not_paid_back(plant: Plant) -> None:
    """20 s, of which an attention takes 5 without torch.compile too, and 20 ms an iteration."""
    found = training.repaid(section_of(plant(compiling={("Flash2", False): 5.0})))
    assert [round(found[name]["after"]) for name in ("Flash2", "SdpaEfficient")] == [750, 1000]


def test_compiling_is_paid_back_by_what_an_iteration_saves(plant: Plant) -> None:
    """20 s: 40 ms of each iteration with Pytorch, 130 with SdpaMath, 20 with the others."""
    found = training.repaid(section_of(plant()))
    assert {name: round(each["after"]) for name, each in found.items()} == {
        **{"Pytorch": 500, "SdpaMath": 154, "Flash2": 1000, "SdpaEfficient": 1000},
    }
    said = told(training.answer_cost(section_of(plant())))
    assert said["en"].startswith(
        "The cost: compiling Flash2 and SdpaEfficient takes 20 s each, made up for after 1,000 "
        "iterations; do not use SdpaMath (240 ms and 8,000 MiB, eager)."
    )
    assert said["zh_TW"].startswith(
        "代價：編譯 Flash2 與 SdpaEfficient 各要 20 秒，約 1,000 次迭代後回本；"
    )


def test_what_compiling_costs_is_told_where_it_is_recommended(plant: Plant) -> None:
    slow = {("Flash2", True): 100.0, ("SdpaEfficient", True): 100.0}
    observation = training.answer_cost(section_of(plant(slow)))
    assert observation is not None and observation.facts["seconds"] is None
    said = told(observation)
    assert said["en"].startswith("The cost: do not compile Flash2 (0.80 times the speed)")


def test_whom_compiling_slows_is_told_with_its_graph_breaks(plant: Plant) -> None:
    tables = plant({("Flash2", True): 160.0}, breaks={"Flash2": 12})
    said = told(training.answer_cost(section_of(tables)))
    assert "do not compile Flash2 (0.50 times the speed, 12 graph breaks)" in said["en"]
    assert "Flash2 不要編譯（只剩 0.50 倍速，12 次 graph break）" in said["zh_TW"]
    assert "Flash2 slower (0.50)" in told(training.effect_compile(section_of(tables)))["en"]


@pytest.mark.parametrize(
    ("time", "expected"),
    [(60.0, "overtakes"), (80.5, "is level with"), (100.0, "still loses to")],
)
def test_the_naive_attention_compiled_is_compared_with_a_fused_one_that_is_not(
    plant: Plant, time: float, expected: str
) -> None:
    said = told(training.naive_compiled(section_of(plant({("Pytorch", True): time}))))
    assert f"ms), {expected} Flash2, eager (80 ms)" in said["en"]
    assert "1.48 times the memory" in said["en"]


def test_what_has_no_numbers_is_compared_with_nothing(plant: Plant) -> None:
    tables = plant(only=(("Pytorch", False), ("Flash2", False)))
    assert told(training.answer_use(section_of(tables)))["en"].startswith(
        "Use a fused attention: an"
    )
    assert training.effect_compile(section_of(tables)) is None
    assert training.naive_compiled(section_of(tables)) is None
    assert training.answer_cost(section_of(tables)) is None
    assert [each.name for each in training.story(tables)]


# The footnote


def test_the_footnote_counts_the_runs_with_one_process(plant: Plant) -> None:
    assert training.footnote_doubts(section_of(plant())) is None
    some = told(training.footnote_doubts(section_of(plant(several={"Pytorch": 3}))))["en"]
    assert "6 of 8 runs have one process each and borrow the spread" in some
    none = told(training.footnote_doubts(section_of(plant(several={"Pytorch": 1}))))["en"]
    assert "8 of 8 runs have one process each, so the spread between processes is assumed" in none


def test_the_footnote_counts_the_ratios_of_different_cards(plant: Plant) -> None:
    cards = {key: f"GPU-{int(key[1])}" for key in TIMES}
    said = told(training.footnote_doubts(section_of(plant(cards=cards))))
    # Four that are compiled over the naive one, which is not, and four over themselves.
    assert "8 of the ratios are of runs on different cards." in said["en"]
    assert "有 8 個比值的兩邊量自不同的卡。" in said["zh_TW"]


# The section


@pytest.mark.parametrize(
    ("busy", "expected"),
    [(60.0, "but then it is busy for only 75%"), (76.0, "it is then busy for 95%")],
)
def test_the_host_is_the_reason_only_where_the_gpu_waits(
    plant: Plant, busy: float, expected: str
) -> None:
    section = section_of(plant(busy={("Flash2", False): busy}))
    assert expected in told(training.section_why(section))["en"]


@pytest.mark.parametrize(
    ("counts", "en", "zh"),
    [
        ((3000.0, 2500.0), "Compilation leaves 2,500, and", "編譯後剩 2,500 個"),
        ((3000.0, 3000.0), "does not reduce the 3,000 kernels, and", "編譯後仍是 3,000 個"),
        ((3000.0, 3100.0), "Compilation makes it 3,100, and", "編譯後增為 3,100 個"),
    ],
)
def test_compilation_leaves_fewer_kernels_only_where_there_are_fewer(
    plant: Plant, counts: tuple[float, float], en: str, zh: str
) -> None:
    said = told(training.section_why(section_of(plant(busy={}, kernels=counts))))
    assert en in said["en"] and zh in said["zh_TW"]


def test_without_a_busy_time_there_is_no_why(plant: Plant) -> None:
    section = section_of(plant())
    assert training.section_why(section) is None
    assert training.section_surprise(section) is None


@pytest.mark.parametrize(("busy", "is_told"), [(40.0, True), (57.0, False)])
def test_the_least_busy_surprises_where_it_is_not_the_fastest(
    plant: Plant, busy: float, is_told: bool
) -> None:
    """SdpaEfficient, compiled, takes 70 ms, decidedly longer than Flash2's 60."""
    section = section_of(plant(busy={("SdpaEfficient", True): busy}))
    observation = training.section_surprise(section)
    assert (observation is not None) == is_told
    if is_told:
        said = told(observation)
        assert "busy for the least time with SdpaEfficient, compiled (40 ms)" in said["en"]
        assert "decidedly longer than the fastest: the GPU is idle for 43%" in said["en"]


def test_the_memory_of_the_fused_is_told_beside_that_of_the_naive(plant: Plant) -> None:
    said = told(training.section_memory(section_of(plant())))
    assert said["en"].startswith(
        "Memory: 3,900–4,100 MiB with the fused, 6,000 with Pytorch, 8,000 with SdpaMath"
    )
    assert "Energy of an iteration: 60 → 40 J (Flash2) → 30 J (compiled too)." in said["en"]


def test_a_loss_is_compared_with_what_seeds_do(tmp_path: Path) -> None:
    """`planted.training` puts SdpaEfficient farther off than any seed."""
    tables = tables_of_report(planted.REPORT, tmp_path)
    said = told(training.section_curves(section_of(tables)))
    assert said["en"].startswith("Loss: that of SdpaEfficient differs from that of Pytorch by more")
    assert "than Pytorch's 5 seeds do among themselves" in said["en"]
    assert "與 Pytorch 的差別，超過 Pytorch 的 5 個亂數種子彼此的差別" in said["zh_TW"]


def test_whose_loss_departs_is_not_recommended(tmp_path: Path) -> None:
    """SdpaEfficient's does, and Flash2 remains; neither is compiled."""
    tables = tables_of_report(planted.REPORT, tmp_path)
    observation = training.answer_use(section_of(tables))
    assert observation is not None and "SdpaEfficient" not in observation.facts["names"]
    said = told(observation)
    assert said["en"].endswith("Left out is SdpaEfficient: the loss departs from that of Pytorch.")
    assert said["zh_TW"].endswith("SdpaEfficient 的損失與 Pytorch 的不一致，不列入。")


def test_a_loss_within_what_seeds_do_does_not_differ(tmp_path: Path) -> None:
    def record(run: Run) -> Record:
        found = planted.record(run)
        near = {**found.curves, "loss": [4.0 + 0.02 * (int(run["seed"]) - 1337)] * 60}
        return dataclasses.replace(found, curves=near) if found.curves else found

    report = dataclasses.replace(planted.REPORT, record=record)
    said = told(training.section_curves(section_of(tables_of_report(report, tmp_path))))
    assert said["en"].startswith("Loss: no attention's differs from that of Pytorch")
