"""The sheet: causes, not symptoms, the most pressing first, and short enough to work from."""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grading.conftest import FLASH, Handed, measured_again
from pdf import pages

from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab_grading.sheets import to_html, write_pages
from flashlab_grading.stage import write_stage

Change = Callable[[Any], None]


def without_batches_and_heads(own: Any) -> None:
    for name in list(own.documents):
        shape = Shape.of(own.runs[name])
        if shape.num_heads != 32 or shape.batch_size != 16:
            del own.documents[name], own.rows[name]


def one_slow_point(own: Any) -> None:
    own.rescale("pytorch-b32-n512-h32-e2048-causal", 2.5)


def too_fast(own: Any) -> None:
    own.rescale(FLASH, 0.01)


def broken_arithmetic(own: Any) -> None:
    for name in list(own.documents)[:9]:
        own.documents[name]["forward"]["time(s)"] *= 0.99


def undeclared(own: Any) -> None:
    own.rows = dict(list(own.rows.items())[:1])
    names = list(own.documents)
    for i, name in enumerate(names):
        if name not in own.rows:
            own.documents[f"{i}.json"] = own.documents.pop(name)


FAULTS: dict[str, Change] = {
    "labels": Handed.exchange_labels,
    "missing": without_batches_and_heads,
    "slow": one_slow_point,
    "fast": too_fast,
    "broken": broken_arithmetic,
    "undeclared": undeclared,
}


def write_class(folder: Path, sound: Any) -> None:
    for seed in range(26):
        own = measured_again(sound, seed)
        name = f"s{seed:02}"
        if seed < len(FAULTS):
            name, change = list(FAULTS.items())[seed]
            change(own)
        elif seed in (10, 11):
            own = copy.deepcopy(measured_again(sound, 9))
        own.write(folder / name)


def graded_document(folder: Path, output: Path) -> dict[str, Any]:
    order = {"submissions": str(folder), "device": None, "seed": 0, "measured": []}
    write_json(output / "order.json", {**order, "languages": ["zh_TW", "en"], "here": "a CPU"})
    paths = [output / name for name in ("order.json", "grades.csv", "summary.csv", "grades.json")]
    write_stage(*paths)
    document: dict[str, Any] = json.loads(paths[-1].read_text(encoding="utf-8"))
    return document


def test_a_class_of_26_is_four_pages_with_the_most_pressing_first(
    sound: Any, tmp_path: Path
) -> None:
    write_class(tmp_path / "class", sound)
    document = graded_document(tmp_path / "class", tmp_path)
    write_pages(tmp_path / "grades.json", tmp_path / "grades.pdf")
    assert len(pages(tmp_path / "grades.pdf")) <= 4
    ordered = [row["submission"] for row in document["submissions"]]
    assert set(ordered[:6]) == {"labels", "fast", "broken", "s09", "s10", "s11"}
    assert ordered[6:8] == ["missing", "slow"]
    pairs = [["s09", "s10"], ["s09", "s11"], ["s10", "s11"]]
    assert [pair["names"] for pair in document["pairs"]] == pairs
    told = {detail["submission"]: detail["causes"] for detail in document["details"]}
    (labels,) = told["labels"]
    assert "exchanged in 36 of 36 files" in labels["message"]["en"]
    assert len(labels["examples"]) == 3 and all(e["found"] for e in labels["examples"])
    (missing,) = told["missing"]
    assert missing["check"] == "coverage"
    assert "number of heads (Pytorch, Flash2)" in missing["message"]["en"]
    assert [cause["check"] for cause in told["broken"]] == ["arithmetic"]
    assert "9 of 36 files" in told["broken"][0]["message"]["en"]
    html = to_html(document)
    assert "1 of 36 checked" in html and "已檢核 1/36" in html
    rows = csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8", newline=""))
    row = next(row for row in rows if (row["submission"], row["verdict"]) == ("missing", "fail"))
    assert "is missing" in row["message.en"] and "缺少" in row["message.zh_TW"]
    assert "not_checked (1/36)" in (tmp_path / "summary.csv").read_text()


def test_names_that_look_alike_are_told_apart_on_the_sheet(sound: Any, tmp_path: Path) -> None:
    for seed, name in enumerate(("ann", "\u0430nn")):
        own = measured_again(sound, seed // 2)  # copies of one another
        own.write(tmp_path / "class" / name)
    document = graded_document(tmp_path / "class", tmp_path)
    assert {row["submission"] for row in document["submissions"]} == {"ann", "\\u0430nn"}
    (pair,) = document["pairs"]
    assert set(pair["names"]) == {"ann", "\\u0430nn"}
    said = [cause["message"]["en"] for own in document["details"] for cause in own["causes"]]
    assert any("those of \\u0430nn as only copies do" in text for text in said)
    assert "\\u0430nn" in (tmp_path / "summary.csv").read_text(encoding="utf-8")


def test_a_kernel_that_the_grader_lacks_is_said_on_the_sheet(sound: Any, tmp_path: Path) -> None:
    for row in list(sound.rows.values())[:2]:
        row[1] = "Mine"
    sound.write(tmp_path / "class" / "ann")
    document = graded_document(tmp_path / "class", tmp_path)
    notes = [note for own in document["details"] for note in own["notes"]]
    assert [note["message"]["en"] for note in notes] == [
        "Cannot be measured again here, because these kernels are not in kernels/: Mine."
    ]
