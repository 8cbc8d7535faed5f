from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from flashlab import costs
from flashlab.implementations import Implementation
from flashlab.measuring import supervise
from flashlab.measuring.supervise import WORKFLOW_PID, WorkflowGoneError, measure_run
from flashlab.records import Run, Shape, read_record

Kernel = Callable[[str], Implementation]
RUN = Run("Mine", Shape(2, 37, 2, 16, True), "float32", "cpu")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root / "workflow"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv(WORKFLOW_PID, raising=False)


@pytest.fixture
def measured(
    kernel: Kernel, protocol: dict[str, Any], tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """Measures a kernel with this body and reads the record from its file."""

    def measure(body: str, run: Run = RUN, **limits: float) -> dict[str, Any]:
        output = tmp_path / "records" / "r.json"
        record = measure_run(run, protocol | limits, kernel(body), {"torch": "2"}, output)
        assert read_record(output, run) == record
        assert [path.name for path in output.parent.iterdir()] == ["r.json"]
        return record

    return measure


def status(record: dict[str, Any]) -> tuple[str, Any]:
    return record["record"]["status"], record["record"]["message"]


# A status for whatever becomes of a run


def test_a_run_that_succeeds_has_its_times_samples_memory_and_check(
    measured: Callable[..., dict[str, Any]],
) -> None:
    record = measured("return naive(qkv, causal)")
    inner = record["record"]
    assert status(record) == ("ok", None)
    for name, flops in costs.flops(RUN.shape).items():
        timed = record[name]
        assert timed["FLOPS(TFLOPs/s)"] == pytest.approx(flops / timed["time(s)"] / 1e12)
    both = record["forward"]["time(s)"] + record["backward"]["time(s)"]
    assert record["forward_backward"]["time(s)"] == pytest.approx(both)
    assert (record["peak_memory_usage(MB)"] * costs.MIB).is_integer()
    assert min(len(inner["samples"]["forward"]), len(inner["samples"]["backward"])) >= 10
    assert set(inner["stopped"]) == {"forward", "backward"}
    assert inner["gate"]["seq_len"] == 37
    assert inner["environment"]["provider"].startswith("torch ")
    assert inner["sources"] == {"torch": "2"}


def test_a_run_without_room_is_out_of_memory(measured: Callable[..., dict[str, Any]]) -> None:
    record = measured(
        """
        import resource
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, -1))
        return torch.empty(2**28) + naive(qkv, causal)
        """
    )
    assert status(record)[0] == "oom"
    assert "allocate" in status(record)[1]


def test_a_run_that_is_not_supported_says_why(measured: Callable[..., dict[str, Any]]) -> None:
    record = measured("raise NotImplementedError('head_dim must be 64')")
    assert status(record) == ("unsupported", "head_dim must be 64")


def test_a_wrong_run_has_its_error_and_no_time(measured: Callable[..., dict[str, Any]]) -> None:
    record = measured("return naive(qkv, False)")
    assert status(record)[0] == "incorrect"
    assert "relative error against float64: out 0." in status(record)[1]
    assert record["forward"]["time(s)"] is None


def test_an_exception_is_an_error_with_its_name(measured: Callable[..., dict[str, Any]]) -> None:
    assert status(measured("return 1 / 0")) == ("error", "ZeroDivisionError: division by zero")


def test_a_crash_is_an_error_with_its_signal(measured: Callable[..., dict[str, Any]]) -> None:
    record = measured("import ctypes; ctypes.string_at(0)")
    assert status(record) == ("error", "crashed: ended by signal SIGSEGV")


def test_a_kernel_that_ends_its_process_is_an_error(
    measured: Callable[..., dict[str, Any]],
) -> None:
    record = measured(
        "import os, sys; print('I give up', file=sys.stderr, flush=True); os._exit(3)"
    )
    assert status(record) == ("error", "ended with status 3: I give up")


def test_a_kernel_that_hangs_is_ended_after_its_time(
    measured: Callable[..., dict[str, Any]],
) -> None:
    begin = time.monotonic()
    record = measured("while True: pass", timeout_s=3)
    assert status(record) == ("error", "timed out after 3 s")
    assert time.monotonic() - begin < 10


# Nothing is left of a run whose workflow has gone

HANG = "import pathlib, time; pathlib.Path(__file__ + '.here').touch(); time.sleep(600)"
SUPERVISOR = """
import json, sys
from pathlib import Path
from flashlab.implementations import read_implementation
from flashlab.measuring.supervise import measure_run
from flashlab.records import Run
order = json.loads(sys.argv[1])
kernel = read_implementation(Path(order["kernel"]))
measure_run(Run.from_json(order["run"]), order["protocol"], kernel, {}, Path(order["output"]))
"""


@contextmanager
def hanging(
    kernel: Implementation, protocol: dict[str, Any], output: Path
) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """A supervisor in a process of its own, and its measuring child, deep in a hanging kernel."""
    order = {
        "run": RUN.to_json(),
        "protocol": protocol,
        "kernel": str(kernel.path),
        "output": str(output),
    }
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, json.dumps(order)])
    try:
        wait_until(Path(f"{kernel.path}.here").exists)
        (child,) = psutil.Process(supervisor.pid).children()
        yield supervisor, child
    finally:
        supervisor.kill()
        supervisor.wait()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_the_measuring_process_dies_with_a_killed_supervisor(
    kernel: Kernel, protocol: dict[str, Any], tmp_path: Path
) -> None:
    output = tmp_path / "records" / "r.json"
    with hanging(kernel(HANG), protocol, output) as (supervisor, child):
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_until(lambda: ended(child), 5)
    assert not output.exists()


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "left as a zombie"])
def test_everything_dies_with_a_killed_workflow(
    kernel: Kernel,
    protocol: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reaped: bool,
) -> None:
    output = tmp_path / "records" / "r.json"
    workflow = subprocess.Popen(["sleep", "600"])
    monkeypatch.setenv(WORKFLOW_PID, str(workflow.pid))
    try:
        with hanging(kernel(HANG), protocol, output) as (supervisor, child):
            os.kill(workflow.pid, signal.SIGKILL)
            if reaped:
                workflow.wait()
            assert supervisor.wait(5) != 0
            assert ended(child)
    finally:
        workflow.kill()
        workflow.wait()
    assert not output.exists()


def test_nothing_starts_for_a_workflow_that_has_gone(
    kernel: Kernel, protocol: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(WORKFLOW_PID, str(gone.pid))
    with pytest.raises(WorkflowGoneError, match=str(gone.pid)):
        measure_run(RUN, protocol, kernel("return naive(qkv, causal)"), {}, tmp_path / "r.json")
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "expected"),
    [
        (-9, 1, ("oom", "killed by the system for lack of memory (SIGKILL)")),
        (-9, 0, ("error", "crashed: ended by signal SIGKILL")),
        (-11, 1, ("error", "crashed: ended by signal SIGSEGV")),
        (-40, 0, ("error", "crashed: ended by signal 40")),
        (1, 0, ("error", "ended with status 1: last words")),
    ],
)
def test_a_kill_for_memory_is_told_from_a_crash(
    tmp_path: Path, returncode: int, oom_kills: int, expected: tuple[str, str]
) -> None:
    (tmp_path / "stderr").write_text("first words\nlast words\n")
    found = supervise._ended_without_answer(returncode, oom_kills, tmp_path / "stderr")
    assert (found["status"], found["message"]) == expected
