"""Archives that mean harm: nothing is written, and each bad member is one line."""

from __future__ import annotations

import json
import shutil
import stat
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import graded
from planted.course import write_rows

from flashlab.untrusted import MAX_FILE_BYTES
from flashlab_grading import apart
from flashlab_grading.apart import check_apart
from flashlab_grading.model import CHECKS


def zip_of(path: Path, **members: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
    for name, content in members.items():
        archive.writestr(name, content)
    return archive


def with_member(name: str, content: bytes = b"{}", mode: int = 0) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zip_of(path) as archive:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)

    return make


def of_bytes(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


def many_over_one_body(path: Path) -> None:
    """5,000 members, a little too large, that share their bytes."""
    zip_of(path, **{"00000.json": b" " * (MAX_FILE_BYTES + 1)}).close()
    content = path.read_bytes()
    (end,) = (i for i in range(len(content) - 22, 0, -1) if content[i : i + 4] == b"PK\5\6")
    start = content.index(b"PK\1\2")
    entry = content[start:end]
    entries = b"".join(entry.replace(b"00000", b"%05d" % i) for i in range(5_000))
    counts = (5_000).to_bytes(2, "little") * 2
    sizes = len(entries).to_bytes(4, "little") + start.to_bytes(4, "little")
    path.write_bytes(content[:start] + entries + b"PK\5\6" + bytes(4) + counts + sizes + bytes(2))


HARMFUL: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "an absolute name": ("a.zip", with_member("/etc/x.json"), "fail form.archive_path"),
    "a name above": ("a.zip", with_member("a/../../x.json"), "fail form.archive_path"),
    "a drive": ("a.zip", with_member("C:\\x.json"), "fail form.archive_path"),
    "a link": ("a.zip", with_member("x.json", b"/x", stat.S_IFLNK | 0o777), "fail form.link"),
    "a large member": ("a.zip", with_member("x.json", b" " * 2**26), "fail form.too_large"),
    "an archive within": ("a.zip", with_member("inner.zip"), "warn form.archive_nested"),
    "damage": ("a.zip", of_bytes(b"PK\x03\x04 and no more"), "fail form.archive_damaged"),
    "another kind": ("a.7z", of_bytes(b"7z\xbc\xaf\x27\x1c"), "warn form.archive_unknown"),
    "a tar": ("a.tar.gz", of_bytes(b"\x1f\x8b"), "warn form.archive_unknown"),
}


@pytest.mark.parametrize("harm", HARMFUL)
def test_a_harmful_archive_is_a_line_and_the_rest_is_graded(
    harm: str, sound: Any, tmp_path: Path
) -> None:
    name, make, expected = HARMFUL[harm]
    make(sound.write(tmp_path / "eve") / name)
    before = sorted(tmp_path.rglob("*"))
    found = graded(tmp_path)
    told = [f"{line.verdict} {line.code}" for line in found.alarms()]
    assert told == [expected]
    assert found.of("eve")["identity"] == "pass"
    assert sorted(tmp_path.rglob("*")) == before


def test_many_members_over_one_body_take_no_memory(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "MAX_MEMORY", 64 * 2**20)
    many_over_one_body(sound.write(tmp_path / "eve") / "a.zip")
    (found,) = check_apart(str(tmp_path), ["eve"], None)
    codes = [line.code for line in found.lines]
    assert codes.count("form.too_large") == 5_000
    assert "form.budget" not in codes


ARCHIVES = ("ann.zip", "ann/lab5.zip")


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_looked_into(name: str, sound: Any, tmp_path: Path) -> None:
    """Beside the others' folders, and within one's own."""
    sound.write(tmp_path / "unpacked" / "x")
    target = tmp_path / "class" / name
    target.parent.mkdir(parents=True)
    shutil.move(shutil.make_archive(str(tmp_path / "made"), "zip", tmp_path / "unpacked"), target)
    found = graded(tmp_path / "class")
    assert found.alarms() == []
    assert found.badges(name.partition("/")[0]) == ("available", "functional")


def test_an_archive_beside_its_own_folder_is_no_copy(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "a.b")
    shutil.make_archive(str(folder), "zip", folder)
    found = graded(tmp_path)
    assert [summary.submission for summary in found.grades.summaries] == ["a.b"]


class Named(zipfile.ZipInfo):
    """A member whose name is written in an encoding that nothing in the archive states."""

    encoding = "cp950"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # as zipfile names it
        return self.filename.encode(self.encoding), self.flag_bits


@pytest.mark.parametrize("encoding", ["cp950", "utf-8"])
def test_names_in_a_zip_are_those_that_its_rows_have(
    encoding: str, sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows writes them in Big5, of which a character can end in a backslash."""
    monkeypatch.setattr(Named, "encoding", encoding)
    renamed = dict(zip(sound.documents, (f"許功蓋/第{i}次.json" for i in range(99)), strict=False))
    with zipfile.ZipFile(tmp_path / "ann.zip", "w") as archive:
        for name, document in sound.documents.items():
            archive.writestr(Named(renamed[name]), json.dumps(document))
        write_rows(tmp_path, [[renamed[name], *row[1:]] for name, row in sound.rows.items()])
        archive.write(tmp_path / "runs.csv", "runs.csv")
    tmp_path.joinpath("runs.csv").unlink()
    found = graded(tmp_path)
    assert found.alarms() == []
    assert found.of("ann.zip") | {"copies": "pass", "reproduction": "pass"} == dict.fromkeys(
        CHECKS, "pass"
    )


@pytest.mark.parametrize(("on_disk", "in_rows"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_composed_and_decomposed_names_are_the_same(
    on_disk: Any, in_rows: Any, sound: Any, tmp_path: Path
) -> None:
    sound.write(tmp_path / "ann" / unicodedata.normalize(on_disk, "résultats ガ"))
    folder = unicodedata.normalize(in_rows, "résultats ガ")
    rows = [[f"{folder}/{name}", *row[1:]] for name, row in sound.rows.items()]
    next(tmp_path.glob("ann/*/runs.csv")).unlink()
    write_rows(tmp_path / "ann", rows)
    found = graded(tmp_path)
    assert found.alarms() == []
    assert found.of("ann")["identity"] == "pass"
