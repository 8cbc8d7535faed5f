from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from measuring.conftest import RUN, Kernel, Measured
from waiting import PATIENCE, wait_until

from flashlab.benchmarks.implementations import Implementation
from flashlab.calls.watching import has_ended
from flashlab.measuring.start import fingerprint, lasting_parent
from flashlab.measuring.warm import Imported, open_devices, preload
from flashlab.stage import WORKFLOW_PID

SUPERVISOR = """
import json, sys
from pathlib import Path
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import read_implementation
from flashlab.measuring.supervise import measure_run
from flashlab.runs import Run
order = json.loads(sys.argv[1])
sys.executable = order["python"]
kernel = read_implementation(Path(order["kernel"]))
run, output = Run.of(ATTENTION, order["run"]), Path(order["output"])
measure_run(ATTENTION, run, order["protocol"], kernel, {}, output)
"""


@pytest.fixture(autouse=True)
def _job(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root / "workflow"))


@pytest.fixture(params=["cold", "warm"])
def _started(request: pytest.FixtureRequest) -> None:
    if request.param == "warm":
        request.getfixturevalue("in_workflow")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "records" / "r.json"


@contextmanager
def hanging(
    kernel: Implementation, protocol: dict[str, Any], output: Path
) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """A supervisor in a process of its own, and the measuring process in a hanging kernel."""
    order = {
        "run": RUN.to_json(),
        "protocol": protocol,
        "kernel": str(kernel.path),
        "output": str(output),
        "python": sys.executable,
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, json.dumps(order)], env=environment
    )
    written = Path(f"{kernel.path}.pid")
    try:
        wait_until(lambda: written.exists() and written.read_text().isdigit(), "the start of a run")
        measuring = psutil.Process(int(written.read_text()))
        try:
            yield supervisor, measuring
        finally:
            if not has_ended(measuring):
                measuring.kill()
    finally:
        supervisor.kill()
        supervisor.wait()


@pytest.mark.usefixtures("_started")
def test_the_measuring_process_dies_with_a_killed_supervisor(
    kernel: Kernel, hang: str, protocol: dict[str, Any], output: Path
) -> None:
    with hanging(kernel(hang), protocol, output) as (supervisor, measuring):
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_until(lambda: has_ended(measuring), "the end of the measuring process")
    assert not output.exists()


