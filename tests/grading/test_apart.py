"""A submission that takes all memory or time loses its own grade, and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import measured_again

from flashlab_grading import apart, verification
from flashlab_grading.apart import check_apart
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


@pytest.mark.parametrize(("harm", "limit"), [("memory", "256 MiB"), ("time", "4 s")])
def test_a_submission_beyond_its_bounds_is_one_line(
    harm: str, limit: str, sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = apart.read_submission

    def harmful(folder: str, name: str, device: str | None) -> Any:
        if name == "eve":
            hoard = [b"x" * 2**20 * (i + 1) for i in range(40)] if harm == "memory" else []
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
    (line,) = (line for line in eve.lines if line.check == "form")
    assert (line.code, line.params["limit"]) == ("form.budget", limit)


# A report's process


def test_what_is_no_report_ends_verify_with_1_and_one_line(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pdf"
    nothing.write_bytes(b"%PDF-1.7")
    command = (sys.executable, "-m", "flashlab", "verify", "--pdf", str(nothing))
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {nothing}: it cannot be read as a PDF")


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("function", "limit"), [(partial(time.sleep, 9), "0.5 s"), (killed, "1024 MiB")]
)
def test_a_report_whose_process_does_not_come_to_its_end_is_not_verified(
    function: Callable[[], None], limit: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(verification, "MAX_SECONDS", 0.5)
    monkeypatch.setattr(verification, "verified", lambda *_: function())
    assert verification.verify(Path("x.pdf"), None) == 1
    assert f"was not verified to its end: it took more than {limit}" in capsys.readouterr().err
