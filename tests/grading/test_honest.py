"""Honest submissions in unusual form: understood with a note, or not checked, never failed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import (
    CAUSAL,
    FLASH,
    LONG,
    NAIVE,
    Change,
    graded,
    measured_again,
    rescaled,
    write_class,
)
from planted.classes import H200
from planted.course import course_result, write_results

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab_grading.checks import OWN_CHECKS


def notes(found: Any) -> set[str]:
    return {line.code for line in found.lines("pass")}


@pytest.mark.parametrize("named", [True, False])
def test_a_runs_csv_may_declare_any_part_of_a_run(named: bool, sound: Any, tmp_path: Path) -> None:
    """What a row leaves out is taken from the name as a hint."""
    if not named:  # flash2-b16-n512-h32-e2048-full-float16-cuda.json
        sound.without_names()
    rows = [",".join(row[:2]) for row in sound.rows.values()]
    sound.write(tmp_path / "ann").joinpath("runs.csv").write_text("\n".join(["file,impl", *rows]))
    found = graded(tmp_path)
    assert found.alarms() == []
    assert found.of("ann")["identity"] == ("pass" if named else "not_checked")


FULL, MASKED = "Flash2 B·H=512 N=512 d=64 full", "Flash2 B·H=256 N=1024 d=64 causal"


@pytest.mark.parametrize(
    ("cells", "code", "possible"),
    [
        (",,32,2048,", "identity.open", {FULL, MASKED}),
        (",,32,2048,false", "identity.pass_partly", {FULL}),
        (",512,,,", "identity.pass_partly", {FULL}),
    ],
)
def test_a_row_that_leaves_several_runs_open_is_not_checked(
    cells: str, code: str, possible: set[str], sound: Any, tmp_path: Path
) -> None:
    """By FLOPs and memory, FlashAttention at (B, N, full) is that at (B/2, 2N, causal)."""
    folder = tmp_path / "ann"
    folder.mkdir()
    folder.joinpath("a.json").write_text(json.dumps(sound.document(FLASH)))
    header = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device"
    folder.joinpath("runs.csv").write_text(f"{header}\na.json,Flash2,{cells},RTX 3070\n")
    (line,) = (x for x in graded(tmp_path).all_lines if x.check == "identity")
    assert (line.code, {*line.found.split(" | ")}) == (code, possible)


MISLEADING = {
    "flash_bs16_causal_0.json": FLASH,
    "full_results_flash_causal_b16_n512_h32_e2048.json": CAUSAL,
    "FlashAttention/baseline_n512_b16_h32_e2048.json": NAIVE,
    "pytorch_b16_n512_h32_e2048_full.json": FLASH,
    "flash_b16_n512_h32_e2048_causal.json": FLASH,
}


@pytest.mark.parametrize("name", MISLEADING)
def test_a_name_alone_never_fails_a_file(name: str, sound: Any, tmp_path: Path) -> None:
    document = sound.document(MISLEADING[name])
    sound.documents, sound.rows = {}, None
    path = sound.write(tmp_path / "ann") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    assert {line.check for line in graded(tmp_path).alarms()} <= {"coverage"}


def test_without_declarations_what_the_numbers_tell_is_listed(sound: Any) -> None:
    """The course's script names nothing: any names, no runs.csv."""
    sound.without_names()
    sound.rows = None
    found = sound.graded()
    told = [line for line in found.lines("not_checked") if line.check == "identity"]
    assert (found.alarms(), len(told)) == ([], len(sound.documents))
    assert all(line.code == "identity.open" and line.found for line in told)


def test_a_result_that_is_there_twice_counts_once(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "ann")
    folder.joinpath("backup").mkdir()
    copied = folder.joinpath("backup", sound.file(FLASH))
    copied.write_text(folder.joinpath(sound.file(FLASH)).read_text())
    row = ",".join(sound.rows[sound.file(FLASH)])
    folder.joinpath("runs.csv").open("a").write(f"backup/{row}\n")
    found = graded(tmp_path)
    assert found.alarms() == [] and "form.double" in notes(found)
    assert len(found.submissions[0].results) == 36


def test_disturbed_times_of_honest_submissions_fail_nothing(sound: Any, tmp_path: Path) -> None:
    """One time in fifty takes three times as long."""
    for seed in range(12):
        factors = random.Random(7 + seed).choices((3.0, 1.0), (0.02, 0.98), k=100)
        own = measured_again(sound, seed).measured(iter(factors).__next__)
        own.write(tmp_path / f"s{seed:02}")
    found = graded(tmp_path)
    assert found.fails() == {} and {line.check for line in found.lines("warn")} == {"plausibility"}


