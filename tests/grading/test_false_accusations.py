"""Honest submissions in unusual form: understood with a note, or not checked, never failed."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import (
    FLASH,
    NAIVE,
    graded,
    measured_again,
)
from planted.classes import MEMORY

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.assembling import OpenFolderError, assemble
from flashlab.course.folder import read_folder
from flashlab.course.words import PASSES
from flashlab_grading.files import files_of

Change = Callable[[float], float]


def notes(found: Any) -> set[str]:
    return {line.code for line in found.grades.lines if line.is_note}


# runs.csv in part, or in another form


@pytest.mark.parametrize("named", [True, False])
def test_a_runs_csv_may_declare_any_part_of_a_run(named: bool, sound: Any, tmp_path: Path) -> None:
    """What a row leaves out is taken from the name as a hint."""
    if not named:  # flash2-b16-n512-h32-e2048-full-float16-cuda.json
        sound.without_names()
    rows = [",".join(row[:2]) for row in sound.rows.values()]
    sound.write(tmp_path / "ann").joinpath("runs.csv").write_text("\n".join(["file,impl", *rows]))
    found = graded(tmp_path)
    assert found.alarms() == []
    verdict = "pass" if named else "not_checked"
    assert [found.of("ann")[check] for check in ("identity", "coverage")] == [verdict] * 2


FULL, CAUSAL = "Flash2 B·H=512 N=512 d=64 full", "Flash2 B·H=256 N=1024 d=64 causal"


@pytest.mark.parametrize(
    ("cells", "code", "possible"),
    [
        (",,32,2048,", "identity.open", f"{FULL} | {CAUSAL}"),
        (",,32,2048,false", "identity.pass_partly", FULL),
        ("16,,,,", "identity.open", f"{FULL} | {CAUSAL}"),
        (",512,,,", "identity.pass_partly", FULL),
    ],
)
def test_a_row_that_leaves_several_runs_open_is_not_checked_and_importing_asks(
    cells: str, code: str, possible: str, sound: Any, tmp_path: Path
) -> None:
    """By FLOPs and memory, FlashAttention at (B, N, full) is that at (B/2, 2N, causal)."""
    folder = tmp_path / "ann"
    folder.mkdir()
    folder.joinpath("a.json").write_text(json.dumps(sound.document(FLASH)))
    header = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device"
    folder.joinpath("runs.csv").write_text(f"{header}\na.json,Flash2,{cells},RTX 3070\n")
    (line,) = (x for x in graded(tmp_path).grades.lines if x.check == "identity")
    assert (line.code, line.found) == (code, possible)
    with pytest.raises(OpenFolderError) if code == "identity.open" else nullcontext():
        assemble(read_folder(files_of(str(folder))), ["Flash2"])


# Names

MISLEADING = {
    "flash_bs16_causal_0.json": FLASH,
    "full_results_flash_causal_b16_n512_h32_e2048.json": "flash2-b16-n512-h32-e2048-causal",
    "FlashAttention/baseline_n512_b16_h32_e2048.json": NAIVE,
    "flash_ed2k.json": FLASH,
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
    found = graded(tmp_path)
    assert [line for line in found.alarms() if line.check != "coverage"] == []


def test_a_name_against_the_numbers_is_resolved_by_them_with_a_note(sound: Any) -> None:
    sound.rows = None
    flash, naive = sound.file(FLASH), sound.file(NAIVE)
    both = sound.documents
    both[flash], both[naive] = both[naive], both[flash]
    found = sound.graded()
    assert found.alarms() == []
    lines = [line for line in found.grades.lines if line.code == "identity.name_differs"]
    assert {line.file for line in lines} == {flash, naive}
    assert all(line.verdict == "pass" and line.expected and line.found for line in lines)


def test_numbers_of_nothing_do_not_fail_by_their_name(sound: Any) -> None:
    sound.rows = None
    sound.document(FLASH)[MEMORY] += 1
    found = sound.graded()
    assert {line.check for line in found.alarms()} <= {"coverage"}
    (line,) = (x for x in found.lines("not_checked") if x.file == sound.file(FLASH))
    assert line.check == "identity"


# Numbers


def rounded(times: Change, rates: Change | None = None) -> Callable[[Any], None]:
    """All times, and all rates, as somebody has written them."""

    def change(own: Any) -> None:
        for document in own.documents.values():
            for name in PASSES:
                both = document[name]
                both["time(s)"] = times(both["time(s)"])
                both["FLOPS(TFLOPs/s)"] = (rates or times)(both["FLOPS(TFLOPs/s)"])

    return change


def memory(change: Change) -> Callable[[Any], None]:
    """All peak memory as somebody has written it."""

    def alter(own: Any) -> None:
        for document in own.documents.values():
            document[MEMORY] = change(document[MEMORY])

    return alter


def single(value: float) -> float:
    """A number as float32 holds it."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def single_everywhere(own: Any) -> None:
    rounded(single)(own)
    memory(single)(own)


