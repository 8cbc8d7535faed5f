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
from planted.course import memory_of, result_of, row_of, write_rows
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


@pytest.mark.parametrize("scheme", ["all sizes", "in the order of the flags"])
@pytest.mark.parametrize("happening", ["nothing", "missing", "rounded", "gridded", "heads alone"])
def test_names_that_tell_the_run_leave_nothing_to_ask(
    tmp_path: Path, scheme: str, happening: str
) -> None:
    plant = planted(random.Random(1), happening, scheme)
    folder = write(tmp_path, plant.documents)
    assert runs(folder) == {name: plant.truth[name] for name in plant.documents}


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


@pytest.mark.parametrize("missing", FILES)
def test_one_missing_file_changes_no_other(tmp_path: Path, missing: str) -> None:
    kept = {name: one for name, one in FILES.items() if name != missing}
    assert runs(write(tmp_path, documents(kept))) == truth(kept)


def test_two_exchanged_names_of_a_pair_are_dropped_and_said(tmp_path: Path) -> None:
    files = documents(FILES)
    one, other = short(STUDENTS[0]), short(STUDENTS[1])
    files[one], files[other] = files[other], files[one]
    entries, notices = import_plan(write(tmp_path, files), KNOWN)
    found = runs_of(entries)
    assert (found[one][0], found[other][0]) == (FLASH2, NAIVE)
    assert any(f"{one}: Its name seems to say {NAIVE}" in notice for notice in notices)


def test_of_a_size_in_a_name_that_the_numbers_exclude_nothing_is_concluded(tmp_path: Path) -> None:
    files = documents(FILES)
    files["benchmark_result_bs24_fl2.json"] = files.pop("benchmark_result_bs16_fl2.json")
    question = asked(write(tmp_path, files))
    assert "which runs benchmark_result_bs24_fl2.json are" in str(question)
    assert question.table and "bs24_fl2.json,?,?,?,?,?,?," in question.table


def test_flash2_with_and_without_a_mask_are_asked_about_where_both_are_possible(
    tmp_path: Path,
) -> None:
    """N 256 without a mask at B 32 is N 512 with one at B 16, to the last bit."""
    full, causal = Shape(32, 256, 32, 2048, False), Shape(16, 512, 32, 2048, True)
    files = {
        f"{i}.json": result_of(FLASH2, s, 1e-3 + i / 1e5, 2e-3)
        for i, s in enumerate((full, causal))
    }
    true = {"0.json": (FLASH2, full), "1.json": (FLASH2, causal)}
    folder = write(tmp_path, files)
    question = asked(folder)
    assert question.table and "0.json,Flash2,?,?,?,?,?," in question.table
    write_rows(folder, completed(question.table, true))
    assert runs(folder) == true


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


# The shapes of two published folders


def test_names_of_bare_numbers_are_in_the_order_of_the_flags(tmp_path: Path) -> None:
    """27 files: sweeps of B, of E, and of H with d = 64; the naive one as far as memory goes."""
    point = Shape(32, 1024, 32, 2048, True)
    points = [("batch_size", replace(point, batch_size=b)) for b in (1, 2, 4, 8, 16, 32)]
    points += [("emb_dims", replace(point, emb_dim=e)) for e in (512, 1024, 2048, 4096)]
    points += [
        ("head_dim_64", replace(point, num_heads=h, emb_dim=64 * h)) for h in (4, 8, 16, 32, 64)
    ]
    gone = [("batch_size", 32), ("head_dim_64", 32), ("head_dim_64", 64)]
    files = {
        f"{one.swept}/{one.implementation}_{'_'.join(map(str, one.sizes))}_true.json": one
        for one in measured(points)
        if one.implementation == FLASH2
        or (one.swept, one.sizes[2 if one.swept == "head_dim_64" else 0]) not in gone
    }
    assert len(files) == 27
    folder = write(tmp_path, documents(files))
    assert runs(folder) == truth(files)
    assert swept(folder) == {
        "batch_size": {**point.parameters, "batch_size": [1, 2, 4, 8, 16, 32]},
        "num_heads": {
            **point.parameters, "num_heads": [4, 8, 16, 32, 64],
            "emb_dim": [256, 512, 1024, 2048, 4096],
        },
        "emb_dim": {**point.parameters, "emb_dim": [512, 1024, 2048, 4096]},
    }  # fmt: skip


def test_another_order_of_numbers_counts_if_one_run_alone_comes_of_it(tmp_path: Path) -> None:
    shape = Shape(8, 768, 12, 768, False)
    files = {"Flash2_12_768_768_8.json": result_of(FLASH2, shape, 1e-3, 2e-3)}
    assert runs(write(tmp_path, files)) == {"Flash2_12_768_768_8.json": (FLASH2, shape)}


def test_numbers_of_a_name_that_no_order_fits_are_asked_about(tmp_path: Path) -> None:
    files = documents(FILES)
    files["Flash2_32_1024_4_256_true.json"] = STUDENTS[1].document
    question = asked(write(tmp_path, files))
    assert question.table and "Flash2_32_1024_4_256_true.json,?,?,?,?,?,?," in question.table


