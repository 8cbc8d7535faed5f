"""Submissions that mean harm, of which a bad file is a line; and what is measured again."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import stat
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import FLASH, graded
from planted.course import write_rows
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import ConfigError
from flashlab.lab5.results import Result
from flashlab.records import Record, write_record
from flashlab.untrusted import MAX_FILE_BYTES
from flashlab_grading import submissions as grade
from flashlab_grading.checks import check_reproduction
from flashlab_grading.submissions import check_apart, measured_of, new_order

Put = Callable[[Path], object]
"""Puts a file at a path."""


def zip_of(name: str, content: bytes = b"{}", mode: int = 0, count: int = 1) -> Put:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for info in map(zipfile.ZipInfo, (name * i for i in range(1, count + 1))):
                info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
                archive.writestr(info, content)

    return make


def of_bytes(content: bytes) -> Put:
    return lambda path: path.write_bytes(content)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk


def fifos(path: Path) -> None:
    os.mkfifo(path)
    os.mkfifo(path.with_name("of no kind"))  # is not opened to see what it is


HARMFUL: dict[str, tuple[str, Put, str]] = {
    "an absolute name": ("a.zip", zip_of("/etc/x.json"), "fail form.archive_path"),
    "a name above": ("a.zip", zip_of("a/../../x.json"), "fail form.archive_path"),
    "a drive": ("a.zip", zip_of("C:\\x.json"), "fail form.archive_path"),
    "a link in it": ("a.zip", zip_of("x.json", b"/x", stat.S_IFLNK | 0o777), "fail form.link"),
    "a large member": ("a.zip", zip_of("x.json", b" " * 2**26), "fail form.too_large"),
    "an archive within": ("a.zip", zip_of("inner.zip"), "warn form.archive_nested"),
    "damage": ("a.zip", of_bytes(b"PK\x03\x04 and no more"), "fail form.archive_damaged"),
    "another kind": ("a.7z", of_bytes(b"7z\xbc\xaf\x27\x1c"), "warn form.archive_unknown"),
    "a terabyte": ("a.json", huge, "fail form.too_large"),
    "a link": ("a.json", lambda path: path.symlink_to("/etc/hostname"), "fail form.link"),
    "a link for a submission": ("../ann", lambda path: path.symlink_to("eve"), "fail form.link"),
    "FIFOs": ("a.json", fifos, "fail form.special"),
    "no text": ("a.json", of_bytes(b"\xff{}"), "warn form.not_utf8"),
    "many bytes": ("a.zip", zip_of("x", bytes(2**22), count=33), "fail form.too_many_bytes"),
    "a deep folder": ("/".join("d" * 12), partial(Path.mkdir, parents=True), "fail form.too_deep"),
}


@pytest.mark.parametrize("harm", HARMFUL)
def test_a_harmful_file_is_a_line_the_rest_is_graded(harm: str, sound: Any, tmp_path: Path) -> None:
    name, put, expected = HARMFUL[harm]
    put(sound.write(tmp_path / "eve") / name)
    before = sorted(tmp_path.rglob("*"))
    found = graded(tmp_path)
    assert [f"{x.verdict} {x.code}" for x in found.alarms() if x.check == "form"] == [expected]
    assert found.of("eve")["identity"] == "pass" or harm == "a deep folder"
    assert sorted(tmp_path.rglob("*")) == before


def test_many_members_over_one_body_take_no_memory(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 members, a little too large, that share their bytes."""
    path = sound.write(tmp_path / "eve") / "a.zip"
    zip_of("00000.json", b" " * (MAX_FILE_BYTES + 1))(path)
    content = path.read_bytes()
    start, end = content.index(b"PK\1\2"), content.rindex(b"PK\5\6")
    entries = [content[start:end].replace(b"00000", b"%05d" % i) for i in range(5_000)]
    counts, size = (5_000).to_bytes(2, "little") * 2, sum(map(len, entries))
    sizes = size.to_bytes(4, "little") + start.to_bytes(4, "little")
    last = b"PK\5\6" + bytes(4) + counts + sizes + bytes(2)
    path.write_bytes(content[:start] + b"".join(entries) + last)
    monkeypatch.setattr(grade, "MAX_MEMORY", 64 * 2**20)
    (found,) = check_apart(str(tmp_path), ["eve"], None)
    codes = [line.code for line in found.lines]
    assert codes.count("form.too_large") == 5_000 and "form.budget" not in codes


