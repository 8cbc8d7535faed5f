"""Files in the forms that people have them: what is read, and what is refused in which words."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from planted.course import memory_of, result_of
from planted.folders import KNOWN, lab, rounded, runs_of, write

from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError, read_folder
from flashlab.lab5.words import PASSES
from flashlab.labels import message

SWEEP = lab(Shape(16, 512, 16, 1024, True), {"seq_len": (2, 4, 8)})
TRUTH = sorted(one.option for one in SWEEP)
STATED = [{"impl": p.implementation, **asdict(p.shape), **p.document} for p in SWEEP]


def options(folder: Path) -> list[Any]:
    return sorted(runs_of(import_plan(folder, KNOWN)[0]).values())


def in_ms(document: Mapping[str, Any]) -> dict[str, Any]:
    passes = {p: {**document[p], "time(ms)": document[p]["time(s)"] * 1000} for p in PASSES}
    return {**document, **{p: {k: x[k] for k in x if k != "time(s)"} for p, x in passes.items()}}


SPREADSHEET = (
    *("Batch Size", "Seq Length", "Num Heads", "Emb Dim", "Implementation", "Causal"),
    *("{} Time (s)", "{} FLOPS (TFLOPs/s)", "Peak Memory Usage (MB)"),
)
PANDAS = (
    *("batch_size", "seq_len", "num_heads", "emb_dim", "impl", "causal"),
    *("{}_time", "{}_flops", "peak_memory"),
)
CHINESE = (
    *("批次大小", "序列長度", "頭數", "嵌入維度", "實作", "因果"),
    *("{}時間(ms)", "{}速率(TFLOPs/s)", "峰值記憶體(MB)"),
)


def table(
    headings: Sequence[str],
    words: Sequence[str] = ("Forward", "Backward", "Forward_Backward"),
    factor: float = 1.0,
) -> str:
    """A table of the sweep, whose passes have these words and whose times are in another unit."""
    *sizes, time, rate, memory = headings
    rows = [[*sizes, *(h.format(word) for word in words for h in (time, rate)), memory]]
    for one in SWEEP:
        each = [one.document[name] for name in PASSES]
        measured = [v for p in each for v in (p["time(s)"] * factor, p["FLOPS(TFLOPs/s)"])]
        measured.append(one.document["peak_memory_usage(MB)"])
        rows.append([*map(str, (*one.sizes, one.implementation, one.shape.causal, *measured))])
    return "\n".join(map(",".join, rows)) + "\n"


def nested() -> dict[str, Any]:
    found: dict[str, Any] = {"config": {"batch_size": 16, "num_heads": 16, "emb_dim": 1024}}
    for one in SWEEP:
        found.setdefault(one.implementation, {})[str(one.value)] = one.document
    return found


IN_CHINESE = "前向", "反向", "合計"
EUROPEAN = ((",", ";"), (".", ","), ("True", "WAHR"), ("False", "FALSCH"))
INDEXED = "\n".join(f"{i - 1 if i else ''},{row}" for i, row in enumerate(table(PANDAS).split()))
LAYOUTS: dict[str, dict[str, Any]] = {
    "a list with the parameters beside": {"results.json": STATED},
    "by name": {"all.json": {f"b16 n{p.value} h16 {p.option[0]}": p.document for p in SWEEP}},
    "by implementation and length": {"seq_len.json": nested()},
    "lines of JSON": {"results.jsonl": "\n".join(map(json.dumps, STATED))},
    "a text file": {"log.txt": STATED},
    "no extension": {f"{i}": each for i, each in enumerate(STATED)},
    "head_dim for emb_dim": {"a.json": [{"head_dim": 64, **s, "emb_dim": "?"} for s in STATED]},
    "flat keys": {
        "a.json": [
            {**{k: v for k, v in each.items() if k not in PASSES},
             **{f"{p}_{k}": v for p in PASSES for k, v in each[p].items()}}
            for each in STATED
        ]
    },
    "FLOPs for FLOPS": {"a.json": json.dumps(STATED[0]).replace("FLOPS", "FLOPs")},
    "milliseconds": {f"{i}.json": in_ms(each) for i, each in enumerate(STATED)},
    "microseconds": {"a.csv": table(SPREADSHEET, factor=1e6).replace("Time (s)", "time(us)")},
    "six digits": {f"{i}.json": rounded(each, 6) for i, each in enumerate(STATED)},
    "a spreadsheet": {"summary.csv": table(SPREADSHEET)},
    "a spreadsheet named runs.csv": {"runs.csv": table(SPREADSHEET)},
    "a spreadsheet of tabs": {"summary.tsv": table(SPREADSHEET).replace(",", "\t")},
    "a European one": {
        "a.csv": reduce(lambda text, of: text.replace(*of), EUROPEAN, "\ufeff" + table(SPREADSHEET))
    },
    "pandas": {"results.csv": table(PANDAS)},
    "pandas with its index": {"results.csv": INDEXED},
    "in Chinese": {"results.csv": table(CHINESE, IN_CHINESE, factor=1e3)},
    "in Big5": {"results.csv": table(CHINESE, IN_CHINESE, factor=1e3)},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_read(layout: str, tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS[layout])
    if layout == "in Big5":
        text = LAYOUTS[layout]["results.csv"]
        folder.joinpath("results.csv").write_bytes(text.encode("cp950"))
    assert options(folder) == ([SWEEP[0].option] if layout == "FLOPs for FLOPS" else TRUTH)


def test_numbers_in_another_unit_are_said(tmp_path: Path) -> None:
    folder = write(tmp_path, LAYOUTS["milliseconds"])
    entries, notices = import_plan(folder, KNOWN)
    assert {r["params"]["key"] for e in entries for r in e["remarks"] if r["params"]} == {
        f"{name}.time(ms)" for name in PASSES
    }
    assert "were read × 0.001" in notices[0]


@pytest.mark.parametrize("text", ["Out of Memory", "OOM", "CUDA out of memory.", "記憶體不足"])
def test_a_row_without_numbers_whose_status_says_so_ran_out_of_memory(
    tmp_path: Path, text: str
) -> None:
    head, *lines = (line.split(",") for line in table(SPREADSHEET).splitlines())
    told = [[*head, "Status"], *([*line, "Success"] for line in lines)]
    told[5][6:] = [*[""] * 7, text]
    written = {"summary.csv": "\n".join(map(",".join, told))}
    entries, _ = import_plan(write(tmp_path, written), KNOWN)
    assert sorted(runs_of(entries).values()) == TRUTH
    assert [e["file"] for e in entries if e["status"] == "oom"] == ["summary.csv/6"]


def test_a_document_that_says_so_ran_out_of_memory(tmp_path: Path) -> None:
    gone = {**dict.fromkeys(PASSES), "peak_memory_usage(MB)": None, "status": "OOM"}
    stated = {k: v for k, v in STATED[0].items() if k not in gone}
    entries, _ = import_plan(write(tmp_path, {"a.json": {**stated, **gone}}), KNOWN)
    assert [(e["status"], e["file"]) for e in entries] == [("oom", "a.json")]
    with pytest.raises(FolderError, match=r"b\.json: a run that ran out of memory .* name its"):
        import_plan(write(tmp_path, {"b.json": gone}), KNOWN)


# What is refused

SHAPE = Shape(16, 128, 32, 2048, False)
RESULT = json.dumps(result_of("Flash2", SHAPE, 0.0070955159763495, 0.0141910319526991))
HEADER = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device"
CELLS = ("a.json", "Flash2", "16", "128", "32", "2048", "false", "RTX 3070")


def row(**changed: str) -> str:
    """A row of runs.csv with some cells changed."""
    names = HEADER.split(",")
    return ",".join(changed.get(name, cell) for name, cell in zip(names, CELLS, strict=True))


def rows(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines]) + "\n"


def read(folder: Path, runs_csv: str | bytes, result: str | bytes) -> dict[str, Any]:
    """The statements of a folder's results, and why files are refused."""
    folder.mkdir(exist_ok=True)
    for name, content in (("runs.csv", runs_csv), ("a.json", result)):
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        folder.joinpath(name).write_bytes(raw)
    found = read_folder(folder)
    assert found.refused or len(found.results) == 1 or found.ignored
    return {
        "said": {name: dict(result.said) for name, result in found.results.items()},
        "refused": {name: str(problem) for name, problem in found.refused.items()},
    }


