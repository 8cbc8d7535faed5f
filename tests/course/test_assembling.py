"""A folder's files come back as the runs they were, or something is asked: none is ever guessed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted.course import memory_of, result_of, row_of, write_rows

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.assembling import FolderError, FoundRun, OpenFolderError, assemble
from flashlab.course.files import Budget, files_in
from flashlab.course.folder import read_folder
from flashlab.course.words import FLASH2, NAIVE, SIZES

BASE = Shape(32, 512, 32, 2048, True)
SHORT = {"batch_size": "bs", "seq_len": "sl", "num_heads": "nh", "emb_dim": "ed"}
BY = {NAIVE: "pth", FLASH2: "fl2"}
HOPPER = 67108864


@dataclass(frozen=True)
class Measured:
    """A file that a student has made: which parameter was swept, the run, and its seconds."""

    swept: str
    implementation: str
    shape: Shape
    forward: float

    @property
    def value(self) -> int:
        return int(getattr(self.shape, self.swept))

    @property
    def document(self) -> dict[str, Any]:
        return result_of(self.implementation, self.shape, self.forward, 2.6 * self.forward)


def lab(base: Shape, swept: Mapping[str, tuple[int, ...]]) -> list[Measured]:
    """Both implementations along each sweep; the base point in each of them, timed anew."""
    found = []
    for name, factors in swept.items():
        for factor in factors:
            sizes = {**asdict(base), name: getattr(base, name) * factor // 4}
            shape = Shape(**sizes)
            for implementation, rate in ((NAIVE, 3e12), (FLASH2, 2e13)):
                seconds = costs.forward_flops(shape) / rate * (1 + len(found) / 1000)
                found.append(Measured(name, implementation, shape, seconds))
    return found


STUDENTS = lab(
    BASE, dict.fromkeys(SIZES, (2, 4, 8)) | dict.fromkeys(("seq_len", "emb_dim"), (1, 2, 4))
)
"""As a student hands in: four sweeps of three values, with the base point measured in each."""


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    for name, document in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = document if isinstance(document, str) else json.dumps(document)
        path.write_text(text, encoding="utf-8")
    return folder


def read(folder: Path, device: str | None = None) -> list[FoundRun]:
    return assemble(read_folder(files_in(str(folder), Budget())), (NAIVE, FLASH2), device)[0]


def runs(found: list[FoundRun]) -> dict[str, tuple[str, Shape]]:
    return {each.file: (each.run.implementation, Shape.of(each.run)) for each in found}


def short(one: Measured) -> str:
    return f"benchmark_result_{SHORT[one.swept]}{one.value}_{BY[one.implementation]}.json"


# Any lab, by any names

SCHEMES: dict[str, Callable[[int, Measured], str]] = {
    "the swept one": lambda _, one: short(one),
    "all sizes": lambda i, one: (
        f"b{one.shape.batch_size}_s{one.shape.seq_len}_h{one.shape.num_heads}_"
        f"e{one.shape.emb_dim}_{one.implementation.lower()}_{i}.json"
    ),
    "a folder a sweep": lambda _, one: f"{one.swept}/{one.value}_{BY[one.implementation]}.json",
    "flags": lambda _, one: f"--{one.swept}={one.value} --impl={one.implementation}.json",
    "a folder an implementation": lambda _, one: (
        f"{one.implementation}/{one.swept}{one.value}.json"
    ),
    "numbers alone": lambda i, _: f"result{i}.json",
}

powers = st.integers(3, 6).map(lambda exponent: 2**exponent)
bases = st.builds(
    lambda b, n, h, d, causal: Shape(b, n, h, h * d, causal),
    *(powers, st.sampled_from([512, 1024])),
    *(powers, st.sampled_from([32, 64]), st.booleans()),
)
sweeps = st.fixed_dictionaries(
    {"batch_size": st.just((2, 4, 8)), "num_heads": st.just((2, 4, 8))},
    optional={"seq_len": st.just((2, 4, 8)), "emb_dim": st.just((2, 4, 8))},
)


def completed(table: str, truth: Mapping[str, tuple[str, Shape]]) -> list[list[str]]:
    """The rows that were asked for, with each open cell filled in; what is stated must be true."""
    rows = []
    for row in csv.DictReader(io.StringIO(table)):
        implementation, shape = truth[row["file"]]
        true = row_of(row["file"], implementation, shape, "")
        for cell, right in zip(row.values(), true, strict=True):
            assert cell in ("?", right)
        rows.append(true)
    return rows


@given(bases, sweeps, st.sampled_from(sorted(SCHEMES)))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_files_of_any_lab_by_any_names_come_back_as_the_runs_they_were(
    tmp_path_factory: pytest.TempPathFactory, base: Shape, swept: Any, scheme: str
) -> None:
    folder = tmp_path_factory.mktemp("lab")
    measured = {SCHEMES[scheme](i, one): one for i, one in enumerate(lab(base, swept))}
    write(folder, {name: one.document for name, one in measured.items()})
    truth = {name: (one.implementation, one.shape) for name, one in measured.items()}
    try:
        found = read(folder)
    except OpenFolderError as question:
        assert scheme == "numbers alone"
        write_rows(folder, completed(question.table, truth))
        found = read(folder)
    if scheme == "numbers alone" and runs(found) != truth:
        # Nothing says how B·H splits: it is taken as the script's defaults have it, and said.
        assert any(remark.code == "form.assumed" for each in found for remark in each.remarks)
        for name, (implementation, shape) in runs(found).items():
            assert implementation == truth[name][0]
            assert costs.forward_flops(shape) == costs.forward_flops(truth[name][1])
            assert memory_of(implementation, shape) == memory_of(*truth[name])
    else:
        assert runs(found) == truth


# Ten folders


def test_a_students_sweeps_are_runs_and_the_base_point_is_measured_four_times(
    tmp_path: Path,
) -> None:
    """24 files of four sweeps, by their usual names: 18 runs."""
    found = read(write(tmp_path, {short(one): one.document for one in STUDENTS}))
    assert runs(found) == {short(one): (one.implementation, one.shape) for one in STUDENTS}
    of_base = [each for each in found if Shape.of(each.run) == BASE]
    assert len(of_base) == 8 and len({each.run for each in found}) == 18
    assert {each.device_name for each in found} == {"NVIDIA GPU (compute capability 8.x)"}
    assert {remark.code for each in found for remark in each.remarks} == {"form.exact_memory"}


def test_equal_numbers_are_one_measurement(tmp_path: Path) -> None:
    files = {short(one): one.document for one in STUDENTS}
    again = {f"copy of {name}": document for name, document in files.items()}
    found = read(write(tmp_path, files | again))
    assert len(found) == len(STUDENTS)
    doubles = [r for each in found for r in each.remarks if r.code == "form.double"]
    assert len(doubles) == len(STUDENTS)


def test_a_name_that_the_numbers_rule_out_is_dropped_and_said(tmp_path: Path) -> None:
    """The two names of a pair are exchanged, and one states a batch that it was not."""
    files = {short(one): one.document for one in STUDENTS}
    one, other = short(STUDENTS[0]), short(STUDENTS[1])
    files[one], files[other] = files[other], files[one]
    found = {each.file: each for each in read(write(tmp_path, files))}
    assert found[one].run.implementation == FLASH2
    assert found[other].run.implementation == NAIVE
    said = {(r.code, r.params.get("named")) for r in found[one].remarks}
    assert ("form.name_refuted", NAIVE) in said


def test_a_row_that_the_numbers_rule_out_is_refused_with_both(tmp_path: Path) -> None:
    one = STUDENTS[0]
    folder = write(tmp_path, {"a.json": one.document})
    write_rows(folder, [row_of("a.json", FLASH2, one.shape, "")])
    with pytest.raises(FolderError, match=r"a\.json: runs\.csv says Flash2 B16 .*Pytorch B·H=512"):
        read(folder)


def lab5_record(implementation: str, shape: Shape, dtype: str, device: str) -> dict[str, Any]:
    """A part of the record that this project's lab5.py writes beside the numbers."""
    run = attention_run(implementation, shape, dtype, device).to_json()
    stated = {"device_name": "AMD EPYC (2 CPUs)"} if device == "cpu" else {}
    return {"status": "ok", "run": run, "environment": stated, "protocol": {"name": "lab5"}}


