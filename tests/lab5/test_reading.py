"""Files in the forms that people have them: what is read, and what is refused in which words."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from planted.course import memory_of, result_of, write
from planted.folders import KNOWN, lab, runs_of

from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5 import words
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError, read_folder
from flashlab.lab5.words import MEMORY, PASSES, RATE, TIME, described

SWEEP = lab(Shape(16, 512, 16, 1024, True), {"seq_len": (2, 4, 8)})
TRUTH = sorted(one.option for one in SWEEP)
STATED = [{"impl": p.implementation, **asdict(p.shape), **p.document} for p in SWEEP]

SIZES = "Batch Size,Seq Length,Num Heads,Emb Dim,Implementation,Causal"
WORDS = "Forward", "Backward", "Forward_Backward"
CHINESE = "批次大小,序列長度,頭數,嵌入維度,實作,因果"


def table(
    sizes: str = SIZES,
    numbers: str = "{0} Time (s),{0} FLOPS (TFLOPs/s)",
    memory: str = "Peak Memory Usage (MB)",
    passes: tuple[str, ...] = WORDS,
    factor: float = 1.0,
) -> str:
    """A table of the sweep, whose passes have these words and whose times are in another unit."""
    lines = [",".join([sizes, *map(numbers.format, passes), memory])]
    for one in SWEEP:
        each = [one.document[name] for name in PASSES]
        measured = [v for p in each for v in (p[TIME] * factor, p[RATE])]
        measured.append(one.document[MEMORY])
        cells = (*one.sizes, one.implementation, one.shape.causal, *measured)
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def nested() -> dict[str, Any]:
    found: dict[str, Any] = {"config": {"batch_size": 16, "num_heads": 16, "emb_dim": 1024}}
    for one in SWEEP:
        found.setdefault(one.implementation, {})[str(one.value)] = one.document
    return found


EUROPEAN = ((",", ";"), (".", ","), ("True", "WAHR"), ("False", "FALSCH"))
PANDAS = table("batch_size,seq_len,num_heads,emb_dim,impl,causal", "{0}_time,{0}_flops", "memory")
IN_CHINESE = table(
    CHINESE, "{0}時間(ms),{0}速率(TFLOPs/s)", "峰值記憶體(MB)", ("前向", "反向", "合計"), 1e3
)
LAYOUTS: dict[str, dict[str, Any]] = {
    "a list with the parameters beside": {"results.json": STATED},
    "by name": {"all.json": {f"b16 n{p.value} h16 {p.option[0]}": p.document for p in SWEEP}},
    "by implementation and length": {"seq_len.json": nested()},
    "lines of JSON": {"results.jsonl": "\n".join(map(json.dumps, STATED))},
    "no extension, or another": {f"{i}{'.txt' * (i % 2)}": x for i, x in enumerate(STATED)},
    "head_dim for emb_dim": {"a.json": [{"head_dim": 64, **s, "emb_dim": "?"} for s in STATED]},
    "numbered": {"a.json": [{"device": i or "cuda:1", **s} for i, s in enumerate(STATED)]},
    "memory of others": {"a.json": [{"gpu": {"memory": 8}, "total_time": 9, **s} for s in STATED]},
    "FLOPs for FLOPS": {"a.json": json.dumps(STATED).replace("FLOPS", "FLOPs")},
    "microseconds": {"a.csv": table(factor=1e6).replace("Time (s)", "time(us)")},
    "a spreadsheet": {"runs.csv": table()},
    "a spreadsheet of tabs": {"summary.tsv": table().replace(",", "\t")},
    "Europe's": {"a.csv": reduce(lambda text, of: text.replace(*of), EUROPEAN, "\ufeff" + table())},
    "pandas with its index": {
        "a.csv": "\n".join(f"{i or ''},{row}" for i, row in enumerate(PANDAS.split()))
    },
    "in Chinese": {"results.csv": IN_CHINESE},
    "in Big5": {"results.csv": IN_CHINESE.encode("cp950")},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_read(layout: str, tmp_path: Path) -> None:
    entries, notices = import_plan(write(tmp_path, LAYOUTS[layout]), KNOWN)
    assert sorted(runs_of(entries).values()) == TRUTH
    assert {entry["device_name"] for entry in entries} == {None}
    if layout == "microseconds":
        units = {r["params"].get("key") for e in entries for r in e["remarks"]} - {None}
        assert units == {f"{word} time(us)" for word in WORDS}
        assert "were read × 0.000001" in notices[0]


def test_what_says_so_in_place_of_numbers_ran_out_of_memory(tmp_path: Path) -> None:
    head, *lines = (line.split(",") for line in table().splitlines())
    told = [[*head, "Status"], *([*line, "Success"] for line in lines)]
    for i, text in enumerate(["Out of Memory", "OOM", "CUDA out of memory.", "記憶體不足"], 1):
        told[i][6:] = [*[""] * 7, text]
    gone = {**dict.fromkeys(PASSES), MEMORY: None, "status": "OOM"}
    written = {"s.csv": "\n".join(map(",".join, told)), "a.json": {**STATED[0], **gone}}
    entries, _ = import_plan(write(tmp_path, written), KNOWN)
    out = {e["file"] for e in entries if e["status"] == "oom"}
    assert out == {"a.json", *(f"s.csv/{i}" for i in range(2, 6))}
    assert {*runs_of(entries).values()} == {*TRUTH}
    with pytest.raises(FolderError, match=r"b\.json: a run that ran out of memory .* name its"):
        import_plan(write(tmp_path, {"b.json": gone}), KNOWN)


# What is refused
SHAPE = Shape(16, 128, 32, 2048, False)
RESULT = json.dumps(result_of("Flash2", SHAPE, 0.0070955159763495, 0.0141910319526991))
CELLS = {
    **{"file": "a.json", "impl": "Flash2", "batch_size": "16", "seq_len": "128"},
    **{"num_heads": "32", "emb_dim": "2048", "causal": "false", "device": "RTX 3070"},
}
HEADER = ",".join(CELLS)


def row(**changed: str) -> str:
    """A row of runs.csv with some cells changed."""
    return ",".join((CELLS | changed).values())


def rows(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines]) + "\n"


ODDLY = {"file": " .\\a.json ", "impl": "FlashAttn-v2", "batch_size": "16.0", "causal": " False "}


@pytest.mark.parametrize("around", ["", "\ufeff", " " * 2**21])
@pytest.mark.parametrize("changed", [{}, ODDLY, {"causal": "0"}])
def test_a_row_is_understood(tmp_path: Path, changed: dict[str, str], around: str) -> None:
    files = {"runs.csv": "\ufeff" + rows(row(**changed), "", ",,,,,,,"), "a.json": around + RESULT}
    found = read_folder(write(tmp_path, files))
    said = {"implementation": "Flash2", **SHAPE.parameters, "device": "RTX 3070"}
    assert found.results["a.json"].said == said and found.refused == {}


def with_cell(column: str, text: str) -> str:
    """Another cell in runs.csv, or another memory in the result."""
    memory = repr(memory_of("Flash2", SHAPE))
    return rows(row(**{column: text})) if column else RESULT.replace(memory, text)


with Path(__file__).with_name("refused.csv").open(encoding="utf-8") as file:
    next(file)
    IN_A_CELL = {case: (with_cell(*of), said) for case, *of, said in csv.reader(file)}
REFUSED: dict[str, tuple[str | bytes, str]] = {
    **IN_A_CELL,
    "runs.csv: no UTF-8": (b"\xff" + rows(row()).encode(), "neither UTF-8"),
    "runs.csv: a NUL": (rows(row(file="a\0.json")), "NUL"),
    "runs.csv: no files": (rows(row(), header=HEADER.replace("file", "path")), "lacks .*: file"),
    "runs.csv: nothing declared": ("file,note\na.json,mine\n", "lacks these columns: impl"),
    "runs.csv: twice": (rows(row(), header=HEADER.replace("device", "impl")), "twice: impl"),
    "runs.csv: too many digits": (rows(row(seq_len="9" * 5000)), "seq_len"),
    "runs.csv: eight rows": (
        rows(row(seq_len="many"), *[row(causal="maybe")] * 7), "Line 2: .*Line 6: causal .* And 3 "
    ),
    "runs.csv: 101 columns": (rows(header=HEADER + ",x" * 100), "more than 100 columns"),
    "a.json: nothing": ("", "not valid JSON"),
    "a.json: no UTF-8": (b"\xff\xfe{}", "."),
    "a.json: nested": ("[" * 100_000, "nested more than 16"),
    "a.json: a key lacks": (
        RESULT.replace('"backward"', '"sideways"'),
        r"\"backward\.time\(s\)\" is missing; found are .*sideways.* Wanted are",
    ),
    "a.json: 400 digits": (with_cell("", "1" + "0" * 400), "more than 40 characters"),
    "a.json: five megabytes": (RESULT + " " * 5 * 2**20, "the limit is"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with_its_reason(tmp_path: Path, case: str) -> None:
    (name, _, _), (content, said) = case.partition(":"), REFUSED[case]
    write(tmp_path, {"runs.csv": rows(row()), "a.json": RESULT, name: content})
    assert [each.removesuffix("/2") for each in read_folder(tmp_path).refused] == [name]
    with pytest.raises(FolderError, match=f"(?s){said}.*Mend these files"):
        import_plan(tmp_path, KNOWN)


def test_what_is_no_result_is_named_with_its_keys(tmp_path: Path) -> None:
    others = {"package.json": {"name": "x", "version": 1}, "n.txt": "x", ".hidden.json": "{"}
    folder = write(tmp_path, others | {"price.csv": "item,price\nx,1\n"})
    wanted = r"package\.json has name, version; price\.csv has item, price; wanted are forward"
    with pytest.raises(FolderError, match=wanted):
        import_plan(folder, KNOWN)
    (notice,) = import_plan(write(folder, {"a.csv": table()}), KNOWN)[1]
    assert notice.startswith("package.json, price.csv: This is not a result")
    with pytest.raises(FolderError, match="there is no result"):
        import_plan(write(tmp_path / "empty", {"a.txt": "x"}), KNOWN)


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"b/a.json": RESULT, "mine/runs.csv": rows(row(file="b/a.json"))})
    tmp_path.joinpath("mine", "b").symlink_to(tmp_path / "b")
    tmp_path.joinpath("mine", "same").symlink_to(tmp_path / "mine")  # read where it lies
    found = read_folder(tmp_path / "mine")
    assert not found.results and {*found.refused} == {"b", "runs.csv/2"}


@pytest.mark.parametrize(
    ("bound", "most", "said"),
    [("MAX_FILES", 3, "more than 3"), ("MAX_BYTES", 1000, "more than 1000 bytes"),
     ("MAX_ENTRIES", 4, "more than 4"), ("MAX_DEPTH", 1, "more than 1 levels"),
     ("MAX_ROWS", 3, "more than 3"), ("os.scandir", open, "cannot be read")],
)  # fmt: skip
def test_reading_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: Any, said: str
) -> None:
    files = {f"{i}.json": each for i, each in enumerate(STATED)}
    write(tmp_path, files | {"a/b/c.json": RESULT, "summary.csv": table()})
    monkeypatch.setattr(f"flashlab.lab5.results.{bound}", most)
    assert any(said in str(problem) for problem in read_folder(tmp_path).refused.values())


ODD = r""". " 0 -1 1e3 =1+1 016 16.0 16777216 16777217 ./a.json .\a.json b.json ../a.json A.json
FA2 torch SdpaMath False FALSE true 1 no none"""
wild = st.text(max_size=12) | st.sampled_from(["", " 16\t", "AMD EPYC (8 CPUs)", *ODD.split()])
mostly_right = (st.one_of(*[st.just(cell)] * 5, wild) for cell in CELLS.values())
headers = st.sampled_from([HEADER] * 3 + [HEADER.upper(), HEADER.replace(",", ", "), "file,impl"])
short = [x for name, (x, _) in REFUSED.items() if name[0] == "a" and len(x) < 10_000]


@example(["a.json", "Flash2", "", "", "32", "2048", "", "RTX 3070"], HEADER, RESULT)
@example([*[*CELLS.values()][:-1], "9" * 5000], HEADER, RESULT)
@given(st.tuples(*mostly_right), headers, st.sampled_from([RESULT] * 9 + short))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_in_the_files_is_read_or_refused_in_one_message(
    tmp_path: Path, cells: list[str], header: str, result: str | bytes
) -> None:
    text = rows(",".join(cells), header=header).encode("utf-8", "surrogatepass")
    write(tmp_path, {"runs.csv": text, "a.json": result})
    try:
        entries, _ = import_plan(tmp_path, KNOWN)
    except FolderError as error:
        assert len(str(error)) < 5000
    else:
        assert all(Path(entry["path"]).parts for entry in entries)


# Names, of which what is ambiguous gives nothing, and headings

NAMES, HEADINGS = (
    [tuple(row) for row in csv.reader(Path(__file__).with_name(name).open(encoding="utf-8"))][1:]
    for name in ("names.csv", "headings.csv")
)
"""A name and what it says, nothing where it could as well mean something else; a heading and the
column of runs.csv that it names, or a pass, its number and the factor to the script's unit."""


@pytest.mark.parametrize(("name", "says"), NAMES)
def test_a_name_says(name: str, says: str) -> None:
    assert described(words.said_in_name(name)) == says


@example("_" * 20_000 + "(" * 20_000)
@given(st.text(max_size=80))
@settings(deadline=2000)
def test_any_name_can_be_read(name: str) -> None:
    assert described(words.said_in_name(name)) is not None
    assert words.column_of(name) is not None
    found = words.number_of(name)
    assert found is None or found[1] in (TIME, RATE, MEMORY)


@pytest.mark.parametrize(("heading", "column", "passed", "number", "factor"), HEADINGS)
def test_a_heading_names_a_number_or_a_column_in_any_spelling(
    heading: str, column: str, passed: str, number: str, factor: str
) -> None:
    assert words.number_of(heading) == ((passed, number, factor) if factor else None)
    assert words.column_of(heading) == (column or heading)