def test_an_archive_is_looked_into(sound: Any, tmp_path: Path) -> None:
    """Within a submission's folder; not beside its own folder. A large picture is no result."""
    unpacked, folder = sound.write(tmp_path / "unpacked" / "x").parent, tmp_path / "class"
    unpacked.joinpath("x.png").write_bytes(bytes(MAX_FILE_BYTES + 1))
    shutil.make_archive(str(folder / "ann" / "lab5"), "zip", unpacked)
    found = graded(folder)
    assert found.alarms() == [] and found.of("ann")["identity"] == "pass"
    shutil.move(folder / "ann" / "lab5.zip", folder / "ann.zip")
    shutil.copytree(unpacked, folder / "ann", dirs_exist_ok=True)
    assert [s.name for s in graded(folder).submissions] == ["ann"]


class Named(zipfile.ZipInfo):
    """A member whose name is written in an encoding that nothing in the archive states."""

    encoding = "cp950"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # as zipfile names it
        return self.filename.encode(self.encoding), self.flag_bits


@pytest.mark.parametrize("encoding", ["cp950", "utf-8"])
def test_names_in_a_zip_are_those_of_its_rows(encoding: str, sound: Any, tmp_path: Path) -> None:
    """Windows writes them in Big5, of which a character can end in a backslash."""
    for i, name in enumerate(sound.rows):
        sound.rows[name][0] = f"許功蓋/第{i}次.json"
    write_rows(tmp_path, [*sound.rows.values()])
    with zipfile.ZipFile(tmp_path / "ann.zip", "w") as archive:
        for name, document in sound.documents.items():
            member = Named(sound.rows[name][0])
            member.encoding = encoding
            archive.writestr(member, json.dumps(document))
        archive.write(tmp_path / "runs.csv", "runs.csv")
    tmp_path.joinpath("runs.csv").unlink()
    found = graded(tmp_path)
    assert found.alarms() == [] and found.of("ann.zip")["identity"] == "pass"


