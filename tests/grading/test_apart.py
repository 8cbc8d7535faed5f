"""What takes all memory or time loses its own grade, or verdict, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import measured_again

from flashlab_grading import apart
from flashlab_grading.apart import LimitError, check_apart, run_within_limits
from flashlab_grading.grade import check_alone
from flashlab_grading.submissions import read_submission


def test_what_is_checked_apart_is_what_is_checked_here(sound: Any, tmp_path: Path) -> None:
    names = ["ann", "ben", "cem"]
    for seed, name in enumerate(names):
        measured_again(sound, seed).write(tmp_path / name)
    found = list(check_apart(str(tmp_path), names, "NVIDIA H200"))
    assert found == [
        check_alone(read_submission(str(tmp_path), name, "NVIDIA H200")) for name in names
    ]


@pytest.mark.parametrize("harm", ["memory", "time"])
def test_a_submission_beyond_its_bounds_is_one_line(
    harm: str, sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = apart.read_submission

    def harmful(folder: str, name: str, device: str | None) -> Any:
        if name == "eve":
            hoard = [bytearray(2**20) for _ in range(4096)] if harm == "memory" else []
            time.sleep(30)
            del hoard
        return read(folder, name, device)

    monkeypatch.setattr(apart, "read_submission", harmful)
    monkeypatch.setattr(apart, "MAX_SECONDS", 4.0)
    monkeypatch.setattr(apart, "MAX_MEMORY", 256 * 2**20)
    sound.write(tmp_path / "ann")
    begin = time.monotonic()
    ann, eve = check_apart(str(tmp_path), ["ann", "eve"], None)
    assert time.monotonic() - begin < 20
    assert "fail" not in {line.verdict for line in ann.lines}
    assert [line.code for line in eve.lines if line.check == "form"] == ["form.budget"]


# A report's process


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_a_command_ends_with_its_own_status() -> None:
    assert run_within_limits(python("raise SystemExit(3)")) == 3


def test_what_is_no_report_ends_verify_with_1_and_one_line(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pdf"
    nothing.write_bytes(b"%PDF-1.7")
    command = (sys.executable, "-m", "flashlab", "verify", "--pdf", str(nothing))
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {nothing}: it cannot be read as a PDF")


def test_a_command_that_takes_too_much_is_ended() -> None:
    with pytest.raises(LimitError, match=r"more than 0\.2 s"):
        run_within_limits(python("while True: pass"), most_seconds=0.2)
    memory = "a = b'x' * 300_000_000\nwhile True: pass"
    with pytest.raises(LimitError, match="more than 200 MiB"):
        run_within_limits(python(memory), most_bytes=200 * 1024**2)


def test_a_command_that_is_killed_is_no_success() -> None:
    with pytest.raises(LimitError, match="signal 9"):
        run_within_limits(python("import os; os.kill(os.getpid(), 9)"))
