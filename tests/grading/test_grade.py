"""A sound submission passes every check; what is unlike its class is asked about."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from grading.cheats import FLASH, Change, declared, held, rescaled, times
from grading.conftest import (
    LONG,
    OWN_CHECKS,
    graded,
    measured_again,
)
from planted.classes import H200
from planted.course import course_result, write_results

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape


def test_a_sound_submission_passes_every_check(sound: Any) -> None:
    found = sound.graded()
    assert found.alarms() == []
    assert [found.of("ann")[check] for check in OWN_CHECKS] == ["pass"] * 6
    unchecked = {line.check for line in found.lines("not_checked")}
    assert unchecked == {"copies", "reproduction"}
    assert found.badges("ann") == ("available", "functional")


def test_a_sound_submission_without_declarations_raises_no_alarm(sound: Any) -> None:
    """The course's script names nothing: any names, no runs.csv."""
    sound.without_names()
    sound.rows = None
    found = sound.graded()
    assert found.alarms() == []
    assert found.badges("ann") == ()
    told = [line for line in found.lines("not_checked") if line.check == "identity"]
    assert len(told) == len(sound.documents)
    assert all(line.code == "identity.undeclared" and line.found for line in told)


def coarsely_rounded(own: Any) -> None:
    for passed in ("forward", "backward", "forward_backward"):
        both = own.document(FLASH)[passed]
        both.update({key: float(f"{value:.1g}") for key, value in both.items()})


def a_wrong_name_alone(own: Any) -> None:
    del own.rows[own.file(FLASH)]
    own.documents["baseline.json"] = own.documents.pop(own.file(FLASH))


def declared_in_part(own: Any) -> None:
    held(FLASH, 2**-11)(own)
    name = own.file(FLASH)
    own.documents["0.json"] = own.documents.pop(name)
    own.rows[name] = ["0.json", "Flash2", *[""] * 6]


WITHOUT_FLOPS = {"identity.no_flops", "physics.no_flops"}
UNCHECKED: dict[str, tuple[Change, set[str]]] = {
    "a wrong time": (times(0.99, FLASH, "forward", "time(s)"), WITHOUT_FLOPS),
    "a digit": (coarsely_rounded, WITHOUT_FLOPS | {"arithmetic.coarse"}),
    "a kernel of one's own": (declared(FLASH, 1, "Mine"), {"identity.other_kernel"}),
    "a wrong name alone": (a_wrong_name_alone, {"identity.name_refuted"}),
    "memory of nothing": (declared_in_part, {"identity.partly_unknown"}),
}  # fmt: skip


@pytest.mark.parametrize("unchecked", UNCHECKED)
def test_what_cannot_be_checked_of_a_file_is_said_and_why(unchecked: str, sound: Any) -> None:
    change, codes = UNCHECKED[unchecked]
    change(sound)
    assert {line.code for line in sound.graded().lines("not_checked") if line.file} == codes


FLASH2_MS = {
    "bs16": (16, 0.67, 2.23),
    "bs32": (32, 3.13, 4.39),
    "ed2048": (32, 2.97, 4.39),
    "nh32": (32, 3.07, 4.40),
    "sl512": (32, 3.11, 4.39),
    "bs64": (64, 3.04, 8.25),
}
"""Batch size, forward and backward time of a result that was published; the run of a batch of 32
is in four of its sweeps."""


@pytest.mark.parametrize("is_declared", [True, False])
def test_twice_the_work_in_less_time_is_a_warning(is_declared: bool, tmp_path: Path) -> None:
    results = {}
    for name, (batch_size, *both) in FLASH2_MS.items():
        shape = Shape(batch_size, 512, 32, 2048, True)
        memory = costs.flash2_peak_memory(shape) / costs.MIB
        results[f"{name}.json"] = (
            *("Flash2", shape),
            course_result(shape, *(time / 1e3 for time in both), memory),
        )
    write_results(tmp_path / "ann", results, "NVIDIA GeForce RTX 3070")
    if not is_declared:
        tmp_path.joinpath("ann", "runs.csv").unlink()
    told = [line for line in graded(tmp_path).lines("warn") if line.check == "plausibility"]
    assert [line.file for line in told] == ["bs32.json", "nh32.json", "sl512.json"]
    assert {(line.code, line.params["pass"], line.params["other"]) for line in told} == {
        ("plausibility.order", "forward", "bs64.json")
    }