def test_everything_dies_with_a_killed_workflow(
    kernel: Kernel,
    hang: str,
    protocol: dict[str, Any],
    output: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    monkeypatch.setenv(WORKFLOW_PID, str(workflow.pid))
    try:
        with hanging(kernel(hang), protocol, output) as (supervisor, measuring):
            warm = psutil.Process(measuring.ppid())
            os.kill(workflow.pid, signal.SIGKILL)  # and not reaped, as a shell leaves it
            assert supervisor.wait(PATIENCE) != 0
            wait_until(lambda: has_ended(measuring) and has_ended(warm), "the end of both")
            wait_until(lambda: not list(tmp_path.glob("flashlab-*/warm")), "the socket's removal")
    finally:
        workflow.kill()
        workflow.wait()
    assert not output.exists()


@pytest.mark.usefixtures("in_workflow")
def test_the_measuring_process_dies_with_its_killed_keeper_and_has_no_record(
    kernel: Kernel, hang: str, protocol: dict[str, Any], output: Path
) -> None:
    with hanging(kernel(hang), protocol, output) as (supervisor, measuring):
        os.kill(measuring.ppid(), signal.SIGKILL)
        assert supervisor.wait(PATIENCE) != 0
        assert has_ended(measuring)
    assert not output.exists()


@pytest.mark.usefixtures("_started")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM", "SIGKILL"])
def test_a_signal_from_outside_ends_a_run_without_a_record(
    kernel: Kernel, hang: str, protocol: dict[str, Any], output: Path, name: str
) -> None:
    with hanging(kernel(hang), protocol, output) as (supervisor, measuring):
        measuring.send_signal(signal.Signals[name])
        assert supervisor.wait(PATIENCE) != 0
    assert not output.exists()


@pytest.mark.usefixtures("in_workflow")
def test_jobs_of_one_workflow_are_forked_from_one_parent_into_processes_of_their_own(
    kernel: Kernel, measure: Measured
) -> None:
    mine = kernel(
        """
        import os
        with open(__file__ + ".pids", "a") as file:
            print(os.getpid(), os.getpgid(0), file=file)
        return naive(qkv, causal)
        """
    )
    for _ in range(2):
        record = measure(mine)
        assert record.status == "ok"
        assert record.environment["started_warm"]
    processes, groups = zip(
        *(line.split() for line in Path(f"{mine.path}.pids").read_text().splitlines()), strict=True
    )
    assert len(set(processes)) == 2
    assert len(set(groups)) == 1
    assert str(os.getpgid(0)) not in groups


@pytest.mark.usefixtures("in_workflow")
def test_a_fork_finds_what_its_kernel_preloads_imported_once_and_not_by_itself(
    kernel: Kernel, measure: Measured
) -> None:
    mine = kernel(
        """
        import os, sys
        ahead = [name for name in ("wave", "a_library_that_nobody_has") if name in sys.modules]
        open(__file__ + ".ahead", "w").write(" ".join(ahead))
        return naive(qkv, causal)
        """
    )
    ahead = Path(f"{mine.path}.ahead")
    assert measure(mine).status == "ok"
    assert ahead.read_text() == ""
    mine = dataclasses.replace(mine, preloads=("wave", "a_library_that_nobody_has"))
    record = measure(mine)
    assert (record.status, record.environment["started_warm"]) == ("ok", True)
    assert ahead.read_text() == "wave"


def test_devices_held_open_are_told_by_their_files(tmp_path: Path) -> None:
    assert open_devices() == []
    with open(tmp_path / "nvidia0", "w"):
        assert open_devices() == []


def test_a_library_that_touches_a_device_is_not_preloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashlab.measuring.warm.open_devices", lambda: ["/dev/nvidia0"])
    with pytest.raises(RuntimeError, match="wave has opened /dev/nvidia0"):
        preload(("wave",))


@pytest.mark.usefixtures("in_workflow")
def test_a_job_in_another_environment_is_started_cold(
    measure: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measure("return naive(qkv, causal)").environment["started_warm"]
    before = fingerprint()
    monkeypatch.setenv("MKL_CBWR", "X")
    assert fingerprint() != before
    body = "import os; assert os.environ['MKL_CBWR'] == 'X'; return naive(qkv, causal)"
    record = measure(body)
    assert (record.status, record.environment["started_warm"]) == ("ok", False)


def test_the_fingerprint_knows_no_threads_of_snakemakes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("SHLVL", "9")
    assert fingerprint() == before


@pytest.fixture
def in_lasting_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], set[int]]]:
    """Has measuring processes be forks of the parent that outlives calls; returns who that is."""
    with tempfile.TemporaryDirectory(
        prefix="fl-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("flashlab.measuring.supervise.parent_of", lambda _: lasting_parent())

        def running() -> set[int]:
            found = set()
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if process.cmdline()[-1:] == [getattr(lasting_parent(), "path", "")]:
                        found.add(process.pid)
            return found

        yield running


def test_the_lasting_parent_is_replaced_when_what_it_has_imported_or_its_environment_changes(
    in_lasting_parent: Callable[[], set[int]],
    kernel: Kernel,
    measure: Measured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = tmp_path / "of_the_kernel.py"
    mine = kernel(
        """
        import os, of_the_kernel
        said = [of_the_kernel.WORD, os.environ.get("MKL_CBWR", "none")]
        open(__file__ + ".said", "w").write(" ".join(said))
        return naive(qkv, causal)
        """
    )
    mine = dataclasses.replace(mine, preloads=(library.stem,))
    seen: list[set[int]] = []

    def said() -> str:
        assert measure(mine).environment["started_warm"]
        seen.append(in_lasting_parent())
        return Path(f"{mine.path}.said").read_text()

    library.write_text("WORD = 'a word'\n")
    time.sleep(0.2)  # what is imported as soon as it is written might be older
    assert [said(), said()] == ["a word none"] * 2
    library.write_text("WORD = 'another'\n")
    assert said() == "another none"
    monkeypatch.setenv("MKL_CBWR", "X")
    assert said() == "another X"
    assert seen[0] == seen[1]
    assert not seen[1] & seen[2] and not seen[2] & seen[3]


def test_calls_in_other_circumstances_have_another_lasting_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path() -> str:
        return getattr(lasting_parent(), "path", "")

    before = path()
    assert path() == before
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else 1, hard))
    limited = path()
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {99})
        pinned = path()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpriority", lambda *_: 99)
        nice = path()
    assert path() == before
    monkeypatch.chdir(tmp_path)
    assert len({before, limited, pinned, nice, path()}) == 5


def test_a_library_that_was_edited_as_it_was_imported_is_not_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file, began = tmp_path / "edited_as_imported.py", time.time_ns()
    imported = Imported()
    imported.add(began)
    file.write_text("")
    preload([file.stem])
    assert imported.are_current()
    imported.add(began)
    assert not imported.are_current()
