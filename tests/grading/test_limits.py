from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flashlab_grading.apart import LimitError, run_within_limits


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
