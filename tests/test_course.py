"""Importing and grading read the course's files in one way: both accept them, or both refuse."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from planted.course import course_result, memory_of

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.words import PASSES
from flashlab.plan.datasets import DatasetError
from flashlab.plan.importing import import_plan, import_record
from flashlab.records import read_record
from flashlab.runs import Run
from flashlab_grading.arithmetic import check_arithmetic
from flashlab_grading.causes import sentence
from flashlab_grading.submissions import read_submission

HEADER = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device"
CELLS = ("a.json", "Flash2", "16", "128", "32", "2048", "false", "RTX 3070")
SHAPE = Shape(16, 128, 32, 2048, False)
KNOWN = ("Pytorch", "Flash2", "SdpaMath")


def full_digits(shape: Shape = SHAPE, implementation: str = "Flash2") -> dict[str, Any]:
    """A result whose numbers nobody has rounded."""
    return course_result(
        shape, 0.0070955159763495, 0.0141910319526991, memory_of(implementation, shape)
    )


RESULT = json.dumps(full_digits())
NAIVE_RESULT = json.dumps(full_digits(implementation="Pytorch"))


@dataclass(frozen=True)
class Read:
    """A folder as one of the two readers reads it: its refusals, or the declared run and numbers
    by file."""

    refused: tuple[str, ...]
    results: dict[str, tuple[Any, ...]]


def write_folder(folder: Path, table: str | bytes, result: str | bytes) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in (("runs.csv", table), ("a.json", result)):
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        folder.joinpath(name).write_bytes(raw)
    return folder


def read_for_import(folder: Path, output: Path) -> Read:
    try:
        results = {}
        for entry in import_plan(folder, KNOWN)[0]:
            output.unlink(missing_ok=True)
            import_record(entry, output)
            run = Run.of(ATTENTION, entry["run"])
            record = read_record(output, run)
            stated = record.top_level_keys()
            numbers = tuple(value for name in PASSES for value in stated[name].values())
            declared = (run.implementation, Shape.of(run), entry["device_name"] or "")
            results[entry["file"]] = (*declared, *numbers, stated["peak_memory_usage(MB)"])
        return Read((), results)
    except DatasetError as error:
        return Read((str(error),), {})


def read_for_grading(folder: Path) -> Read:
    submission = read_submission(str(folder.parent), folder.name, None)
    refused = [sentence(line, "en", str) for line in submission.lines if line.verdict != "pass"]
    results = {}
    for result in submission.results:
        if check_arithmetic(result, submission.samples[result.name]).verdict != "pass":
            refused.append("arithmetic")
        said, numbers = result.declaration, result.numbers
        pairs = [(numbers.seconds[name], numbers.rates[name]) for name in PASSES]
        results[result.name] = (
            *(said.implementation, said.shape, said.device_name or ""),
            *(number for pair in pairs for number in pair),
            numbers.peak_mib,
        )
    return Read(tuple(refused), results)


def read_by_both(folder: Path) -> tuple[Read, Read]:
    output = folder.parent.parent / "record.json"
    return read_for_import(folder, output), read_for_grading(folder)


def row(**changed: str) -> str:
    """A row of runs.csv with some cells changed."""
    names = HEADER.split(",")
    return ",".join(changed.get(name, cell) for name, cell in zip(names, CELLS, strict=True))


def table(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


ACCEPTED = {
    "as the course's": (table(row()), RESULT),
    "spaces around a cell": (table(row(causal=" False ", file=" a.json ")), RESULT),
    "spaces in the header": (table(row(), header=HEADER.replace(",", " , ")), RESULT),
    "another word for the implementation": (table(row(impl="fa2")), RESULT),
    "torch for the naive implementation": (table(row(impl="torch")), NAIVE_RESULT),
    "a backslash": (table(row(file=".\\a.json")), RESULT),
    "blank lines": (table(row(), "", ",,,,,,,"), RESULT),
    "a mark of the byte order": ("\ufeff" + table(row()), "\ufeff" + RESULT),
    "causal as a digit": (table(row(causal="0")), RESULT),
    "no device": (table(row(device="")), RESULT),
    "capitals in the header": (table(row(), header=HEADER.title()), RESULT),
    "semicolons": (table(row(), header=HEADER).replace(",", ";"), RESULT),
    "tabs": (table(row(), header=HEADER).replace(",", "\t"), RESULT),
    "sizes with a decimal point": (table(row(batch_size="16.0", seq_len="128.00")), RESULT),
    "two megabytes": (table(row()), RESULT + " " * 2**21),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_both_accept_and_read_the_same(tmp_path: Path, case: str) -> None:
    folder = write_folder(tmp_path / "class" / "ann", *ACCEPTED[case])
    imported, graded = read_by_both(folder)
    assert imported.refused == graded.refused == ()
    assert imported.results == graded.results
    name = "Pytorch" if case == "torch for the naive implementation" else "Flash2"
    assert imported.results["a.json"][:2] == (name, SHAPE)


def with_number(text: str) -> str:
    return RESULT.replace(repr(memory_of("Flash2", SHAPE)), text)


REFUSED_TABLES: dict[str, str | bytes] = {
    "no UTF-8": b"\xff" + table(row()).encode(),
    "a NUL": table(row(file="a\0.json")),
    "no column of files": table(row(), header=HEADER.replace("file", "path")),
    "nothing declared": "file,note\na.json,mine\n",
    "a column twice": table(row(), header=HEADER.replace("device", "impl")),
    "too few fields": table("a.json,Flash2,16"),
    "too many fields": table(row() + ",more"),
    "a word for a size": table(row(seq_len="many")),
    "a fraction": table(row(seq_len="128.5")),
    "a sign": table(row(seq_len="+128")),
    "an underscore": table(row(seq_len="1_28")),
    "another script's digits": table(row(batch_size="١٦")),
    "zero": table(row(num_heads="0")),
    "too many digits": table(row(seq_len="9" * 5000)),
    "heads that do not divide": table(row(emb_dim="2047")),
    "no mask": table(row(causal="perhaps")),
    "a file above": table(row(file="../a.json")),
    "an absolute file": table(row(file="/a.json")),
    "a hidden file": table(row(file=".a.json")),
    "no file": table(row(file="")),
    "the folder": table(row(file=".")),
    "a file that is not there": table(row(file="b.json")),
}
REFUSED_RESULTS: dict[str, str | bytes] = {
    "no JSON": "time: 3",
    "nothing": "",
    "no UTF-8": b"\xff\xfe{}",
    "nested": "[" * 100_000,
    "a list": "[]",
    "a key lacks": RESULT.replace('"backward"', '"sideways"'),
    "a key twice": RESULT.replace('"forward": {', '"forward": {}, "forward": {'),
    "a pass that is no object": RESULT.replace('"forward": {', '"forward": 1, "x": {'),
    "text": with_number('"1288.5"'),
    "true": with_number("true"),
    "null": with_number("null"),
    "NaN": with_number("NaN"),
    "an overflow": with_number("1e999"),
    "40 digits and more": with_number("1" + "0" * 400),
    "zero": with_number("0"),
    "a negative": with_number("-1"),
    "bytes for MiB": with_number("1350566912"),
    "five megabytes": RESULT + " " * 5 * 2**20,
    "a record of no run": RESULT[:-1] + ', "record": {"run": {}}}',
}


REFUSED = {
    **{f"runs.csv: {name}": (text, RESULT) for name, text in REFUSED_TABLES.items()},
    **{f"a.json: {name}": (table(row()), text) for name, text in REFUSED_RESULTS.items()},
}


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_in_the_same_words(tmp_path: Path, case: str) -> None:
    folder = write_folder(tmp_path / "class" / "ann", *REFUSED[case])
    imported, graded = read_by_both(folder)
    (error,) = imported.refused
    assert graded.refused
    assert graded.refused[0] in error
    assert case.partition(":")[0] in error


@pytest.mark.parametrize(
    "text",
    [
        table(row(impl=" ")),
        table(row(seq_len="")),
        table(row(causal="")),
        table(row(), header=HEADER.replace("causal", "mask")),
    ],
)
def test_a_part_of_a_run_is_completed_by_the_numbers(tmp_path: Path, text: str) -> None:
    folder = write_folder(tmp_path / "class" / "ann", text, RESULT)
    imported, graded = read_by_both(folder)
    assert imported.refused == graded.refused == ()
    assert imported.results["a.json"][:2] == ("Flash2", SHAPE)


@pytest.mark.parametrize(("file", "link"), [("a.json", "a.json"), ("b/a.json", "b")])
def test_a_link_is_followed_by_neither(tmp_path: Path, file: str, link: str) -> None:
    folder = write_folder(tmp_path / "class" / "ann", table(row(file=file)), RESULT)
    tmp_path.joinpath(file).parent.mkdir(exist_ok=True)
    folder.joinpath("a.json").rename(tmp_path / file)
    folder.joinpath(link).symlink_to(tmp_path / link)
    said = [read.refused[0] for read in read_by_both(folder)]
    assert link == "b" or all("symbolic link" in each for each in said)


@pytest.mark.parametrize("off", [1e-12, 1e-8, 1e-5])
@pytest.mark.parametrize("changed", ["rate", "sum"])
def test_both_allow_the_same_rounding(tmp_path: Path, changed: str, off: float) -> None:
    document = full_digits()
    whole = document["forward_backward"]
    whole["FLOPS(TFLOPs/s)"] *= 1 + off
    if changed == "sum":
        whole["time(s)"] /= 1 + off
    folder = write_folder(tmp_path / "class" / "ann", table(row()), json.dumps(document))
    assert [bool(read.refused) for read in read_by_both(folder)] == [off > 1e-9] * 2


# What importing says


def course_result_without(status: str) -> str:
    return json.dumps({**dict.fromkeys(full_digits()), "record": {"status": status}})


def wrong_sum() -> str:
    document = full_digits()
    document["forward_backward"]["time(s)"] *= 1.5
    document["forward_backward"]["FLOPS(TFLOPs/s)"] /= 1.5
    return json.dumps(document)


def in_milliseconds() -> dict[str, Any]:
    document = full_digits()
    for name in PASSES:
        document[name]["time(s)"] *= 1e3
    return document


NOT_IMPORTED = {
    "twice": (
        table(row(), row(causal="true")), RESULT,
        "a.json: runs.csv says .* full, RTX 3070, but runs.csv says .* causal, RTX 3070; correct",
    ),
    "no file": (table(row(file="b.json")), RESULT, "Line 2 declares .b.json., but there"),
    "a folder": (table(row(file="b")), RESULT, "Line 2 declares .b., but there"),
    "a name that is too long": (table(row(file="x" * 300)), RESULT, "no such result file"),
    "two rows": (
        table(row(batch_size="many"), row(causal="maybe")), RESULT,
        "Line 2: batch_size must be .*found .many.*Line 3: causal must be true, false, yes",
    ),
    "eight rows": (
        table(*[row(batch_size="many")] * 8), RESULT, "Line 6: batch_size .* And 3 more."
    ),
    "of another shape": (
        table(row()), json.dumps(full_digits(Shape(16, 256, 32, 2048, False))),
        r"a.json: runs.csv says Flash2 B16 N128 .*, but time and rate make 8.58993459e\+09 FLOPs",
    ),
    "of another implementation": (
        table(row()), NAIVE_RESULT,
        "a.json: runs.csv says Flash2 .*, but its FLOPs and memory are those of Pytorch B·H=512",
    ),
    "a wrong sum": (table(row()), wrong_sum(), "a.json.*is not the sum of the other two"),
    "no numbers": (table(row()), course_result_without("oom"), "there is no result"),
    "milliseconds called seconds": (
        table(row()), json.dumps(in_milliseconds()),
        r"a.json: its times are 1,000 times what its rates leave .* name the key time\(ms\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", NOT_IMPORTED)
def test_what_cannot_be_imported_is_one_message_that_says_where(tmp_path: Path, wrong: str) -> None:
    text, result, said = NOT_IMPORTED[wrong]
    folder = write_folder(tmp_path / "results of mine", text, result)
    folder.joinpath("b").mkdir()
    (error,) = read_for_import(folder, tmp_path / "r.json").refused
    assert re.search(said, error)
    assert not (tmp_path / "r.json").exists()


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    (error,) = read_for_import(tmp_path, tmp_path / "r.json").refused
    assert "there is no result of the course's script in it" in error


def test_an_imported_record_has_the_scripts_numbers_and_no_samples(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", table(row()), RESULT)
    os.utime(folder / "a.json", (0, 0))
    ((entry,), _) = import_plan(folder, KNOWN)
    import_record(entry, tmp_path / "r.json")
    record = read_record(tmp_path / "r.json", Run.of(ATTENTION, entry["run"]))
    assert record.top_level_keys() == json.loads(RESULT)
    assert all(measured.samples == () for measured in record.metrics.values())
    assert record.environment["device_name"] == "RTX 3070"
    assert record.started == "1970-01-01T00:00:00+00:00"
    assert [warning["code"] for warning in record.warnings] == ["imported"]


# Whatever is in the files

spaces = st.sampled_from(["", "", " ", "  ", "\t"])
wild = st.text(max_size=12) | st.sampled_from(["", ".", '"', "9" * 5000, "0", "-1", "1e3", "=1+1"])
known = {
    "file": st.sampled_from(["a.json", "./a.json", ".\\a.json", "b.json", "../a.json", "A.json"]),
    "impl": st.sampled_from(["Flash2", "flash2", "FA2", "Pytorch", "torch", "SdpaMath", ""]),
    "batch_size": st.sampled_from(["16", "016", "16.0", "16777216", "16777217"]),
    "causal": st.sampled_from(["false", "False", "FALSE", "0", "true", "1", "no", "none"]),
    "device": st.sampled_from(["", "NVIDIA H200", "AMD EPYC (8 CPUs)"]),
}


@st.composite
def wild_rows(draw: st.DrawFn) -> str:
    """A row in which some cells have spaces around them, other forms, or anything."""
    cells = dict(zip(HEADER.split(","), CELLS, strict=True))
    for name in draw(st.sets(st.sampled_from(sorted(cells)), max_size=3)):
        cells[name] = draw(spaces) + draw(known.get(name, wild) | wild) + draw(spaces)
    return ",".join(cells.values())


headers = st.sampled_from([HEADER] * 3 + [HEADER.upper(), HEADER.replace(",", ", "), "file,impl"])
results = st.sampled_from(
    [RESULT] * 5 + [str(text) for text in REFUSED_RESULTS.values() if len(text) < 10_000]
)


@example("a.json,Flash2,,,32,2048,,RTX 3070", HEADER, RESULT)
@given(wild_rows(), headers, results)
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_in_the_files_both_accept_or_both_refuse(
    tmp_path: Path, cells: str, header: str, result: str
) -> None:
    folder = write_folder(tmp_path / "class" / "ann", table(cells, header=header), result)
    imported, graded = read_by_both(folder)
    of_another_run = " says " in "".join(imported.refused)  # grading: check 3
    nothing = "there is no result" in "".join(imported.refused)
    open_run = "needs these rows" in "".join(imported.refused)  # grading leaves its shape open
    assert not open_run or all(shape is None for _, shape, *_ in graded.results.values())
    if not (of_another_run or nothing or open_run):
        assert bool(imported.refused) == bool(graded.refused), (imported.refused, graded.refused)
    if not imported.refused and "a.json" in imported.results:
        assert imported.results["a.json"][3:] == graded.results["a.json"][3:]
