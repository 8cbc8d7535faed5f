from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.records import (
    STATUSES,
    RecordError,
    Run,
    Shape,
    canonical,
    check_record,
    read_record,
    sha256_of,
    write_json,
    write_json_if_changed,
    write_record,
)

Build = Callable[..., dict[str, Any]]

sizes = st.integers(1, 2**40)
shapes = st.builds(Shape, sizes, sizes, sizes, sizes, st.booleans())
runs = st.builds(
    Run,
    st.text(min_size=1),
    shapes,
    st.sampled_from(["float16", "bfloat16", "float32"]),
    st.sampled_from(["cuda", "cpu"]),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(runs)
def test_a_run_survives_its_json(run: Run) -> None:
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@given(st.dictionaries(st.text(), json_values), st.randoms())
def test_canonical_text_does_not_depend_on_the_order_of_keys(
    value: dict[str, Any], random: Random
) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_canonical_and_written_json_refuse_what_json_has_not(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError):
        canonical({"x": number})
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"x": number})
    assert list(tmp_path.iterdir()) == []


def test_a_run_says_what_it_is_in_one_line() -> None:
    run = Run("Flash2", Shape(16, 1024, 32, 2048, False), "float16", "cuda")
    assert str(run) == "Flash2 B16 N1024 H32 E2048 full float16 cuda"
    assert run.slug == "flash2-b16-n1024-h32-e2048-full-float16-cuda"
    assert run.shape.head_dim == 64


@pytest.mark.parametrize("status", STATUSES)
def test_a_record_of_any_status_is_read_as_it_was_written(
    tmp_path: Path, run: Run, record_of: Build, status: str
) -> None:
    record = record_of(run, status)
    write_record(tmp_path / "r.json", record)
    assert read_record(tmp_path / "r.json", run, sha256_of(tmp_path / "r.json")) == record


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_run_that_failed_has_no_numbers_and_a_message(
    run: Run, record_of: Build, status: str
) -> None:
    failed = record_of(run, status)
    timed = {**failed, "backward": {"time(s)": 0.1, "FLOPS(TFLOPs/s)": None}}
    sized = {**failed, "peak_memory_usage(MB)": 1.0}
    silent = record_of(run, status, message=None)
    for wrong in (timed, sized, silent):
        with pytest.raises(RecordError, match="here"):
            check_record(wrong, "here")


def test_a_run_that_is_ok_has_every_number(run: Run, record_of: Build) -> None:
    for key in ("forward", "backward", "forward_backward"):
        for value in (None, 0, -1.0, True, "0.1"):
            wrong = record_of(run)
            wrong[key]["time(s)"] = value
            with pytest.raises(RecordError, match=key):
                check_record(wrong, "here")
    with pytest.raises(RecordError, match="peak_memory"):
        check_record({**record_of(run), "peak_memory_usage(MB)": None}, "here")


def test_a_record_has_no_keys_but_its_own(run: Run, record_of: Build) -> None:
    with pytest.raises(RecordError, match="colour"):
        check_record({**record_of(run), "colour": "red"}, "here")


def test_a_reader_refuses_the_record_of_another_run(
    tmp_path: Path, run: Run, record_of: Build
) -> None:
    write_record(tmp_path / "r.json", record_of(run))
    other = Run("Pytorch", run.shape, run.dtype, run.device)
    with pytest.raises(RecordError, match=r"Flash2 .* but Pytorch .* was asked for"):
        read_record(tmp_path / "r.json", other)


def test_a_reader_refuses_a_file_that_changed_since_it_was_recorded(
    tmp_path: Path, run: Run, record_of: Build
) -> None:
    path = tmp_path / "r.json"
    write_record(path, record_of(run))
    recorded = sha256_of(path)
    path.write_text(path.read_text().replace("0.001", "0.0001"))
    with pytest.raises(RecordError, match="sha256"):
        read_record(path, run, recorded)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"record": {}}']
)
def test_a_reader_refuses_what_is_no_record(tmp_path: Path, run: Run, content: bytes) -> None:
    (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(RecordError, match=r"r\.json"):
        read_record(tmp_path / "r.json", run)


def test_a_reader_refuses_a_time_that_is_not_a_number(
    tmp_path: Path, run: Run, record_of: Build
) -> None:
    path = tmp_path / "r.json"
    write_record(path, record_of(run))
    for number in ("NaN", "Infinity"):
        document = path.read_text().replace('"time(s)": 0.001,', f'"time(s)": {number},')
        (tmp_path / "changed.json").write_text(document)
        with pytest.raises(RecordError, match=r"changed\.json"):
            read_record(tmp_path / "changed.json", run)


def test_a_missing_record_is_an_error_that_names_the_run(tmp_path: Path, run: Run) -> None:
    with pytest.raises(RecordError, match="Flash2 B2 N64"):
        read_record(tmp_path / "nowhere.json", run)


def test_an_unchanged_document_keeps_its_time_of_change(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "plan.json"
    write_json_if_changed(path, {"a": 1})
    os.utime(path, (1, 1))
    write_json_if_changed(path, {"a": 1})
    assert path.stat().st_mtime == 1
    write_json_if_changed(path, {"a": 2})
    assert path.stat().st_mtime > 1
    assert json.loads(path.read_text()) == {"a": 2}


def test_killed_in_the_middle_of_writing_the_old_file_stays_whole(
    tmp_path: Path, root: Path
) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    code = (
        "import sys, time; from pathlib import Path; from flashlab.records import written_whole\n"
        f"with written_whole(Path({str(path)!r})) as file:\n"
        "    file.write('half of the new'); file.flush(); print('writing', flush=True)\n"
        "    time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
    ) as writer:
        assert writer.stdout and writer.stdout.readline() == b"writing\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert path.read_text() == "old"
    write_json(path, {"after": "the kill"})
    assert json.loads(path.read_text()) == {"after": "the kill"}


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path, documents = tmp_path / "r.json", [["a" * 200_000], ["b" * 300_000]]
    write_json(path, documents[0])
    code = (  # reads as often as possible until told to stop
        "import json, sys; from pathlib import Path\n"
        "path, stop, reads = Path(sys.argv[1]), Path(sys.argv[2]), 0\n"
        "while not stop.exists():\n"
        "    assert len(json.loads(path.read_text())[0]) in (200_000, 300_000)\n"
        "    reads += 1\n"
        "print(reads)"
    )
    stop = tmp_path / "stop"
    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(stop)], stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        write_json(path, documents[1])
        write_json(path, documents[0])
    stop.touch()
    reads, _ = reader.communicate()
    assert reader.returncode == 0
    assert int(reads) > 10


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk with room for 64 KiB; where mounting is denied, a limit on files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    yield folder
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    else:
        subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_nothing_is_left_but_what_was_there(full_disk: Path) -> None:
    path = full_disk / "r.json"
    write_json(path, "old")
    with pytest.raises(OSError):
        write_json(path, ["x" * 100_000])
    assert [p.name for p in full_disk.iterdir()] == ["r.json"]
    assert json.loads(path.read_text()) == "old"
