"""A folder's files come back as the runs they were, or something is asked: none is ever guessed."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from planted.course import result_of, row_of, write_rows
from planted.folders import (
    HAPPENINGS,
    KNOWN,
    SCHEMES,
    Measured,
    Option,
    grid,
    lab,
    measured,
    planted,
    runs_of,
    silently_wrong,
    write,
)
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError, OpenRunsError
from flashlab.lab5.words import FLASH2, NAIVE, SIZES
from flashlab.plan.importing import config_of

BASE = Shape(32, 512, 32, 2048, True)
STUDENTS = lab(
    BASE, dict.fromkeys(SIZES, (2, 4, 8)) | dict.fromkeys(("seq_len", "emb_dim"), (1, 2, 4))
)
"""As a student hands in: four sweeps of three values, with the base point measured in each."""


short = partial(SCHEMES["the swept one"], 0)
FILES = {short(one): one for one in STUDENTS}


def documents(files: Mapping[str, Measured]) -> dict[str, Any]:
    return {name: one.document for name, one in files.items()}


def runs(folder: Path) -> dict[str, Option]:
    return runs_of(import_plan(folder, KNOWN)[0])


def truth(files: Mapping[str, Measured]) -> dict[str, Option]:
    return {name: one.option for name, one in files.items()}


def completed(table: str, true: Mapping[str, Option], names_lie: bool = False) -> list[list[str]]:
    """The rows that were asked for, all filled in; what they state must be true if names are."""
    rows = []
    for row in csv.DictReader(io.StringIO(table)):
        right = row_of(row["file"], *true[row["file"]], "")
        for cell, wanted in zip(row.values(), right, strict=True):
            assert names_lie or cell in ("?", wanted)
        rows.append(right)
    return rows


def asked(folder: Path) -> OpenRunsError:
    with pytest.raises(OpenRunsError) as question:
        import_plan(folder, KNOWN)
    return question.value


def swept(folder: Path) -> dict[str, Any]:
    """The blocks of the experiments that a folder's runs make, by name."""
    every = [attention_run(*option, "float16", "cuda") for option in runs(folder).values()]
    experiments = config_of(every)["experiments"]
    return {each["use"]: each["cuda"] for each in experiments if "cuda" in each}


# Any lab, by any names


@example(seed=0, scheme="a folder an implementation", happening="exchanged")
@given(st.integers(0, 10**6), st.sampled_from(sorted(SCHEMES)), st.sampled_from(HAPPENINGS))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_file_becomes_another_run_without_a_question_or_a_remark(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scheme: str, happening: str
) -> None:
    plant = planted(random.Random(seed), happening, scheme)
    folder = write(tmp_path_factory.mktemp("lab"), plant.documents)
    wrong = silently_wrong(folder, plant.truth)
    if isinstance(wrong, str):
        assert wrong == "asked"
        question = asked(folder)
        assert question.table is not None
        write_rows(folder, completed(question.table, plant.truth, happening == "exchanged"))
        assert runs(folder) == {name: plant.truth[name] for name in plant.documents}
    else:
        assert wrong == {}


# A student's sweeps


def test_a_students_sweeps_are_runs_and_the_base_point_is_measured_four_times(
    tmp_path: Path,
) -> None:
    """24 files of four sweeps, by their usual names: 18 runs."""
    entries, notices = import_plan(write(tmp_path, documents(FILES)), KNOWN)
    assert runs_of(entries) == truth(FILES)
    named, _ = import_plan(tmp_path, KNOWN, "Tesla T4")
    assert {e["device_name"] for e in entries + named} == {None, "Tesla T4"}
    assert sum(Shape.of(entry["run"]) == BASE for entry in entries) == 8
    assert len({entry["record"] for entry in entries}) == 24
    assert {r["code"] for entry in entries for r in entry["remarks"]} == {"form.exact_memory"}
    assert notices == []


@pytest.mark.parametrize("name", ["benchmark_result_bs24_fl2", "Flash2_32_1024_4_256_true"])
def test_of_sizes_in_a_name_that_the_numbers_exclude_nothing_is_concluded(
    tmp_path: Path, name: str
) -> None:
    files = documents(FILES)
    files[f"{name}.json"] = files.pop("benchmark_result_bs16_fl2.json")
    question = asked(write(tmp_path, files))
    assert f"which runs {name}.json are" in str(question)
    assert question.table and f"{name}.json,?,?,?,?,?,?," in question.table


