"""The sheet: causes, not symptoms, the most pressing first, and short enough to work from."""

from __future__ import annotations

import copy
import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from grading.conftest import FLASH, graded, measured_again
from pdf import pages
from planted.classes import Handed

from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import write_json
from flashlab_grading.causes import Cause, urgency
from flashlab_grading.model import Line
from flashlab_grading.sheets import to_html, write_pages, write_stage

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


ORDER = {"device": None, "seed": 0, "measured": [], "languages": ["zh_TW", "en"], "here": "a CPU"}


def rows_of(html: str) -> list[str]:
    """The submissions in the table of the class, in its order."""
    return re.findall(r"<tr>\n<td>(.*)</td>", html.partition("<tfoot>")[0])


def details_of(html: str) -> dict[str, str]:
    """What is said of each submission in which not everything passed."""
    parts = re.split(r'<div class="submission">\n<h3>(.*)</h3>', html)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_class_of_26_is_told_by_causes_with_the_most_pressing_first(
    sound: Any, tmp_path: Path
) -> None:
    write_class(tmp_path / "class", sound)
    grades = graded(tmp_path / "class").grades
    write_pages(tmp_path / "grades.pdf", grades, ORDER)
    assert len(pages(tmp_path / "grades.pdf")) <= 4
    html = to_html(grades, ORDER)
    ordered = rows_of(html)
    assert set(ordered[:6]) == {"labels", "fast", "broken", "s09", "s10", "s11"}
    assert ordered[6:8] == ["missing", "slow"]
    pairs = re.findall(r"<strong>(s\d\d · s\d\d)</strong>", html)
    assert pairs == ["s09 · s10", "s09 · s11", "s10 · s11"]
    assert "1 of 36 checked" in html and "已檢核 1/36" in html
    told = details_of(html)
    assert "exchanged in 36 of 36 files" in told["labels"]
    assert len(re.findall(r'class="example"><strong>.*?</strong> → .', told["labels"])) == 3
    assert "number of heads (Pytorch, Flash2)" in told["missing"]
    assert "9 of 36 files" in told["broken"]
    assert told["broken"].count('class="cause"') == 1 and "Arithmetic" in told["broken"]


def test_the_stage_writes_a_row_for_each_line_and_submission(sound: Any, tmp_path: Path) -> None:
    for seed, name in enumerate(("missing", "undeclared")):
        own = measured_again(sound, seed)
        FAULTS[name](own)
        own.write(tmp_path / "class" / name)
    write_json(tmp_path / "order.json", {**ORDER, "submissions": str(tmp_path / "class")})
    names = ("order.json", "grades.csv", "summary.csv", "grades.pdf")
    write_stage(*(tmp_path / name for name in names))
    assert pages(tmp_path / "grades.pdf")
    rows = csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8", newline=""))
    row = next(row for row in rows if (row["submission"], row["verdict"]) == ("missing", "fail"))
    assert "is missing" in row["message.en"] and "缺少" in row["message.zh_TW"]
    assert "not_checked (1/36)" in (tmp_path / "summary.csv").read_text()


def test_others_texts_are_safe_wherever_they_are_shown(sound: Any, tmp_path: Path) -> None:
    """Names of submissions, files and devices, and what stands in a file."""
    hostile = "<i>\u202e"
    for seed, name in enumerate((f"a{hostile}", f"b{hostile}")):
        own = measured_again(sound, seed // 2)  # copies of one another
        own.name_device(f"CPU{hostile}")
        own.rows[own.file(FLASH)][1] = f"Mine{hostile}"
        own.documents[f"z{hostile}.json"] = {"forward": hostile}
        own.write(tmp_path / name)
    found = graded(tmp_path).grades
    loose = Line("warn", "form.loose", f"l{hostile}")
    html = to_html(replace(found, lines=(loose, *found.lines)), {**ORDER, "measured": [1]})
    assert "<i>" not in html and "\u202e" not in html
    shown = {*re.findall(r"(\w+)&lt;i&gt;\\u202e", html)}
    assert shown >= {"a", "b", "CPU", "z", "l"}


def test_one_who_is_surely_accused_comes_before_those_who_are_likely_to_be() -> None:
    def place(*codes: str) -> tuple[int, ...]:
        return urgency([Cause([Line("fail", code, "a.json")], 9) for code in codes])

    likely = place("copies.likely", "identity.workspace", "plausibility.one_noise")
    places = [place("identity.memory"), likely, place("coverage.missing"), place()]
    assert places == sorted(places) and len({*places}) == 4