def test_a_date_in_a_name_says_nothing_of_its_run(tmp_path: Path) -> None:
    files = {
        f"2024-11-05-{i:02}-30-00_{name}": each for i, (name, each) in enumerate(FILES.items())
    }
    assert runs(write(tmp_path, documents(files))) == truth(files)


def gridded() -> dict[str, Measured]:
    quarters = {"batch_size": (2, 4), "seq_len": (1, 2, 4), "num_heads": (2, 4)}
    both = [
        one
        for causal in (True, False)
        for embedding in (1024, 2048)
        for one in grid(Shape(64, 2048, 32, embedding, causal), quarters)
    ]
    files = {SCHEMES["all sizes"](0, one).replace(
        "_0.json", f"_{'causal' if one.shape.causal else 'full'}.json"
    ): one for one in both}  # fmt: skip
    return {n: one for n, one in files.items() if not (NAIVE in one.option and "s2048_h16" in n)}


def test_every_run_of_a_grid_is_kept_and_out_of_memory_is_a_result(tmp_path: Path) -> None:
    """84 files' runs and four that a row says ran out of memory."""
    files = gridded()
    gone = [n for n, one in files.items() if one.option[0] == NAIVE and "b64_s2048_h32" in n][:4]
    failed = [files.pop(name) for name in gone]
    assert len(files) == 84 and len(failed) == 4
    folder = write(tmp_path, documents(files))
    write_rows(folder, [row_of("oom", *one.option, "Tesla T4") for one in failed])
    entries, _ = import_plan(folder, KNOWN)
    out = runs_of([e for e in entries if e["status"] == "oom"])
    assert (len(entries), all(entry["file"] for entry in entries)) == (88, True)
    assert out.keys() == {f"runs.csv/{line}" for line in range(2, 6)}
    assert {*out.values()} == {one.option for one in failed}
    assert len(swept(folder)["seq_len"]["seq_len"]) == 3


def test_an_experiment_has_two_points_or_is_none(tmp_path: Path) -> None:
    shapes = [replace(BASE, num_heads=h, emb_dim=64 * h) for h in (4, 8, 16)]
    files = {SCHEMES["all sizes"](i, one): one
             for i, one in enumerate(measured([("num_heads", s) for s in shapes]))}  # fmt: skip
    assert swept(write(tmp_path, documents(files))) == {
        "num_heads": {**BASE.parameters, "num_heads": [4, 8, 16], "emb_dim": [256, 512, 1024]}
    }


# Devices and kinds


def test_equal_numbers_are_one_measurement(tmp_path: Path) -> None:
    again = {f"copy of {name}": document for name, document in documents(FILES).items()}
    entries, _ = import_plan(write(tmp_path, documents(FILES) | again), KNOWN)
    doubles = [r for e in entries for r in e["remarks"] if r["code"] == "form.double"]
    assert len(entries) == len(doubles) == len(STUDENTS)


@pytest.mark.parametrize("workspaces", [2**26, 12345 * 512, 0])  # as on Hopper
def test_naive_files_show_the_workspaces_of_their_gpu_or_of_a_setting(
    tmp_path: Path, workspaces: int
) -> None:
    files = {SCHEMES["all sizes"](i, one): one for i, one in enumerate(STUDENTS)}
    whole = {name.replace(".json", "_causal.json"): one for name, one in files.items()}
    planted_there = documents(whole)
    for name, one in whole.items():
        if one.implementation == NAIVE:
            mib = memory_of(NAIVE, one.shape, workspaces)
            planted_there[name]["peak_memory_usage(MB)"] = mib
    assert runs(write(tmp_path, planted_there)) == truth(whole)


def test_flash1_is_left_out_and_said(tmp_path: Path) -> None:
    one = next(one for one in STUDENTS if one.implementation == FLASH2)
    files = documents(FILES) | {"bs16_flash1.json": one.document}
    entries, notices = import_plan(write(tmp_path, files), KNOWN)
    assert len(entries) == len(STUDENTS)
    assert any("bs16_flash1.json: It is of Flash1" in notice for notice in notices)
    remarks = {(r["file"], r["code"]) for entry in entries for r in entry["remarks"]}
    assert ("bs16_flash1.json", "form.unknown_kernel") in remarks


def test_results_of_several_kinds_are_refused_by_name(tmp_path: Path) -> None:
    shape = Shape(1, 128, 2, 64, False)
    run = attention_run(NAIVE, shape, "float32", "cpu")
    record = record_of(run, forward=[1e-3] * 3, backward=[2e-3] * 3)
    files = documents(FILES) | {"a.json": record.to_json()}
    with pytest.raises(FolderError, match=r"a\.json is float32 on cpu.*is float16 on cuda"):
        import_plan(write(tmp_path, files), KNOWN)
