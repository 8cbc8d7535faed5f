from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashlab import exclusive
from flashlab.exclusive import FolderClaim


@pytest.fixture
def snakemake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as a killed Snakemake call leaves it: its lock, and marks of unfinished jobs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exclusive, "WAIT_SECONDS", 0.3)
    folder = tmp_path / ".snakemake"
    (folder / "locks").mkdir(parents=True)
    (folder / "locks" / "0.output.lock").write_text("report/lab5.pdf\n")
    (folder / "incomplete").mkdir()
    return folder


@contextmanager
def another_call(snakemake: Path, root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A second, living process that holds the claim on the folder."""
    code = (
        "import sys; from pathlib import Path; from flashlab.exclusive import FolderClaim\n"
        f"claim = FolderClaim(Path({str(snakemake)!r})); claim.take()\n"
        "print(claim.held, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
    )
    with process:
        assert process.stdout and process.stdout.readline() == b"True\n"
        yield process


def lock(snakemake: Path) -> Path:
    snakemake.joinpath("locks").mkdir(exist_ok=True)
    path = snakemake / "locks" / "0.output.lock"
    path.touch()
    return path


def test_the_lock_of_a_killed_call_is_removed(snakemake: Path) -> None:
    claim = FolderClaim(snakemake)
    claim.take()
    assert claim.held
    assert not (snakemake / "locks").exists()


def test_the_lock_of_a_living_call_is_left_alone_and_the_call_named(
    snakemake: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with another_call(snakemake, root) as other:
        theirs = lock(snakemake)
        claim = FolderClaim(snakemake)
        claim.take()
        assert not claim.held
        assert theirs.exists()
        assert f"(process {other.pid})" in capsys.readouterr().err


def test_the_claim_goes_with_a_process_that_is_killed(snakemake: Path, root: Path) -> None:
    with another_call(snakemake, root) as other:
        stale = lock(snakemake)
        os.kill(other.pid, signal.SIGKILL)
    claim = FolderClaim(snakemake)
    claim.take()
    assert claim.held
    assert not stale.exists()


def test_a_folder_that_was_never_worked_in_is_claimed(tmp_path: Path) -> None:
    claim = FolderClaim(tmp_path / ".snakemake")
    claim.take()
    assert claim.held


def test_only_records_that_were_written_whole_lose_their_mark_as_unfinished(
    snakemake: Path,
) -> None:
    def mark(output: str) -> Path:
        marker = snakemake / "incomplete" / base64.urlsafe_b64encode(output.encode()).decode()
        marker.touch()
        return marker

    whole = mark("results/local/records/a.json")
    Path("results/local/records").mkdir(parents=True)
    Path("results/local/records/a.json").write_text("{}")
    missing = mark("results/local/records/b.json")
    half = mark("report/lab5.pdf")
    Path("report").mkdir()
    Path("report/lab5.pdf").touch()
    strange = snakemake / "incomplete" / "no base64!"
    strange.touch()
    FolderClaim(snakemake).take()
    assert not whole.exists()
    assert missing.exists() and half.exists() and strange.exists()
