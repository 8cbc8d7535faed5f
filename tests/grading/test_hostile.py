"""Submissions that mean harm: each bad file is a fail line, and everything else is graded."""

from __future__ import annotations

import csv
import json
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.cheats import record
from grading.conftest import FLASH, graded

from flashlab import untrusted
from flashlab_grading import files
from flashlab_grading.sheets import write_grades, write_summary


def text_of(own: Any) -> str:
    return json.dumps(own.document(FLASH))


Put = Callable[[Path, Any], None]
"""Puts a file at a path, made of a sound submission."""


def link_out(path: Path, own: Any) -> None:
    outside = path.parents[2] / "outside.json"
    outside.write_text(text_of(own))
    path.symlink_to(outside)


def fifo(path: Path, own: Any) -> None:
    os.mkfifo(path)


def bound_socket(path: Path, own: Any) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has 107 bytes at most
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def huge(path: Path, own: Any) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk


TRICKS: dict[str, tuple[Put, str]] = {  # more of them: tests/test_course.py
    "a terabyte": (huge, "form.too_large"),
    "a link out of the folder": (link_out, "form.link"),
    "a FIFO": (fifo, "form.special"),
    "a socket": (bound_socket, "form.special"),
}  # fmt: skip


def test_a_bad_file_is_a_fail_line_and_the_others_are_graded(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "class" / "eve")
    for trick, (put, _) in TRICKS.items():
        put(folder / f"{trick}.json", sound)
    sound.write(tmp_path / "class" / "ann")
    found = graded(tmp_path / "class")
    own = {file: code for (check, file), code in found.fails("eve").items() if check == "form"}
    assert own == {f"{trick}.json": code for trick, (_, code) in TRICKS.items()}
    assert len([line for line in found.lines("pass", "eve") if line.check == "form"]) == 36
    assert found.of("ann")["form"] == "pass"


def test_a_file_that_changes_while_it_is_read_is_not_believed(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sound.write(tmp_path / "eve")
    target = folder / sound.file(FLASH)
    inode = target.stat().st_ino
    read = os.read

    def read_and_append(descriptor: int, count: int) -> bytes:
        part = read(descriptor, count)
        if part and os.fstat(descriptor).st_ino == inode:
            with target.open("a") as file:
                file.write(" ")
        return part

    monkeypatch.setattr(untrusted.os, "read", read_and_append)
    assert graded(tmp_path).fails() == {("form", target.name): "form.changed"}


def test_a_file_that_becomes_a_link_between_the_look_and_the_opening_is_not_followed(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sound.write(tmp_path / "class" / "eve")
    target = folder / sound.file(FLASH)
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    opened = os.open

    def swap_and_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if path == target.name:
            target.unlink()
            target.symlink_to(secret)
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(untrusted.os, "open", swap_and_open)
    assert graded(tmp_path / "class").fails() == {("form", target.name): "form.unreadable"}


def test_a_submission_that_is_a_link_is_named_and_not_followed(sound: Any, tmp_path: Path) -> None:
    sound.write(tmp_path / "elsewhere")
    tmp_path.joinpath("class").mkdir()
    tmp_path.joinpath("class", "eve").symlink_to(tmp_path / "elsewhere")
    fails = graded(tmp_path / "class").fails("eve")
    assert fails[("form", "")] == "form.link"
    assert {check for check, _ in fails} == {"form", "coverage"}


def test_a_deep_folder_is_left_alone(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "eve")
    deep = folder.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    deep.joinpath("deep.json").write_text("{}")
    assert list(graded(tmp_path).fails().values()) == ["form.too_deep"]


@pytest.mark.parametrize(
    ("bound", "code"),
    [("files", "form.too_many"), ("entries", "form.too_many"), ("size", "form.too_many_bytes")],
)
def test_more_than_the_bound_is_graded_up_to_it(
    bound: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "Budget", partial(files.Budget, **{bound: 20}))
    folder = tmp_path / "eve"
    for i in range(25):
        inner = folder / f"{i:05}"
        inner.mkdir(parents=True)
        inner.joinpath("x.json").write_text("[")
    codes = [line.code for line in graded(tmp_path).lines("fail") if line.check == "form"]
    assert codes == ["form.not_json"] * (0 if bound == "entries" else 20) + [code]


# Names

WILD_NAMES = (
    "<b>bold<b>&amp;.json",
    "two\nlines.json",
    "\x1b[31mred\x1b[0m.json",
    "\u202egnp.json",
    "{file} {line} {0}.json",
    "=HYPERLINK(1).json",
    "+1.json",
    "-1.json",
    "@SUM(1).json",
    "\ttab.json",
    "\rcarriage.json",
    "a\\u202eb.json",
    "emoji 🙂 العربية.json",
    "it's `id` $(id).json",
    b"no-utf8-\xff.json",
)


def test_wild_names_are_graded_and_shown_as_what_they_are(sound: Any, tmp_path: Path) -> None:
    sound.rows = None
    sound.documents = {}
    sound.write(tmp_path / "class" / "=cmd|' C calc'!A0 \u202e{x}")
    folder = os.fsencode(next(tmp_path.joinpath("class").iterdir()))
    for name in WILD_NAMES:
        path = os.path.join(folder, os.fsencode(name))
        with open(path, "wb") as file:
            file.write(b'{"forward": 1}')
    found = graded(tmp_path / "class")
    assert len([line for line in found.lines("fail") if line.check == "form"]) == len(WILD_NAMES)
    write_grades(tmp_path / "grades.csv", found.grades, ["zh_TW", "en"])
    write_summary(tmp_path / "summary.csv", found.grades)
    for sheet in ("grades.csv", "summary.csv"):
        text = tmp_path.joinpath(sheet).read_bytes().decode()
        assert not set(text) & set("\x1b\u202e\r\t\ufeff\x00")
        rows = list(csv.reader(text.splitlines()))
        assert len({len(row) for row in rows}) == 1
        assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@"))]
    shown = {row[1] for row in csv.reader(tmp_path.joinpath("grades.csv").open())}
    assert {"two\\u000alines.json", "\\u001b[31mred\\u001b[0m.json", "\\u202egnp.json"} <= shown
    assert {"a\\\\u202eb.json", "no-utf8-\\xff.json", "'=HYPERLINK(1).json"} <= shown


# A forged record


@pytest.mark.parametrize("in_runs_csv", [True, False])
def test_a_record_that_claims_another_machine_passes_nothing_by_it(
    in_runs_csv: bool, sound: Any
) -> None:
    """Declared to be of a CPU, its memory is not compared with the model; nor does it pass then."""
    rows = sound.rows
    record(device="cpu", dtype="float32")(sound)
    sound.rows = rows if in_runs_csv else None
    sound.document(FLASH)["peak_memory_usage(MB)"] += 1
    found = sound.graded("eve")
    lines = [line for line in found.lines("not_checked") if line.file == sound.file(FLASH)]
    assert [line.code for line in lines] == ["identity.not_cuda"]


def test_a_cpu_is_not_compared_with_a_gpu_but_for_what_no_device_can_do(
    sound: Any, tmp_path: Path
) -> None:
    sound.name_device("AMD EPYC (2 CPUs)")
    sound.write(tmp_path / "ann")
    for name in sound.documents:
        sound.rescale(name, 1e-3, ["forward"])
    sound.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert {line.code for line in found.grades.lines if line.check == "physics"} == {
        "physics.cpu",
        "physics.rate",
    }
    assert found.of("ann")["physics"] == "not_checked"
    assert found.of("eve")["physics"] == "fail"