def test_another_device_than_the_classs_is_not_taken_in_silence(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    found = graded(tmp_path, "NVIDIA GeForce RTX 3070")
    assert [line.code for line in found.alarms()] == ["form.other_device"]
    assert graded(tmp_path, "H200").alarms() == []


@pytest.mark.parametrize("device", ["NVIDIA GeForce RTX 3070", ""])
def test_a_result_of_the_courses_own_script_passes(device: str, sound: Any) -> None:
    slide = json.loads((H200.parent / "published" / "slide.json").read_text(encoding="utf-8"))
    row = ["slide.json", "Flash2", "32", "1024", "32", "2048", "false", device]
    sound.documents, sound.rows = {"slide.json": slide}, {"slide.json": row}
    found = sound.graded()
    assert {check for check, _ in found.fails()} == {"coverage"}
    assert [found.of("ann")[check] for check in OWN_CHECKS[:5]] == ["pass"] * 5


def test_a_whole_recorded_dataset_raises_no_alarm(tmp_path: Path) -> None:
    """Seven implementations, two protocols, runs out of memory: records with all their samples."""
    tmp_path.joinpath("ann").mkdir()
    for path in H200.joinpath("records").iterdir():  # not as it was shipped
        tmp_path.joinpath("ann", path.name).write_text(path.read_text() + "\n")
    found = graded(tmp_path)
    assert found.alarms() == [] and "form.not_measured" in notes(found)


# In a class


FLASH2_MS = {
    "bs16": (16, 0.67, 2.23), "bs32": (32, 3.13, 4.39), "ed2048": (32, 2.97, 4.39),
    "nh32": (32, 3.07, 4.40), "sl512": (32, 3.11, 4.39), "bs64": (64, 3.04, 8.25),
}  # fmt: skip
"""Batch size, forward and backward time of a result that was published; the run of a batch of 32
is in four of its sweeps."""


@pytest.mark.parametrize(("backward", "told"), [(8.25, []), (4.3, ["bs32", "nh32", "sl512"])])
def test_twice_the_work_in_less_time_is_a_warning_if_both_passes_say_so(
    backward: float, told: list[str], tmp_path: Path
) -> None:
    results = {}
    for name, (batch_size, *both) in {**FLASH2_MS, "bs64": (64, 3.04, backward)}.items():
        shape = Shape(batch_size, 512, 32, 2048, True)
        memory = costs.flash2_peak_memory(shape) / costs.MIB
        document = course_result(shape, *(time / 1e3 for time in both), memory)
        results[f"{name}.json"] = ("Flash2", shape, document)
    write_results(tmp_path / "ann", results, "NVIDIA GeForce RTX 3070")
    lines = [line for line in graded(tmp_path).lines("warn") if line.check == "plausibility"]
    assert [line.file.removesuffix(".json") for line in lines] == told
    assert {line.params["other"] for line in lines} <= {"bs64.json"}


BATCHES = [f"pytorch-b{b}-n512-h32-e2048-causal" for b in (8, 16, 32, 64)]
AGAINST_THE_CLASS: dict[str, tuple[Change, str]] = {
    # With no neighbour above.
    "a slow end": (rescaled("pytorch-b32-n1024-h32-e2048-full", by=4), "plausibility.class"),
    "a fast run": (rescaled(LONG, by=1 / 2.2), "plausibility.class"),
    "a fast experiment": (rescaled(*BATCHES, by=0.5), "plausibility.class"),
    "milliseconds": (rescaled(by=1000), "plausibility.level"),
}


@pytest.mark.parametrize("altered", AGAINST_THE_CLASS)
def test_what_is_far_from_the_class_is_a_warning(altered: str, sound: Any, tmp_path: Path) -> None:
    change, code = AGAINST_THE_CLASS[altered]
    write_class(tmp_path, sound, 6, lambda own, seed: change(own) if seed == 3 else None)
    found = graded(tmp_path)
    assert found.fails() == {} and code in {line.code for line in found.lines("warn")}
    assert {line.submission for line in found.lines("warn")} == {"s03"}


def test_other_gpus_in_the_class_are_no_measure(sound: Any, tmp_path: Path) -> None:
    """Six of one GPU and two of another, which is slower in one of the implementations."""

    def exchange(own: Any, seed: int) -> None:
        for name in own.documents if seed > 5 else ():
            own.rows[name][-1] = "NVIDIA H100 80GB HBM3"
            own.rescale(name, 3.0 if "pytorch" in name else 1.1)

    write_class(tmp_path, sound, 8, exchange)
    assert graded(tmp_path).alarms() == []
