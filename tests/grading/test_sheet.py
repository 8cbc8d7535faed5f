"""The sheet and the selfcheck: causes, not symptoms, the most pressing first, in both languages."""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import FLASH, LONG, Handed, graded, rescaled
from hypothesis import given, settings
from hypothesis import strategies as st
from pdf import pages

from flashlab.config import ConfigError
from flashlab.files import write_json
from flashlab.labels import messages
from flashlab_grading import sheets
from flashlab_grading.checks import BADGES, CHECKS, VERDICTS
from flashlab_grading.copies import ROOT, SLIDE
from flashlab_grading.sheets import MAX_CHARACTERS, cell, escaped, for_page, self_check, to_html


def without_batches_and_heads(own: Any) -> None:
    for name in own.runs:
        if "-b16-" not in name or "-h32-" not in name:
            del own.documents[name], own.rows[name]


def broken_arithmetic(own: Any) -> None:
    for name in list(own.documents)[:9]:
        own.documents[name]["forward"]["time(s)"] *= 0.99


def undeclared(own: Any) -> None:
    own.rows = dict(list(own.rows.items())[:1])
    for i, name in enumerate(list(own.documents)[1:]):
        own.documents[f"{i}.json"] = own.documents.pop(name)


FAULTS: dict[str, Callable[[Any], Any]] = {
    "labels": Handed.exchange_labels,
    "missing": without_batches_and_heads,
    "slow": rescaled(LONG, by=2.5),
    "fast": rescaled(FLASH, by=0.01),
    "broken": broken_arithmetic,
    "undeclared": undeclared,
    **dict.fromkeys(["sound", "copy", "its copy"], lambda own: own),
}
ORDER = {"device": None, "seed": 0, "orders": {}, "languages": ["zh_TW", "en"], "here": "a CPU"}


def test_a_class_is_told_by_causes_with_the_most_pressing_first(sound: Any, tmp_path: Path) -> None:
    for seed, (name, change) in enumerate(FAULTS.items()):
        own = sound.again(9 if "copy" in name else seed)
        change(own)
        own.write(tmp_path / "class" / name)
    write_json(tmp_path / "order.json", {**ORDER, "submissions": str(tmp_path / "class")})
    names = ("order.json", "grades.csv", "summary.csv", "grades.pdf")
    sheets.write_stage(*(tmp_path / name for name in names))
    assert len(pages(tmp_path / "grades.pdf")) <= 4
    rows = csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8", newline=""))
    row = next(row for row in rows if (row["submission"], row["verdict"]) == ("missing", "fail"))
    assert "are missing" in row["message.en"] and "缺少" in row["message.zh_TW"]
    assert "not_checked (1/36)" in (tmp_path / "summary.csv").read_text()
    html = to_html(graded(tmp_path / "class").submissions, (), ORDER)
    ordered = re.findall(r"<tr>\n<td>(.*)</td>", html.partition("<tfoot>")[0])
    assert set(ordered[:5]) == {"labels", "fast", "broken", "copy", "its copy"}
    assert ordered[5:] == ["missing", "slow", "undeclared", "sound"]
    assert "1 of 36 checked" in html and "已檢核 1/36" in html
    parts = re.split(r'<div class="submission">\n<h3>(.*)</h3>', html)
    told = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert "matches Flash2 to the byte. (35 more likewise)" in told["labels"]
    assert "Flash2 batch size, Flash2 number of heads" in told["missing"]
    assert "(8 more likewise)" in told["broken"]
    assert "in common with &#34;its copy&#34; agree" in told["copy"]
    assert len(re.findall(r'class="example"><strong>.*?</strong> → .', told["labels"])) == 3
    assert told["broken"].count('class="cause"') == 1 and "Arithmetic" in told["broken"]


WILD_NAMES = (
    *("<b>bold<b>&amp;.json", "two\nlines.json", "\x1b[31mred\x1b[0m.json", "\u202egnp.json"),
    *("{file} {line} {0}.json", "=HYPERLINK(1).json", "a\\u202eb.json", b"no-utf8-\xff.json"),
)