def test_a_row_that_contradicts_the_files_own_record_is_refused_with_both(tmp_path: Path) -> None:
    shape = Shape(1, 128, 2, 64, False)
    document = result_of(NAIVE, shape, 1e-3, 2e-3)
    document["record"] = lab5_record(NAIVE, shape, "float32", "cpu")
    folder = write(tmp_path, {"a.json": document})
    (found,) = read(folder)
    assert (found.run.dtype, found.run.device, found.device_name) == (
        *("float32", "cpu"), "AMD EPYC (2 CPUs)",
    )  # fmt: skip
    write_rows(folder, [row_of("a.json", FLASH2, shape, "")])
    with pytest.raises(
        FolderError, match=r"runs\.csv says Flash2 .*, but its own record says Pytorch"
    ):
        read(folder)
    write_rows(folder, [row_of("a.json", NAIVE, shape, "NVIDIA GeForce RTX 3070")])
    with pytest.raises(FolderError, match=r"RTX 3070, but its own record says .*AMD EPYC"):
        read(folder)


def test_results_of_several_kinds_are_refused_by_name(tmp_path: Path) -> None:
    shape = Shape(1, 128, 2, 64, False)
    document = result_of(NAIVE, shape, 1e-3, 2e-3)
    document["record"] = lab5_record(NAIVE, shape, "float32", "cpu")
    folder = write(
        tmp_path, {"a.json": document, SCHEMES["all sizes"](0, STUDENTS[0]): STUDENTS[0].document}
    )
    with pytest.raises(FolderError, match=r"a\.json is float32 on cpu.*is float16 on cuda"):
        read(folder)