@pytest.mark.parametrize("harm", ["256 MiB", "4 s", "killed", "division by zero"])
def test_a_submission_beyond_its_bounds_is_one_line(
    harm: str, sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = grade.check_submission

    def harmful(folder: str, name: str, device: str | None) -> Any:
        if name == "eve":
            if harm == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            hoard = [b"x" * 2**20 * (i + 1) for i in range(40)] if harm == "256 MiB" else []
            time.sleep(90 / (harm != "division by zero"))
            del hoard
        return check(folder, name, device)

    monkeypatch.setattr(grade, "check_submission", harmful)
    monkeypatch.setattr(grade, "MAX_SECONDS", 4.0 if harm == "4 s" else 60.0)
    monkeypatch.setattr(grade, "MAX_MEMORY", 256 * 2**20)
    sound.write(tmp_path / "ann")
    ann, eve = check_apart(str(tmp_path), ["ann", "eve"], None)
    assert ann.lines == check(str(tmp_path), "ann", None).lines
    (line,) = (line for line in eve.lines if line.check == "form")
    assert harm.replace("killed", "256 MiB") in "".join(line.params.values())


def test_a_file_that_changes_or_becomes_a_link_is_not_believed(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sound.write(tmp_path / "class" / "eve") / sound.file(FLASH)
    opened = os.open

    def swap_and_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if path == target.name and not target.is_symlink():
            target.unlink()
            target.symlink_to("/etc/hostname")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr("flashlab.untrusted.os.open", swap_and_open)
    fails = {line.file: line.code for line in graded(tmp_path / "class").lines("fail")}
    assert fails[target.name] == "form.unreadable"


HERE = "NVIDIA GeForce RTX 3070"
SHAPE = Shape(4, 256, 8, 512, True)


def result(implementation: str, seconds: float, device: str | None = HERE, n: int = 256) -> Result:
    said = {"implementation": implementation, **Shape(4, n, 8, 512, True).parameters}
    said |= {"device": device} if device else {}
    times = {"forward": seconds, "backward": 2 * seconds, "forward_backward": 3 * seconds}
    return Result(f"{implementation}-{n}.json", "", "", said, seconds=times, rates=times)


def measured(seconds: float, status: str, warning: str) -> Record:
    times = {"forward": [seconds] * 12, "backward": [2 * seconds] * 12}
    run, codes = attention_run("Flash2", SHAPE, "float16", "cuda"), [{"code": warning}]
    return record_of(run, status, **times, warnings=codes if warning else [])


with Path(__file__).with_name("compared.csv").open(encoding="utf-8") as file:
    COMPARED = {each["case"]: each for each in csv.DictReader(file)}


@pytest.mark.parametrize("case", COMPARED)
def test_on_the_same_device_times_agree_within_a_quarter(case: str, tmp_path: Path) -> None:
    of, again = COMPARED[case], {}
    handed = result(of["implementation"], float(of["seconds"]), of["device"])
    if of["measured"]:  # as the order names it
        record = measured(float(of["measured"]), of["status"], of["warning"])
        write_record(tmp_path / "r.json", record)
        again = measured_of({"orders": {tmp_path / "r.json": {"run": record.run.to_json()}}})
    (line,) = check_reproduction([handed], again, HERE)
    assert f"{line.verdict} {line.code.removeprefix('reproduction.')}" == of["said"]


def sample(accused: Sequence[Result], others: Iterable[Result], count: int, seed: int) -> Any:
    """The runs that are chosen."""
    every = [*((True, own) for own in accused), *((False, own) for own in others)]
    return grade.choose(every, HERE, count, seed)


def test_launches_unknown_kernels_and_other_devices_are_not_sampled() -> None:
    results = [result("Flash2", 1e-5, n=64), result("Flash2", 0.01), result("Mystery", 0.01)]
    results += [result("Pytorch", 0.01, device) for device in ("NVIDIA H200", None)]
    assert sample(results, results, 9, 0) == [("Flash2", SHAPE)]


def test_accused_submissions_are_sampled_first_and_the_others_by_the_seed() -> None:
    others = [result("Flash2", 0.01, n=n) for n in range(64, 64 * 40, 64)]
    accused = [others[4], others[9]]
    chosen = [sample(accused, others, 3, seed) for seed in range(9)]
    assert all({shape.seq_len for _, shape in own[:2]} == {320, 640} for own in chosen)
    assert len({third for *_, third in chosen}) > 1
    assert sample(accused, reversed(others), 3, 1) == chosen[1]


def test_a_call_that_grades_nothing_orders_nothing(tmp_path: Path) -> None:
    here, report = str(tmp_path / "class"), tmp_path / "lab5.pdf"
    Path(here).mkdir()
    report.touch()
    for order, said in (
        ({"reproduce": 5}, r"reproduce: it measures runs of submissions=DIR"),
        ({"submissions": here, "reproduce": 1, "dataset": "h200"}, "on this machine: give it"),
        ({"submissions": f"{here}/gone"}, "there is no folder"),
        ({"pdf": f"{here}/gone.pdf"}, "there is no file"),
        ({"pdf": str(report), "submissions": here}, "give either"),
    ):
        with pytest.raises(ConfigError, match=said):
            new_order(order, tmp_path)
    with pytest.raises(ConfigError, match="has no subfolders"):
        grade.find_submissions(here)
    assert sorted(tmp_path.iterdir()) == [Path(here), report]
