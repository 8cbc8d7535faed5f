from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashlab import costs
from flashlab.datasets import (
    DatasetError,
    import_plan,
    import_record,
    read_runs_csv,
)
from flashlab.records import PASSES, Run, Shape, read_record

Build = Callable[..., dict[str, Any]]
HEADER = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device\n"
SHAPE = Shape(16, 128, 32, 2048, False)
ROW = "a.json,Flash2,16,128,32,2048,false,RTX 3070\n"


def result(seconds: float = 0.007, shape: Shape = SHAPE) -> dict[str, Any]:
    """A JSON file of the course's script."""
    flops = costs.flops(shape)
    return {
        **{
            name: {"time(s)": seconds, "FLOPS(TFLOPs/s)": flops[name] / seconds / 1e12}
            for name in PASSES
        },
        "peak_memory_usage(MB)": 1288.0,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one result with its runs.csv, as a student hands it in."""
    folder = tmp_path / "results of mine"
    folder.mkdir()
    (folder / "runs.csv").write_text(HEADER + ROW)
    (folder / "a.json").write_text(json.dumps(result()))
    return folder


def imported(folder: Path, output: Path) -> dict[str, Any]:
    (entry,) = import_plan(folder, "mine")["records"]
    import_record(entry, output)
    return read_record(output, Run("Flash2", SHAPE, "float16", "cuda"))


def test_an_imported_record_has_the_scripts_numbers_and_no_samples(
    folder: Path, tmp_path: Path
) -> None:
    os.utime(folder / "a.json", (0, 0))
    record = imported(folder, tmp_path / "r.json")
    inner = record.pop("record")
    assert record == result()
    assert inner["samples"] == {"forward": [], "backward": []}
    assert inner["environment"]["device_name"] == "RTX 3070"
    assert inner["started"] == "1970-01-01T00:00:00+00:00"
    assert [warning["code"] for warning in inner["warnings"]] == ["imported"]


def test_a_changed_result_gets_another_record(folder: Path) -> None:
    (before,) = import_plan(folder, "mine")["records"]
    (folder / "a.json").write_text(json.dumps(result(0.008)))
    (after,) = import_plan(folder, "mine")["records"]
    assert before["file"] != after["file"]


WRONG_ROWS = {
    "no run": (HEADER, "declares no run"),
    "empty file": ("", "lacks the columns file, impl"),
    "a column lacks": ("file,impl\na.json,Flash2\n", "lacks the columns batch_size"),
    "too few fields": (HEADER + "a.json,Flash2,16\n", "line 2: .*fields"),
    "too many fields": (HEADER + ROW.strip() + ",more\n", "line 2: .*fields"),
    "no number": (HEADER + ROW + ROW.replace("16", "many"), "line 3: batch_size: .*'many'"),
    "a fraction": (HEADER + ROW.replace("128", "1.5"), "line 2: seq_len: .*whole number"),
    "zero": (HEADER + ROW.replace("32", "0", 1), "num_heads: must be at least 1"),
    "no mask": (HEADER + ROW.replace("false", "maybe"), "causal: must be true or false"),
    "twice": (HEADER + ROW + ROW, "line 3: .*declared twice"),
    "outside": (HEADER + ROW.replace("a.json", "../a.json"), "outside"),
    "absolute": (HEADER + ROW.replace("a.json", "/etc/passwd"), "outside"),
    "no file": (HEADER + ROW.replace("a.json", "b.json"), "b.json: No such file"),
    "the folder": (HEADER + ROW.replace("a.json", "."), "Is a directory"),
    "no implementation": (HEADER + ROW.replace("Flash2", ""), "line 2: impl"),
    "heads that do not divide": (HEADER + ROW.replace("2048", "2047"), "line 2: .*divide"),
}


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_an_unsound_runs_csv_is_an_error_that_says_where(folder: Path, wrong: str) -> None:
    text, said = WRONG_ROWS[wrong]
    (folder / "runs.csv").write_text(text)
    with pytest.raises(DatasetError, match=said):
        import_plan(folder, "mine")


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(result()))
    (folder / "a.json").unlink()
    (folder / "a.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(DatasetError, match="outside"):
        import_plan(folder, "mine")


def test_a_folder_without_runs_csv_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"runs\.csv: cannot be read: .*config/README\.md"):
        read_runs_csv(tmp_path)


wild_cells = st.text() | st.sampled_from(["", ".", "a\0b", '"', "x" * 300, "9" * 5000, "/dev"])
wild_rows = st.tuples(st.sampled_from([0, 0, *range(8)]), wild_cells).map(
    lambda change: ",".join(
        change[1] if column == change[0] else cell
        for column, cell in enumerate(ROW.strip().split(","))
    )
)
wild_tables = st.lists(wild_rows, min_size=1, max_size=3).map(lambda rows: HEADER + "\n".join(rows))


@given(wild_tables.map(lambda text: text.encode(errors="replace")) | st.binary())
@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_wild_runs_csv_raises_nothing_but_a_dataset_error(folder: Path, content: bytes) -> None:
    (folder / "runs.csv").write_bytes(content)
    try:
        manifest = import_plan(folder, "mine")
    except DatasetError as error:
        assert "runs.csv" in str(error)
    else:
        assert manifest["records"]


@pytest.mark.parametrize(
    ("file", "said"), [("a\0b.json", "line 2"), ("x" * 300, "File name too long")]
)
def test_a_name_that_no_file_can_have_is_refused(folder: Path, file: str, said: str) -> None:
    (folder / "runs.csv").write_text(HEADER + ROW.replace("a.json", file))
    with pytest.raises(DatasetError, match=said):
        import_plan(folder, "mine")


HUGE = "1" + "0" * 400
RESULT = json.dumps(result())
WRONG_RESULTS = {
    "no JSON": ("time: 3", "cannot be read as JSON"),
    "half": (RESULT[:40], "cannot be read as JSON"),
    "deep": ("[" * 100_000, "cannot be read as JSON"),
    "large": (RESULT + " " * 2**20, "larger than 1 MiB"),
    "a list": ("[]", "not a result"),
    "a key lacks": (RESULT.replace("backward", "sideways", 1), "lacks 'backward'"),
    "text": (RESULT.replace("0.007", '"0.007"', 1), r"forward\.time\(s\): must be a finite"),
    "true": (RESULT.replace("0.007", "true", 1), "must be a finite number, found True"),
    "NaN": (RESULT.replace("0.007", "NaN", 1), "must be a finite number"),
    "beyond any float": (RESULT.replace("0.007", HUGE, 1), "must be a finite number"),
    "zero": (RESULT.replace("0.007", "0", 1), "must be positive"),
    "of another shape": (json.dumps(result(shape=Shape(16, 256, 32, 2048, False))), "correct the"),
    "of another mask": (json.dumps(result(shape=Shape(16, 128, 32, 2048, True))), "correct the"),
}


@pytest.mark.parametrize("wrong", WRONG_RESULTS)
def test_an_unsound_result_is_an_error_that_names_the_file(
    folder: Path, tmp_path: Path, wrong: str
) -> None:
    text, said = WRONG_RESULTS[wrong]
    (folder / "a.json").write_text(text)
    with pytest.raises(DatasetError, match=said) as caught:
        imported(folder, tmp_path / "r.json")
    assert "a.json" in str(caught.value)
    assert not (tmp_path / "r.json").exists()