def workspaces(mib: float) -> Callable[[Any], None]:
    """A setting that all files share."""

    def alter(own: Any) -> None:
        for name, run in own.runs.items():
            if run.implementation == "Pytorch":
                held = costs.naive_peak_memory(Shape.of(run), workspaces=int(mib * costs.MIB))
                own.documents[name][MEMORY] = held / costs.MIB

    return alter


def two_gpus_and_a_setting(own: Any) -> None:
    """Some files of another GPU, whose workspace a setting has changed, declared as such."""
    for i, (name, run) in enumerate(own.runs.items()):
        if i % 2:
            own.rows[name][-1] = "NVIDIA H100 80GB HBM3"
            if run.implementation == "Pytorch":
                bytes_ = costs.naive_peak_memory(Shape.of(run), workspaces=8 * costs.MIB)
                own.documents[name][MEMORY] = bytes_ / costs.MIB


def a_row_twice(own: Any) -> None:
    own.rows["again"] = list(next(iter(own.rows.values())))


def yes_and_no(own: Any) -> None:
    for row in own.rows.values():
        row[6] = {"true": "Yes", "false": "no"}[row[6]]


def keep(value: float) -> float:
    return value


ODD: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "memory to two decimals": (memory(lambda x: round(x, 2)), {"identity.rounded_memory"}),
    "memory to six digits": (memory(lambda x: float(f"{x:.6g}")), {"identity.rounded_memory"}),
    "memory to whole MiB": (memory(round), {"identity.rounded_memory"}),
    "memory to a byte": (memory(lambda x: round(x, 6)), {"identity.rounded_memory"}),
    "times to six decimals": (rounded(lambda x: round(x, 6), keep), {"arithmetic.rounded"}),
    "rates to four digits": (rounded(keep, lambda x: float(f"{x:.4g}")), {"arithmetic.rounded"}),
    "float32": (single_everywhere, {"arithmetic.rounded"}),
    "two GPUs": (two_gpus_and_a_setting, {"identity.workspace_unusual"}),
    **{
        f"workspaces of {mib} MiB": (workspaces(mib), {"identity.workspace_unusual"})
        for mib in (0, 8, 48)
    },
    "a row twice": (a_row_twice, set()),
    "yes and no": (yes_and_no, set()),
}


@pytest.mark.parametrize("odd", ODD)
def test_honest_but_odd_files_fail_nothing(odd: str, sound: Any) -> None:
    change, noted = ODD[odd]
    change(sound)
    found = sound.graded()
    assert found.alarms() == []
    assert notes(found) == noted
    assert found.of("ann")["identity"] == "pass"


@pytest.mark.parametrize(
    ("encoding", "note"), [("utf-16", "form.csv_encoding"), ("cp950", "form.csv_encoding")]
)
def test_other_encodings_are_read(encoding: str, note: str, sound: Any, tmp_path: Path) -> None:
    """As PowerShell and a spreadsheet in Taiwan write them."""
    sound.name_device("實驗室 H200")
    folder = sound.write(tmp_path / "ann")
    for path in folder.iterdir():
        path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    found = graded(tmp_path)
    assert found.alarms() == []
    assert notes(found) == {note}
    assert found.grades.summaries[0].device == "實驗室 H200"


def test_an_encoding_that_nobody_can_read_accuses_nobody(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "ann")
    folder.joinpath(sound.file(FLASH)).write_bytes(b"\xff{}")
    folder.joinpath("runs.csv").write_bytes(b"\xff\xff")
    found = graded(tmp_path)
    assert [(line.verdict, line.code) for line in found.alarms()] == [("warn", "form.not_utf8")] * 2