def test_a_question_lists_five_files_and_a_count(tmp_path: Path) -> None:
    shapes = [Shape(12, 256 * n, 20, 1280, True) for n in range(1, 25)]  # no default of the script
    files = {f"{s.seq_len}.json": result_of(FLASH2, s, 1e-3, 2e-3) for s in shapes}
    assert " and 19 more are cannot be told" in str(asked(write(tmp_path, files)))


def test_how_heads_split_is_assumed_last_and_said(tmp_path: Path) -> None:
    points = [("seq_len", replace(BASE, seq_len=n)) for n in (256, 512, 1024)]
    files = {f"{i}_{one.implementation}_causal.json": one for i, one in enumerate(measured(points))}
    entries, notices = import_plan(write(tmp_path, documents(files)), KNOWN)
    assert runs_of(entries) == truth(files)
    assert all("form.assumed" in {r["code"] for r in entry["remarks"]} for entry in entries)
    assert "nearest to the defaults" in notices[0] and "and 1 more" in notices[0]


def test_another_order_of_numbers_counts_if_one_run_alone_comes_of_it(tmp_path: Path) -> None:
    shape = Shape(8, 768, 12, 768, False)
    files = {"Flash2_12_768_768_8.json": result_of(FLASH2, shape, 1e-3, 2e-3)}
    assert runs(write(tmp_path, files)) == {"Flash2_12_768_768_8.json": (FLASH2, shape)}


def test_a_date_in_a_name_says_nothing_of_its_run(tmp_path: Path) -> None:
    files = {
        f"2024-11-05-{i:02}-30-00_{name}": each for i, (name, each) in enumerate(FILES.items())
    }
    assert runs(write(tmp_path, documents(files))) == truth(files)


def test_every_run_of_a_grid_is_kept_and_out_of_memory_is_a_result(tmp_path: Path) -> None:
    """18 runs, of which a row says that two ran out of memory."""
    of_grid = grid(BASE, {"batch_size": (1, 2, 4), "seq_len": (1, 2, 4)})
    files = {SCHEMES["all sizes"](i, one): one for i, one in enumerate(of_grid)}
    folder = write(tmp_path, documents(dict([*files.items()][:-2])))
    write_rows(folder, [row_of("oom", *one.option, "Tesla T4") for one in of_grid[-2:]])
    entries, _ = import_plan(folder, KNOWN)
    out = runs_of([e for e in entries if e["status"] == "oom"])
    assert out == {f"runs.csv/{i}": one.option for i, one in enumerate(of_grid[-2:], start=2)}
    assert len(entries) == 18 and len(swept(folder)["seq_len"]["seq_len"]) == 3


def test_an_experiment_has_two_points_or_is_none(tmp_path: Path) -> None:
    shapes = [replace(BASE, num_heads=h, emb_dim=64 * h) for h in (4, 8, 16)]
    of_heads = measured([("num_heads", shape) for shape in shapes])
    files = {SCHEMES["all sizes"](i, one): one for i, one in enumerate(of_heads)}
    assert swept(write(tmp_path, documents(files))) == {
        "num_heads": {**BASE.parameters, "num_heads": [4, 8, 16], "emb_dim": [256, 512, 1024]}
    }


# Devices and kinds


def test_equal_numbers_are_one_measurement(tmp_path: Path) -> None:
    again = {f"copy of {name}": document for name, document in documents(FILES).items()}
    entries, _ = import_plan(write(tmp_path, documents(FILES) | again), KNOWN)
    doubles = [r for e in entries for r in e["remarks"] if r["code"] == "form.double"]
    assert len(entries) == len(doubles) == len(STUDENTS)


def test_flash1_is_left_out_and_said(tmp_path: Path) -> None:
    files = documents(FILES) | {"bs16_flash1.json": STUDENTS[1].document}
    entries, notices = import_plan(write(tmp_path, files), KNOWN)
    assert len(entries) == len(STUDENTS)
    assert any("bs16_flash1.json: It is of Flash1" in notice for notice in notices)
    remarks = {(r["file"], r["code"]) for entry in entries for r in entry["remarks"]}
    assert ("bs16_flash1.json", "form.unknown_kernel") in remarks


def test_results_of_several_kinds_are_refused_by_name(tmp_path: Path) -> None:
    run = attention_run(NAIVE, Shape(1, 128, 2, 64, False), "float32", "cpu")
    record = record_of(run, forward=[1e-3] * 3, backward=[2e-3] * 3)
    files = documents(FILES) | {"a.json": record.to_json()}
    with pytest.raises(FolderError, match=r"a\.json is float32 on cpu.*is float16 on cuda"):
        import_plan(write(tmp_path, files), KNOWN)
