from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import PASSES
from flashlab.plan.datasets import DatasetError, import_plan, import_record
from flashlab.records import read_record

Build = Callable[..., dict[str, Any]]
HEADER = "file,impl,batch_size,seq_len,num_heads,emb_dim,causal,device\n"
SHAPE = Shape(16, 128, 32, 2048, False)
ROW = "a.json,Flash2,16,128,32,2048,false,RTX 3070\n"


def result(seconds: float = 0.007, shape: Shape = SHAPE) -> dict[str, Any]:
    """A JSON file of the course's script."""
    flops = costs.flops(shape)
    times = {"forward": seconds, "backward": seconds, "forward_backward": 2 * seconds}
    return {
        **{
            name: {"time(s)": times[name], "FLOPS(TFLOPs/s)": flops[name] / times[name] / 1e12}
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
    return read_record(output, attention_run("Flash2", SHAPE, "float16", "cuda"))


def test_an_imported_record_has_the_scripts_numbers_and_no_samples(
    folder: Path, tmp_path: Path
) -> None:
    os.utime(folder / "a.json", (0, 0))
    record = imported(folder, tmp_path / "r.json")
    assert record.top_level_keys() == result()
    assert all(measured.samples == () for measured in record.metrics.values())
    assert record.environment["device_name"] == "RTX 3070"
    assert record.started == "1970-01-01T00:00:00+00:00"
    assert [warning["code"] for warning in record.warnings] == ["imported"]


WRONG_ROWS = {
    "no run": (HEADER, "declares no run; add a row"),
    "twice": (HEADER + ROW + ROW, "line 3: .*is declared in line 2 already; keep one"),
    "no file": (HEADER + ROW.replace("a.json", "b.json"), "Line 2 declares .b.json., but there"),
    "a folder": (HEADER + ROW.replace("a.json", "b"), "line 2: b: This is not a regular file"),
    "two rows": (
        HEADER + ROW.replace("16", "many") + ROW.replace("false", "maybe"),
        "Line 2: batch_size must be .*found .many.. Line 3: causal must be true, false, yes",
    ),
    "no size": (HEADER + ROW.replace("16", ""), "line 2: .*its row must declare impl, batch_size"),
    "eight rows": (HEADER + ROW.replace("16", "many") * 8, "Line 6: batch_size .* And 3 more."),
}


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_an_unsound_runs_csv_is_an_error_that_says_where(folder: Path, wrong: str) -> None:
    text, said = WRONG_ROWS[wrong]
    (folder / "runs.csv").write_text(text)
    (folder / "b").mkdir()
    with pytest.raises(DatasetError, match=said):
        import_plan(folder, "mine")


def test_a_folder_without_runs_csv_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"runs\.csv: there is no such file; .*config/README\.md"
    ):
        import_plan(tmp_path, "mine")


wild_cells = st.text() | st.sampled_from(["", ".", "a\0b", '"', "x" * 300, "9" * 5000, "/dev"])
wild_rows = st.tuples(st.sampled_from([0, 0, *range(8)]), wild_cells).map(
    lambda change: ",".join(
        change[1] if column == change[0] else cell
        for column, cell in enumerate(ROW.strip().split(","))
    )
)


WRONG_SUM = result()
WRONG_SUM["forward_backward"]["time(s)"] *= 1.5
WRONG_SUM["forward_backward"]["FLOPS(TFLOPs/s)"] /= 1.5
NO_NUMBERS = {**dict.fromkeys(result()), "record": {"status": "oom"}}
WRONG_RESULTS = {
    "half": (json.dumps(result())[:40], "not valid JSON"),
    "of another shape": (json.dumps(result(shape=Shape(16, 256, 32, 2048, False))), "correct the"),
    "of another mask": (json.dumps(result(shape=Shape(16, 128, 32, 2048, True))), "correct the"),
    "a wrong sum": (json.dumps(WRONG_SUM), "is not the sum of the other two"),
    "no numbers": (json.dumps(NO_NUMBERS), r"a run without numbers \(oom\); remove its row"),
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