def test_a_result_that_is_there_twice_counts_once(sound: Any, tmp_path: Path) -> None:
    """A backup of a record is not the noise of another one; another measurement is no backup."""
    folder = sound.write(tmp_path / "ann")
    folder.joinpath("backup").mkdir()
    copied = folder.joinpath("backup", sound.file(FLASH))
    copied.write_text(folder.joinpath(sound.file(FLASH)).read_text())
    found = graded(tmp_path)
    assert found.alarms() == []
    assert notes(found) == {"form.double"}
    assert found.grades.summaries[0].files == 36
    copied.write_text(json.dumps(measured_again(sound, 1).document(FLASH)))
    assert graded(tmp_path).grades.summaries[0].files == 37


def test_rounded_numbers_of_another_run_still_fail(sound: Any) -> None:
    document = sound.document(FLASH)
    for name in PASSES:
        document[name] = {key: round(value, 6) for key, value in document[name].items()}
    sound.rows[sound.file(FLASH)][3] = "1024"
    document = sound.document(NAIVE)
    for name in PASSES:
        document[name] = {key: round(value, 6) for key, value in document[name].items()}
    document["backward"]["FLOPS(TFLOPs/s)"] = round(
        document["backward"]["FLOPS(TFLOPs/s)"] * 1.05, 6
    )
    assert sound.graded().fails() == {
        ("identity", sound.file(FLASH)): "identity.flops",
        ("arithmetic", sound.file(NAIVE)): "arithmetic.flops",
    }


def test_another_gpus_workspace_is_asked_about_and_a_mixture_fails(
    sound: Any, tmp_path: Path
) -> None:
    naive = [name for name, run in sound.runs.items() if run.implementation == "Pytorch"]
    for name in naive:
        sound.documents[name][MEMORY] += 16.25 - 64
    sound.write(tmp_path / "all" / "ann")
    assert [line.code for line in graded(tmp_path / "all").alarms()] == [
        "identity.workspace_of_another"
    ]
    for name in naive[::2]:
        sound.documents[name][MEMORY] -= 16.25 - 64
    sound.write(tmp_path / "half" / "ann")
    assert set(graded(tmp_path / "half").fails().values()) == {"identity.workspace"}


def test_disturbed_times_of_honest_submissions_fail_nothing(sound: Any, tmp_path: Path) -> None:
    """One time in fifty takes three times as long."""
    for seed in range(20):
        own = measured_again(sound, seed)
        factors = random.Random(7 + seed).choices((3.0, 1.0), (0.02, 0.98), k=100)
        own = own.measured(iter(factors).__next__)
        own.write(tmp_path / f"s{seed:02}")
    found = graded(tmp_path)
    assert found.fails() == {}
    assert {line.check for line in found.lines("warn")} == {"plausibility"}


# What was not checked


def test_one_checked_file_of_many_is_no_pass_and_earns_no_badge(sound: Any) -> None:
    sound.without_names()
    sound.rows = {name: row for name, row in sound.rows.items() if name == "00.json"}
    found = sound.graded()
    assert found.of("ann")["identity"] == "not_checked"
    (summary,) = found.grades.summaries
    assert summary.checked["identity"] == (1, 36)
    assert found.badges("ann") == ()


# Other files


def test_what_tools_leave_is_no_fault(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "ann")
    folder.joinpath(".DS_Store").write_bytes(b"\0\1")
    folder.joinpath("package.json").write_text('{"name": "lab5", "version": "1.0.0"}')
    folder.joinpath("plot.ipynb").write_text('{"forward": 1, "cells": []}')
    folder.joinpath("__MACOSX").mkdir()
    folder.joinpath("__MACOSX", "._a.json").write_bytes(b"\0")
    tmp_path.joinpath("__MACOSX").mkdir()
    found = graded(tmp_path)
    assert found.alarms() == []
    assert notes(found) == {"form.not_a_result"}
    assert found.badges("ann") == ("available", "functional")
    folder.joinpath("runs.csv").open("a").write("package.json,Flash2,16,128,32,2048,false,\n")
    assert graded(tmp_path).fails() == {("form", "package.json"): "form.not_a_result"}


# The class's device


def test_another_device_than_the_classs_is_not_taken_in_silence(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "ann")
    found = graded(tmp_path, "NVIDIA GeForce RTX 3070")
    assert [line.code for line in found.alarms()] == ["form.other_device"]
    assert graded(tmp_path, "H200").alarms() == []