def test_flash2_with_and_without_a_mask_are_asked_about_where_both_are_possible(
    tmp_path: Path,
) -> None:
    """N 256 without a mask at B 32 is N 512 with one at B 16, to the last bit."""
    full, causal = Shape(32, 256, 32, 2048, False), Shape(16, 512, 32, 2048, True)
    files = {
        f"{i}.json": result_of(FLASH2, s, 1e-3 + i / 1e5, 2e-3)
        for i, s in enumerate((full, causal))
    }
    truth = {"0.json": (FLASH2, full), "1.json": (FLASH2, causal)}
    folder = write(tmp_path, files)
    with pytest.raises(OpenFolderError, match=r"which runs 0\.json, 1\.json are") as asked:
        read(folder)
    assert "0.json,Flash2,?,?,?,?,?," in asked.value.table
    write_rows(folder, completed(asked.value.table, truth))
    assert runs(read(folder)) == truth


def test_a_naive_sweep_that_ends_early_is_asked_about(tmp_path: Path) -> None:
    longest = [one for one in STUDENTS if one.swept == "batch_size" and one.value == 64]
    files = {short(one): one.document for one in STUDENTS}
    del files[short(longest[0])]
    folder = write(tmp_path, files)
    with pytest.raises(OpenFolderError, match=r"Pytorch has no file for B64 .*write oom") as asked:
        read(folder)
    (row,) = [line for line in asked.value.table.splitlines() if line.startswith("?")]
    folder.joinpath("runs.csv").write_text(asked.value.table.replace("?,Pytorch", "oom,Pytorch"))
    (failed,) = [each for each in read(folder) if each.status == "oom"]
    assert (failed.run.implementation, Shape.of(failed.run)) == (NAIVE, longest[0].shape)
    folder.joinpath("runs.csv").write_text(asked.value.table.replace(row, ""))
    assert all(each.status == "ok" for each in read(folder))


def test_a_missing_file_is_a_gap(tmp_path: Path) -> None:
    kept = [one for one in STUDENTS if (one.swept, one.value) != ("seq_len", 128)]
    found = read(write(tmp_path, {short(one): one.document for one in kept}))
    assert runs(found) == {short(one): (one.implementation, one.shape) for one in kept}


def test_what_is_no_result_is_left_aside_and_a_damaged_one_refused(tmp_path: Path) -> None:
    files = {short(one): one.document for one in STUDENTS}
    others = {"package.json": {"name": "x"}, "notes.txt": "x", ".hidden.json": "{"}
    folder = write(tmp_path, files | others)
    assert len(read(folder)) == len(STUDENTS)
    write(folder, {"half.json": '{"forward": {"time(s)": 0.1'})
    with pytest.raises(FolderError, match=r"half\.json: .*Mend these files, or move them"):
        read(folder)


# Other layouts


def as_named(names: Mapping[str, str], document: Any) -> Any:
    """A document with some keys named otherwise."""
    if not isinstance(document, dict):
        return document
    return {names.get(key, key): as_named(names, value) for key, value in document.items()}


