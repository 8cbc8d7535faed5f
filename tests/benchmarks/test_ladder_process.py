"""The whole process of the assignment's program, with another program in its place."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from flashlab.benchmarks.ladder import process

PROGRAM = """
import json, pathlib, sys
source, target, _, step, _ = sys.argv[1:]
source = pathlib.Path(source)
if step == "Broken":
    sys.exit("no such step")
calls = source.with_suffix(".calls")
calls.write_text(calls.read_text() + "." if calls.exists() else ".")
kernel = float(len(calls.read_text()))
print(json.dumps({"kernel": kernel, "copy_in": 0.5, "overlapped": 0.0}))
"""

ARRAYS = [np.ones((2, 4, 32), np.float32) for _ in range(3)]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "-I", str(file)))


def test_each_time_is_a_sample_and_the_median_is_told() -> None:
    found = process.time_process("Streams", *ARRAYS, times=3)
    assert found["process_kernel"]["samples"] == [1e3, 2e3, 3e3]
    assert found["process_kernel"]["value"] == 2e3
    assert len(found["process_time"]["samples"]) == 3


def test_a_part_that_the_program_does_not_have_is_left_out() -> None:
    found = process.time_process("Streams", *ARRAYS, times=2)
    assert [*found] == ["process_time", "process_kernel", "process_copy_in"]


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(process.ProgramError, match="hw4 --step Broken: no such step"):
        process.time_process("Broken", *ARRAYS, times=2)