def test_a_few_copied_files_among_own_ones_are_found(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    other = measured_again(sound, 2)
    for name in sorted(sound.documents)[::9]:
        other.documents[name] = sound.documents[name]
    assert set(other.graded("ben").fails().values()) == {"copies.same"}


def test_a_single_file_that_is_the_same_is_a_warning(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    other = measured_again(sound, 3)
    other.documents[sound.file(LONG)] = sound.document(LONG)
    found = other.graded("ben")
    assert found.fails() == {}
    assert {line.code for line in found.lines("warn")} == {"copies.file"}


def test_a_whole_recorded_dataset_raises_no_alarm(tmp_path: Path) -> None:
    """Seven implementations, two protocols, runs out of memory: records with all their samples."""
    shutil.copytree(H200 / "records", tmp_path / "ann")
    found = graded(tmp_path)
    assert found.alarms() == []
    assert any(line.code == "form.not_measured" for line in found.grades.lines if line.is_note)


BATCHES = [f"pytorch-b{b}-n512-h32-e2048-causal" for b in (8, 16, 32, 64)]


AGAINST_THE_CLASS: dict[str, tuple[Change, str]] = {
    # With no neighbour above.
    "a slow end": (rescaled("pytorch-b32-n1024-h32-e2048-full", by=4), "plausibility.class"),
    "a fast run": (rescaled(LONG, by=1 / 2.2), "plausibility.fast"),
    "a fast experiment": (rescaled(*BATCHES, by=0.5), "plausibility.fast"),
    "milliseconds": (rescaled(by=1000), "plausibility.level"),
}


@pytest.mark.parametrize("altered", AGAINST_THE_CLASS)
def test_what_is_far_from_the_class_is_a_warning(altered: str, sound: Any, tmp_path: Path) -> None:
    change, code = AGAINST_THE_CLASS[altered]
    for seed in range(6):
        own = measured_again(sound, seed)
        if seed == 3:
            change(own)
        own.write(tmp_path / f"s{seed}")
    found = graded(tmp_path)
    assert found.fails() == {}
    assert {line.submission for line in found.lines("warn")} == {"s3"}
    assert code in {line.code for line in found.lines("warn")}


def test_other_gpus_in_the_class_are_no_measure(sound: Any, tmp_path: Path) -> None:
    """Six of one GPU and two of another, which is slower in one of the implementations."""
    for seed in range(8):
        own = measured_again(sound, seed)
        for name in own.documents if seed > 5 else ():
            own.rows[name][-1] = "NVIDIA H100 80GB HBM3"
            own.rescale(name, 3.0 if "pytorch" in name else 1.1)
        own.write(tmp_path / f"s{seed}")
    assert graded(tmp_path).alarms() == []


def test_a_submission_of_another_gpu_is_told_once_and_not_point_by_point(
    sound: Any, tmp_path: Path
) -> None:
    for seed in range(6):
        own = measured_again(sound, seed)
        for name in list(own.documents):
            if "pytorch" not in name or "n128" in name or "n256" in name:  # mostly launches
                del own.documents[name], own.rows[name]
            elif seed == 3:
                own.rescale(name, 6)
        own.write(tmp_path / f"s{seed}")
    found = graded(tmp_path)
    assert [
        (line.submission, line.code) for line in found.alarms() if line.check == "plausibility"
    ] == [("s3", "plausibility.level")]


def test_the_configured_device_is_that_of_files_that_name_none(sound: Any, tmp_path: Path) -> None:
    """An H200's results are too fast for an RTX 3070, and hold an H200's cuBLAS workspace."""
    sound.name_device("")
    assert sound.graded().fails() == {}
    found = graded(tmp_path, "NVIDIA GeForce RTX 3070")
    assert "physics.rate" in found.fails().values()
    assert "identity.workspace_of_another" in {line.code for line in found.lines("warn")}
    assert graded(tmp_path, "NVIDIA H200").alarms() == []


SLIDE = json.loads((H200.parent / "published" / "slide.json").read_text(encoding="utf-8"))
"""The result that the course's slides show, measured on an RTX 3070 by the course's own script."""


@pytest.mark.parametrize("device", ["NVIDIA GeForce RTX 3070", ""])
def test_a_result_of_the_courses_own_script_passes(device: str, sound: Any) -> None:
    row = ["slide.json", "Flash2", "32", "1024", "32", "2048", "false", device]
    sound.documents, sound.rows = {"slide.json": SLIDE}, {"slide.json": row}
    found = sound.graded()
    assert {check for check, _ in found.fails()} == {"coverage"}
    verdicts = found.of("ann")
    assert [verdicts[check] for check in OWN_CHECKS[:5]] == ["pass"] * 5
