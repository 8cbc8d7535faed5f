"""A folder's files come back as the runs they were, or something is asked: none is ever guessed."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from planted.course import result_of, row_of, write, write_rows
from planted.folders import KNOWN, Measured, grid, lab, of_heads, runs_of, six_digits
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError, OpenRunsError
from flashlab.lab5.words import NAIVE, SIZES
from flashlab.plan.importing import config_of

SHORT = {"batch_size": "bs", "seq_len": "sl", "num_heads": "nh", "emb_dim": "ed"}
BY = {NAIVE: "pth", "Flash2": "fl2"}


SCHEMES = {
    "the swept one": "benchmark_result_{short}{one.value}_{by}",
    "all sizes": "b{0}_s{1}_h{2}_e{3}_{one.implementation}_{i}",
    "a folder a sweep": "{one.swept}/{one.value}_{by}",
    "a folder an implementation": "{one.implementation}/{one.swept}{one.value}",
    "flags": "--{one.swept}={one.value} --impl={one.implementation}",
    "in the flags' order": "{one.swept}/{one.implementation}_{0}_{1}_{2}_{3}_{one.shape.causal}",
    "in another order": "{one.swept}/{one.implementation}_{1}_{0}_{2}_{3}_{one.shape.causal}",
    "numbers alone": "result{i}",
    "with a date": "2024-11-05-{i:02}-30-00_{short}{one.value}_{by}",
}


def named(scheme: str, files: Sequence[Measured]) -> dict[str, Measured]:
    """The files by their names in a scheme."""
    text, found = f"{SCHEMES[scheme]}.json", dict[str, Measured]()
    for i, one in enumerate(files):
        short, by = SHORT[one.swept], BY[one.implementation]
        found[text.format(*one.sizes, i=i, one=one, short=short, by=by)] = one
    return found


BASE = Shape(32, 512, 32, 2048, True)
STUDENTS = lab(
    BASE, dict.fromkeys(SIZES, (2, 4, 8)) | dict.fromkeys(("seq_len", "emb_dim"), (1, 2, 4))
)
"""As a student hands in: four sweeps of three values, with the base point measured in each."""
FILES = named("the swept one", STUDENTS)


def documents(files: Mapping[str, Measured]) -> dict[str, Any]:
    return {name: one.document for name, one in files.items()}


def swept(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The blocks of the experiments that a folder's runs make, by name."""
    every = [attention_run(*option, "float16", "cuda") for option in runs_of(entries).values()]
    experiments = config_of(every)["experiments"]
    return {each["use"]: each["cuda"] for each in experiments if "cuda" in each}