ACCEPTED = {
    "as the course's": (rows(row()), RESULT),
    "spaces around a cell": (rows(row(causal=" False ", file=" a.json ")), RESULT),
    "another word for the implementation": (rows(row(impl="fa2")), RESULT),
    "a backslash": (rows(row(file=".\\a.json")), RESULT),
    "blank lines": (rows(row(), "", ",,,,,,,"), RESULT),
    "a mark of the byte order": ("\ufeff" + rows(row()), "\ufeff" + RESULT),
    "causal as a digit": (rows(row(causal="0")), RESULT),
    "sizes with a decimal point": (rows(row(batch_size="16.0", seq_len="128.00")), RESULT),
    "two megabytes": (rows(row()), RESULT + " " * 2**21),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_row_is_understood(tmp_path: Path, case: str) -> None:
    found = read(tmp_path, *ACCEPTED[case])
    said = {"implementation": "Flash2", **asdict(SHAPE), "device": "RTX 3070"}
    del said["num_kv_heads"]
    assert found == {"said": {"a.json": said}, "refused": {}}


def with_number(text: str) -> str:
    return RESULT.replace(repr(memory_of("Flash2", SHAPE)), text)


REFUSED_ROWS: dict[str, tuple[str | bytes, str]] = {
    "no UTF-8": (b"\xff" + rows(row()).encode(), "neither UTF-8"),
    "a NUL": (rows(row(file="a\0.json")), "NUL"),
    "no column of files": (rows(row(), header=HEADER.replace("file", "path")), "lacks .*: file"),
    "nothing declared": ("file,note\na.json,mine\n", "lacks these columns: impl"),
    "a column twice": (rows(row(), header=HEADER.replace("device", "impl")), "twice: impl"),
    "too few fields": (rows("a.json,Flash2,16"), "Line 2: There are more or fewer"),
    "too many fields": (rows(row() + ",more"), "Line 2: There are more or fewer"),
    "too many digits": (rows(row(seq_len="9" * 5000)), "seq_len"),
    "two rows": (rows(row(seq_len="many"), row(causal="maybe")), "Line 2: .*Line 3: causal"),
    "eight rows": (rows(*[row(seq_len="many")] * 8), "Line 6: .* And 3 more"),
    "101 columns": (rows(header=HEADER + ",x" * 100), "more than 100 columns"),
}  # fmt: skip
REFUSED_RESULTS: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("time: 3", "Line 1 is not valid JSON"),
    "nothing": ("", "not valid JSON"),
    "no UTF-8": (b"\xff\xfe{}", "."),
    "nested": ("[" * 100_000, "nested more than 16"),
    "a key lacks": (RESULT.replace('"backward"', '"sideways"'),
                    r"\"backward\.time\(s\)\" is missing; found are .*sideways.* Wanted are"),
    "a key twice": (RESULT.replace('"forward": {', '"forward": {}, "forward": {'), "occurs twice"),
    "a pass that is no object": (RESULT.replace('"forward": {', '"forward": 1, "x": {'), "missing"),
    "400 digits": (with_number("1" + "0" * 400), "more than 40 characters"),
    "five megabytes": (RESULT + " " * 5 * 2**20, "the limit is"),
    "a size that is none": (RESULT[:-1] + ', "batch_size": "many"}', "batch_size must be a whole"),
    "a record of no run": (RESULT[:-1] + ', "record": {"run": {}}}', "whole record of FlashLab"),
    "a record that is none": (RESULT[:-1] + ', "record": 3}', "must be an object"),
}  # fmt: skip
REFUSED = {
    **{f"runs.csv: {name}": (text, RESULT, said) for name, (text, said) in REFUSED_ROWS.items()},
    **{f"a.json: {n}": (rows(row()), text, said) for n, (text, said) in REFUSED_RESULTS.items()},
    **{  # a cell of runs.csv, or the memory in the result
        each["case"]: (
            rows(row(**{each["column"]: each["text"]})),
            *(RESULT if each["column"] else with_number(each["text"]), each["said"]),
        )
        for each in csv.DictReader(Path(__file__).with_name("refused.csv").open(encoding="utf-8"))
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with_its_reason(tmp_path: Path, case: str) -> None:
    runs_csv, result, said = REFUSED[case]
    found = read(tmp_path / "x", runs_csv, result)
    assert [*found["refused"]] == [case.partition(":")[0]]
    with pytest.raises(FolderError, match=f"(?s){said}.*Mend these files"):
        import_plan(tmp_path / "x", KNOWN)


def test_what_is_no_result_is_named_with_its_keys(tmp_path: Path) -> None:
    others = {"package.json": {"name": "x", "version": 1}, "n.txt": "x", ".hidden.json": "{"}
    folder = write(tmp_path, others | {"price.csv": "item,price\nx,1\n"})
    wanted = r"package\.json has name, version; price\.csv has item, price; wanted are forward"
    with pytest.raises(FolderError, match=wanted):
        import_plan(folder, KNOWN)
    write(folder, LAYOUTS["a spreadsheet"])
    (notice,) = import_plan(folder, KNOWN)[1]
    assert notice.startswith("package.json, price.csv: This is not a result")
    with pytest.raises(FolderError, match="there is no result"):
        import_plan(write(tmp_path / "empty", {"a.txt": "x"}), KNOWN)


@pytest.mark.parametrize(("file", "link"), [("a.json", "a.json"), ("b/a.json", "b")])
def test_no_link_is_followed(tmp_path: Path, file: str, link: str) -> None:
    folder = tmp_path / "mine"
    write(folder, {"runs.csv": rows(row(file=file))})
    write(tmp_path, {file: RESULT})
    folder.joinpath(link).symlink_to(tmp_path / link)
    assert not read_folder(folder).results
    assert any(
        "link" in str(p) or "no such" in str(p) for p in read_folder(folder).refused.values()
    )


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.json")
    found = read_folder(tmp_path)
    assert {name: str(problem) for name, problem in found.refused.items()} == {
        "pipe.json": message("en", "course", "form.special")
    }


@pytest.mark.parametrize(
    ("bound", "most", "said"),
    [("MAX_FILES", 3, "more than 3"), ("MAX_BYTES", 1000, "more than 1000 bytes"),
     ("MAX_ENTRIES", 4, "more than 4"), ("MAX_DEPTH", 1, "more than 1 levels"),
     ("MAX_ROWS", 3, "more than 3")],
)  # fmt: skip
def test_reading_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, said: str
) -> None:
    files = {f"{i}.json": each for i, each in enumerate(STATED)}
    write(tmp_path, files | {"a/b/c.json": RESULT} | LAYOUTS["a spreadsheet"])
    monkeypatch.setattr(f"flashlab.lab5.results.{bound}", most)
    assert any(said in str(problem) for problem in read_folder(tmp_path).refused.values())


ODD = r""". " 0 -1 1e3 =1+1 016 16.0 16777216 16777217 ./a.json .\a.json b.json ../a.json A.json
FA2 torch SdpaMath False FALSE true 1 no none"""
wild = st.text(max_size=12) | st.sampled_from(["", "9" * 5000, "AMD EPYC (8 CPUs)", *ODD.split()])
headers = st.sampled_from([HEADER] * 3 + [HEADER.upper(), HEADER.replace(",", ", "), "file,impl"])
results = st.sampled_from(
    [RESULT] * 5
    + [text for text, _ in REFUSED_RESULTS.values() if isinstance(text, str) and len(text) < 10_000]
)


@st.composite
def wild_rows(draw: st.DrawFn) -> str:
    """A row in which some cells have spaces around them, other forms, or anything."""
    cells = dict(zip(HEADER.split(","), CELLS, strict=True))
    for name in draw(st.sets(st.sampled_from(sorted(cells)), max_size=3)):
        space = draw(st.sampled_from(["", " ", "\t"]))
        cells[name] = space + draw(wild) + space
    return ",".join(cells.values())


@example("a.json,Flash2,,,32,2048,,RTX 3070", HEADER, RESULT)
@example("a.json,Flash2,16,128,32,2048,true," + "9" * 5000, HEADER, RESULT)
@given(wild_rows(), headers, results)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_in_the_files_is_read_or_refused_in_one_message(
    tmp_path: Path, cells: str, header: str, result: str
) -> None:
    read(tmp_path / "x", rows(cells, header=header), result)
    try:
        entries, _ = import_plan(tmp_path / "x", KNOWN)
    except FolderError as error:
        assert len(str(error)) < 5000
    else:
        assert all(Path(entry["path"]).parts for entry in entries)