PAIR = [one for one in STUDENTS if one.swept == "batch_size"]
STATED = [{"impl": p.implementation, **asdict(p.shape), **p.document} for p in PAIR]


def in_ms(document: Any) -> Any:
    whole = json.loads(json.dumps(document))
    for measured in whole.values():
        if isinstance(measured, dict):
            measured["time(ms)"] = measured.pop("time(s)") * 1000
    return whole


def chinese_table() -> str:
    header = "實作,批次大小,序列長度,頭數,嵌入維度,因果"
    header += "".join(f",{each}時間(ms),{each}速率(TFLOPs/s)" for each in ("前向", "反向", "合計"))
    rows = [f"{header},峰值記憶體(MB)"]
    for one in PAIR:
        s, document = one.shape, one.document
        passes = [document[name] for name in ("forward", "backward", "forward_backward")]
        numbers = [f"{p['time(s)'] * 1000!r},{p['FLOPS(TFLOPs/s)']!r}" for p in passes]
        cells = [one.implementation, s.batch_size, s.seq_len, s.num_heads, s.emb_dim, "是"]
        rows.append(",".join([*map(str, cells), *numbers, repr(document["peak_memory_usage(MB)"])]))
    return "\n".join(rows) + "\n"


LAYOUTS: dict[str, dict[str, Any]] = {
    "a list with the parameters beside": {"results.json": STATED},
    "an object of results by name": {"all.json": {short(p): p.document for p in PAIR}},
    "FLOPs for FLOPS": {
        short(p): as_named({"FLOPS(TFLOPs/s)": "FLOPs(TFLOPs/s)"}, p.document) for p in PAIR
    },
    "milliseconds": {short(p): in_ms(p.document) for p in PAIR},
    "a table with Chinese headings": {"results.csv": chinese_table()},
    "a table in Big5": {"results.csv": chinese_table()},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_layouts_are_read(layout: str, tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS[layout])
    if "Big5" in layout:
        folder.joinpath("results.csv").write_bytes(chinese_table().encode("cp950"))
    found = read(folder)
    assert sorted(runs(found).values()) == sorted((p.implementation, p.shape) for p in PAIR)


def test_chinese_headings_of_runs_csv_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"{i}.json": p.document for i, p in enumerate(PAIR)})
    rows = ["檔名,實作,批次大小,頭數,因果,顯示卡"]
    rows += [
        f"{i}.json,{p.implementation},{p.shape.batch_size},{p.shape.num_heads},是,Tesla T4"
        for i, p in enumerate(PAIR)
    ]
    write(folder, {"runs.csv": "\n".join(rows)})
    found = read(folder)
    assert sorted(runs(found).values()) == sorted((p.implementation, p.shape) for p in PAIR)
    assert {each.device_name for each in found} == {"Tesla T4"}


def test_files_of_a_t4_are_those_of_the_naive_implementation_alone(tmp_path: Path) -> None:
    naive = [p for p in STUDENTS if p.implementation == NAIVE]
    found = read(write(tmp_path, {short(p): p.document for p in naive}))
    assert {each.device_name for each in found} == {"NVIDIA GPU (compute capability 7.x–8.x)"}
    assert {each.device_name for each in read(tmp_path, "Tesla T4")} == {"Tesla T4"}


def test_flash1_is_left_out_and_said(tmp_path: Path) -> None:
    files = {short(p): p.document for p in PAIR}
    files |= {short(p).replace("fl2", "flash1"): p.document for p in PAIR[1::2]}
    folder = read_folder(files_in(str(write(tmp_path, files)), Budget()))
    found, remarks = assemble(folder, (NAIVE, FLASH2))
    assert len(found) == len(PAIR)
    assert {r.params["kernel"] for r in remarks if r.code == "form.unknown_kernel"} == {"Flash1"}


def test_a_hopper_is_told_by_its_workspaces(tmp_path: Path) -> None:
    files = {short(p): p.document for p in STUDENTS}
    for p in STUDENTS:
        if p.implementation == NAIVE:
            files[short(p)]["peak_memory_usage(MB)"] = memory_of(NAIVE, p.shape, HOPPER)
    found = read(write(tmp_path, files))
    assert {each.device_name for each in found} == {"NVIDIA GPU (compute capability 9.0)"}