def planted(rng: random.Random, happening: str, scheme: str) -> tuple[dict[str, Any], Any]:
    """The documents of a random folder by their names, and the run that each is."""
    b, h = (2 ** rng.randint(3, 6) for _ in range(2))
    n, d = rng.choice([512, 768, 1024]), rng.choice([32, 64])
    base = Shape(b, n, h, h * d, rng.random() < 0.5)
    sweeps = {"batch_size": (2, 4, 8), "num_heads": (2, 4, 8)}
    sweeps |= {name: (2, 4, 8) for name in ("seq_len", "emb_dim") if rng.random() < 0.5}
    files = lab(base, sweeps)
    if happening == "gridded":
        files = grid(base, {name: sweeps[name] for name in rng.sample([*sweeps], 2)})
    if happening == "heads alone":
        files = [one for one in files if one.swept != "num_heads"]
        files += of_heads(base, (h // 4, h // 2, h, 2 * h))
    names = named(scheme, files)
    if happening == "missing":
        for name in rng.sample(sorted(names), 3):
            del names[name]
    if happening == "exchanged":
        one, other = rng.sample(sorted(names), 2)
        names[one], names[other] = names[other], names[one]
    handed = documents(names)
    if happening == "rounded":
        handed = {name: six_digits(each) for name, each in handed.items()}
    return handed, {name: one.option for name, one in names.items()}


@example(seed=0, scheme="a folder an implementation", happening="exchanged")
@example(seed=469, scheme="a folder a sweep", happening="rounded")
@example(seed=605, scheme="a folder a sweep", happening="rounded")
@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(SCHEMES)),
    st.sampled_from(["nothing", "missing", "exchanged", "rounded", "gridded", "heads alone"]),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_file_becomes_another_run_without_a_question_or_a_remark(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scheme: str, happening: str
) -> None:
    """What is asked of a file is true where its name is; once answered, each is what it was."""
    handed, true = planted(random.Random(seed), happening, scheme)
    folder = write(tmp_path_factory.mktemp("lab"), handed)
    said: set[str] = set()
    try:
        entries, _ = import_plan(folder, KNOWN)
        doubts = {"form.assumed", "form.name_refuted"}
        said = {e["file"] for e in entries if doubts & {r["code"] for r in e["remarks"]}}
    except OpenRunsError as question:
        rows = [*csv.reader(io.StringIO(question.table))][1:]
        right = [row_of(row[0], *true[row[0]], "") for row in rows]
        pairs = [x for pair in zip(rows, right, strict=True) for x in zip(*pair, strict=True)]
        assert happening == "exchanged" or all(cell in ("?", wanted) for cell, wanted in pairs)
        write_rows(folder, right)
        entries, _ = import_plan(folder, KNOWN)
    read = runs_of(entries)
    assert read.keys() == handed.keys()
    assert {name for name, option in read.items() if option != true[name]} <= said


def test_four_sweeps_are_runs_and_the_base_point_is_measured_in_each(tmp_path: Path) -> None:
    entries, notices = import_plan(write(tmp_path, documents(FILES)), KNOWN)
    assert runs_of(entries) == {name: one.option for name, one in FILES.items()}
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
    with pytest.raises(OpenRunsError, match=f"which runs {name}.json are") as question:
        import_plan(write(tmp_path, files), KNOWN)
    assert f"{name}.json,?,?,?,?,?,?," in str(question.value.table)
    rounded = six_digits(result_of("Flash2", Shape(4, 1024, 32, 2048, True), 0.00079, 0.00186))
    with pytest.raises(OpenRunsError):  # its numbers are those of too many runs with a mask
        import_plan(write(tmp_path / "b", {"Flash2_num_heads_32.json": rounded}), KNOWN)


def test_every_run_of_a_grid_is_kept_and_out_of_memory_is_a_result(tmp_path: Path) -> None:
    """18 runs, of which a row says that two ran out of memory."""
    of_grid = grid(BASE, {"batch_size": (1, 2, 4), "seq_len": (1, 2, 4)})
    folder = write(tmp_path, documents(dict([*named("all sizes", of_grid).items()][:-2])))
    write_rows(folder, [row_of("oom", *one.option, "Tesla T4") for one in of_grid[-2:]])
    entries, _ = import_plan(folder, KNOWN)
    out = runs_of([e for e in entries if e["status"] == "oom"])
    assert out == {f"runs.csv/{i}": one.option for i, one in enumerate(of_grid[-2:], start=2)}
    assert len(entries) == 18 and len(swept(entries)["seq_len"]["seq_len"]) == 3


def test_an_experiment_has_two_points_or_is_none(tmp_path: Path) -> None:
    files = named("all sizes", of_heads(BASE, (4, 8, 16)))
    entries, _ = import_plan(write(tmp_path, documents(files)), KNOWN)
    assert swept(entries) == {
        "num_heads": {**BASE.parameters, "num_heads": [4, 8, 16], "emb_dim": [256, 512, 1024]}
    }


def test_equal_numbers_are_one_measurement_and_flash1_is_left_out(tmp_path: Path) -> None:
    """Both are said."""
    again = {f"copy of {name}": document for name, document in documents(FILES).items()}
    flash1 = {"bs16_flash1.json": STUDENTS[1].document}
    entries, notices = import_plan(write(tmp_path, documents(FILES) | again | flash1), KNOWN)
    remarks = [(r["file"], r["code"]) for entry in entries for r in entry["remarks"]]
    told = [r["params"]["other"] for entry in entries for r in entry["remarks"] if "copy" in str(r)]
    doubles = [other for other in told if other in again]
    assert len(entries) == len(doubles) == len(STUDENTS)
    assert ("bs16_flash1.json", "form.unknown_kernel") in remarks
    assert any("bs16_flash1.json: It is of Flash1" in notice for notice in notices)


def test_results_of_several_kinds_are_refused_by_name(tmp_path: Path) -> None:
    record = record_of(attention_run(NAIVE, Shape(1, 128, 2, 64, False), "float32", "cpu"))
    files = documents(FILES) | {"a.json": record.to_json()}
    with pytest.raises(FolderError, match=r"a\.json is float32 on cpu.*is float16 on cuda"):
        import_plan(write(tmp_path, files), KNOWN)


def test_results_of_two_gpus_are_refused_whatever_the_user_says(tmp_path: Path) -> None:
    folder = write(tmp_path, documents(FILES))
    of = [*FILES.items()][:3]
    rows = [row_of(name, *one.option, "Tesla T4") for name, one in of]
    write_rows(folder, [[*rows[0][:-1], "T4"], *rows[1:]])  # by two of its names
    named = [import_plan(folder, KNOWN, name)[0][0]["device_name"] for name in (None, "TESLA T4")]
    assert named == ["Tesla T4", "TESLA T4"]
    with pytest.raises(FolderError, match=r"--device is H200, .* is T4"):
        import_plan(folder, KNOWN, "H200")
    write_rows(folder, [[*rows[0][:-1], "NVIDIA GeForce RTX 3070"], *rows[1:]])
    with pytest.raises(FolderError, match=rf"{of[0][0]} is RTX 3070.*is T4"):
        import_plan(folder, KNOWN)