def test_wild_names_and_texts_are_shown_as_what_they_are(sound: Any, tmp_path: Path) -> None:
    """Names of submissions, files and devices, and what stands in a file."""
    hostile = "<i>\u202e"
    for name in (f"=cmd|' C calc'!A0 {hostile}", f"b{hostile}"):  # copies of one another
        own = sound.again(1)
        own.name_device(f"CPU{hostile}")
        own.rows[own.file(FLASH)][1] = f"Mine{hostile}"
        folder = os.fsencode(own.write(tmp_path / "class" / name))
        for wild in WILD_NAMES:
            Path(os.fsdecode(os.path.join(folder, os.fsencode(wild)))).write_text('{"forward": 1}')
    found = graded(tmp_path / "class")
    html = to_html(found.submissions, [f"l{hostile}"], {**ORDER, "orders": {"x": 1}})
    assert "<i>" not in html and not {*html} & {*"\u202e\x1b\r"}
    assert {*re.findall(r"(\w+)&lt;i&gt;\\u202e", html)} >= {"b", "CPU", "l"}
    sheets.write_grades(tmp_path / "grades.csv", found.lines(), ["zh_TW", "en"])
    sheets.write_summary(tmp_path / "summary.csv", found.submissions)
    for sheet in ("grades.csv", "summary.csv"):
        text = tmp_path.joinpath(sheet).read_bytes().decode()
        assert not set(text) & set("\x1b\u202e\r\t\ufeff\x00")
        rows = list(csv.reader(text.splitlines()))
        assert len({len(row) for row in rows}) == 1
        assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@"))]
    shown = {row[1] for row in csv.reader(tmp_path.joinpath("grades.csv").open())}
    assert {"two\\nlines.json", "\\x1b[31mred\\x1b[0m.json", "\\u202egnp.json"} <= shown
    assert {"a\\\\u202eb.json", "no-utf8-?.json", "'=HYPERLINK(1).json"} <= shown


def test_a_project_handed_in_whole_is_its_results(sound: Any, tmp_path: Path, capsys: Any) -> None:
    """Not what the pipeline derives from them, nor the recordings that came with it."""
    sound.again(1).write(tmp_path / "mine" / "results" / "course")
    for path in (*sorted((ROOT / "data/h200/records").iterdir())[::9], SLIDE):
        copied = tmp_path / "mine" / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())
    tmp_path.joinpath("mine", "results", "observations.json").write_text("[]")
    assert self_check(tmp_path / "mine", None, "en") == 0
    told = capsys.readouterr().out
    assert "files of FlashLab itself" in told and "was ignored" in told
    assert told.splitlines()[:2] == ["✓ Format: pass", "✓ Arithmetic: pass"]
    assert not any(line.startswith(("×", "△")) for line in told.splitlines())
    with pytest.raises(ConfigError, match="there is no such folder"):
        self_check(tmp_path / "mine/results/observations.json", None, "en")


def test_a_cause_is_told_with_examples_and_what_was_not_checked_with_what_it_takes(
    sound: Any, tmp_path: Path, capsys: Any
) -> None:
    own = sound.again(1)
    own.write(tmp_path / "sound")
    own.exchange_labels().write(tmp_path / "labels")
    own.say_nothing()
    own.write(tmp_path / "nameless")
    tmp_path.joinpath("none").mkdir()
    own.write(tmp_path / "open").joinpath("runs.csv").write_text("file,impl\n")
    next(tmp_path.glob("open/*.json")).rename(tmp_path / "open" / "a\n\u2028\x1b.json")
    tmp_path.joinpath("open", "notes.json").write_text("[1]")
    label = " → Flash2 B·H=512 N=128 d=64 causal → Pytorch B16 N128 H32 E2048"
    for name, language, status, *texts in (
        ("sound", "en", 0, "reads these files as 36 measurements of 36 runs"),
        ("labels", "en", 1, label, "matches Flash2 to the byte. (35 more likewise)"),
        ("nameless", "en", 0, "A complete row in runs.csv would settle it."),
        ("open", "en", 0, "ignored.\n    notes.json", "again:\nfile,", "\na\\n\\u2028\\x1b."),
        ("none", "en", 1, "There is no file of which"),
        ("none", "zh_TW", 1, "– 物理：未檢核\n    沒有可供這項檢核的檔案"),
    ):
        assert self_check(tmp_path / name, None, language) == status
        said = capsys.readouterr().out
        assert [text for text in texts if text not in said] == []


@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_every_check_badge_and_verdict_has_its_word(language: str) -> None:
    words = [*(f"check.{check}" for check in CHECKS), *(f"badge.{badge}" for badge in BADGES)]
    words += [f"verdict.{verdict}" for verdict in VERDICTS]
    assert {*words} <= messages(language, "grades").keys()


anything = st.text(st.characters(codec=None), max_size=60)


@given(anything, anything, st.sampled_from("=+-@\t\r"))
@settings(deadline=None)  # the first example reads the fonts
def test_nothing_shown_can_mislead(text: str, other: str, start: str) -> None:
    """No text steers a terminal, turns text round or is a formula, and no two look alike."""
    for shown in (escaped(text), for_page(text), cell(text)):
        shown.encode("utf-8")
        assert all(c == " " or unicodedata.category(c)[0] in "LMNPS" for c in shown)
    assert (escaped(text) == escaped(other)) == (text == other)
    assert not cell(start + text).startswith(("=", "+", "-", "@"))
    assert len(for_page(400 * start)) <= MAX_CHARACTERS and len(cell(start * 40_000)) <= 32_001
