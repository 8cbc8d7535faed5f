from __future__ import annotations

import base64
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from planted.calls import another_call

from flashlab.calls import exclusive
from flashlab.calls.exclusive import BusyError, FolderClaim

ROOT = Path(__file__).parents[1]


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


def test_the_lock_of_a_living_call_is_left_alone_and_the_call_named(snakemake: Path) -> None:
    with another_call(snakemake) as other:
        theirs = lock(snakemake)
        claim = FolderClaim(snakemake)
        with pytest.raises(
            BusyError, match=rf"\(process {other.pid}\) .* nothing was changed\. Wait"
        ):
            claim.take()
        assert not claim.held
        assert theirs.exists()


def test_the_claim_goes_with_a_process_that_is_killed(snakemake: Path) -> None:
    with another_call(snakemake) as other:
        stale = lock(snakemake)
        os.kill(other.pid, signal.SIGKILL)
    claim = FolderClaim(snakemake)
    claim.take()
    assert claim.held
    assert not stale.exists()


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
    FolderClaim(snakemake).take()
    assert not whole.exists()
    assert missing.exists() and half.exists()


TWO_HOSTS = """
import fcntl, sys
from pathlib import Path
from flashlab.calls import exclusive
fcntl.flock = lambda *_: None  # a filesystem that passes no lock from host to host
claim = exclusive.FolderClaim(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    claim.take()
except exclusive.BusyError:
    pass
print("held" if claim.held else "refused", flush=True)
sys.stdin.read()
"""


def begin(call: subprocess.Popen[str]) -> None:
    assert call.stdin
    call.stdin.write("\n")
    call.stdin.flush()


def said(call: subprocess.Popen[str]) -> str:
    assert call.stdout
    return call.stdout.readline().strip()


def taken(call: subprocess.Popen[str]) -> str:
    begin(call)
    return said(call)


@pytest.fixture
def on_host(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a call on a host of this name, whose process numbers and TMPDIR are its own."""
    namespaces = ["unshare", "--user", "--map-root-user", "--uts", "--mount", "--pid"]
    namespaces += ["--kill-child", "--mount-proc"]
    if subprocess.run([*namespaces, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system gives no namespaces, so that two hosts cannot be had")
    setup = 'mount --bind "$1" /mnt && hostname "$2" && exec "$3" -c "$4" /mnt/.snakemake'
    started = []

    def start(host: str) -> subprocess.Popen[str]:
        program = ["sh", "-c", setup, "sh", str(tmp_path), host, sys.executable, TWO_HOSTS]
        own = {"PYTHONPATH": str(ROOT / "workflow"), "TMPDIR": str(tmp_path_factory.mktemp(host))}
        call = subprocess.Popen(
            [*namespaces, *program],
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(call)
        assert said(call) == "ready"
        return call

    yield start
    for call in started:
        call.kill()
        call.communicate()


def test_two_hosts_do_not_work_in_one_folder_where_no_lock_passes_between_them(
    on_host: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    first = on_host("node1")
    assert taken(first) == "held"
    claim = tmp_path / ".snakemake" / "flashlab.host"
    assert claim.read_text() == "node1"
    assert taken(on_host("node2")) == "refused"
    first.kill()  # it leaves its claim behind, which its own host takes back
    first.wait()
    assert taken(on_host("node2")) == "refused"
    again = on_host("node1")
    assert taken(again) == "held"
    again.communicate()  # ends, and leaves nothing behind
    assert not claim.exists()
    assert taken(on_host("node2")) == "held"


def test_of_hosts_that_begin_at_the_same_moment_one_has_the_folder(
    on_host: Callable[[str], subprocess.Popen[str]],
) -> None:
    calls = [on_host(host) for host in ("node1", "node2")]
    for call in calls:
        begin(call)
    assert sorted(map(said, calls)) == ["held", "refused"]


def test_what_another_host_left_behind_is_named_with_the_file_to_remove(snakemake: Path) -> None:
    (snakemake / "flashlab.host").write_text("node1")
    claim = FolderClaim(snakemake)
    with pytest.raises(BusyError) as refusal:
        claim.take()
    assert not claim.held and "(on the host node1)" in str(refusal.value)
    assert f"if it was killed, remove {snakemake.absolute() / 'flashlab.host'}" in str(
        refusal.value
    )
    (snakemake / "flashlab.host").unlink()
    claim.take()
    assert claim.held
    claim.release()


def test_without_any_lock_two_calls_on_one_host_do_not_share_a_folder(
    snakemake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(exclusive.fcntl, "flock", no_locks)
    first, second = FolderClaim(snakemake), FolderClaim(snakemake)
    first.take()
    with pytest.raises(BusyError):
        second.take()
    assert (first.held, second.held) == (True, False)
    first.release()
