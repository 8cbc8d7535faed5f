from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from flashlab.calls.watching import has_ended
from flashlab.measuring.warm import hold_gpus

HOLDER = "from flashlab.measuring.warm import hold_gpus; held = hold_gpus(); input()"


def test_what_holds_the_gpus_ends_with_the_warm_parent_however_that_ends(
    tmp_path: Path, root: Path
) -> None:
    """A program in the place of nvidia-smi, whose warm parent is killed."""
    program, written = tmp_path / "nvidia-smi", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {written}\nwhile echo power; do sleep 0.05; done\n")
    program.chmod(0o755)
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(root / "workflow"),
        },
        stdin=subprocess.PIPE,
    )
    try:
        wait_until(lambda: written.exists() and written.read_text().strip() != "", "its start")
        holding = psutil.Process(int(written.read_text()))
        assert not has_ended(holding)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: has_ended(holding), "its end")
    finally:
        parent.kill()
        parent.wait()


def test_a_machine_without_a_driver_measures_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hold_gpus() is None
