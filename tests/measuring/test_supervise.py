from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from measuring.conftest import RUN, Measured
from waiting import Clock

from flashlab import machine
from flashlab.benchmarks.attention import costs
from flashlab.measuring import supervise
from flashlab.measuring.devices import claimed
from flashlab.measuring.supervise import MeasuringError
from flashlab.plan.watching import WORKFLOW_PID, WorkflowGoneError
from flashlab.records import Record

PYTHON = sys.executable
EITHER_WAY = pytest.mark.parametrize("measured", ["cold", "warm"], indirect=True)
NEW_OR_WARM = pytest.mark.parametrize("measured", ["new", "warm"], indirect=True)


@pytest.fixture
def measured(
    request: pytest.FixtureRequest, measure: Measured, monkeypatch: pytest.MonkeyPatch
) -> Measured:
    """`measure` in a process that is warm or cold; a new one is cold, and imports torch itself."""
    way = getattr(request, "param", "warm")
    if way == "warm":
        request.getfixturevalue("in_workflow")
    elif way == "new":
        monkeypatch.setattr(sys, "executable", PYTHON)

    def measured(*of: Any, **limits: Any) -> Record:
        record = measure(*of, **limits)
        assert record.environment.get("started_warm") in (None, way == "warm")
        return record

    return measured


def status(record: Record) -> tuple[str, str | None]:
    return record.status, record.message


# A status for whatever becomes of a run


@NEW_OR_WARM
def test_a_run_that_succeeds_has_its_times_samples_memory_and_check(measured: Measured) -> None:
    record = measured("return naive(qkv, causal)")
    assert status(record) == ("ok", None)
    assert (record.metrics["peak_memory"].value * costs.MIB).is_integer()
    for name in ("forward_time", "backward_time"):
        assert len(record.metrics[name].samples) >= 10
        assert record.metrics[name].stopped in ("interval", "time")
    assert record.gate is not None
    assert record.gate["seq_len"] == 37
    assert record.environment["provider"].startswith("torch ")
    assert record.sources == {"torch": "2"}


def test_a_run_without_room_is_out_of_memory(measured: Measured) -> None:
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


@EITHER_WAY
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "crashed: ended by signal SIGSEGV"),
        ("import os; os.write(2, b'I give up'); os._exit(3)", "ended with status 3: I give up"),
        ("raise SystemExit('I give up')", "ended with status 1: SystemExit: I give up"),
    ],
)
def test_a_kernel_that_ends_its_process_is_an_error_with_its_last_words(
    measured: Measured, end: str, said: str
) -> None:
    assert status(measured(end)) == ("error", said)


def test_a_run_that_died_has_the_environment_that_is_known_without_it(measured: Measured) -> None:
    died = measured("import os; os._exit(3)").environment
    lived = measured("return naive(qkv, causal)").environment
    assert died.items() <= lived.items()
    known = {"device_name", "cpu", "cpu_count", "platform", "python", "packages", "driver"}
    assert died.keys() == known | {"commit", "dirty", "gpu_uuid", "boot"}
    assert died["packages"]["torch"] is not None


ON_GPU = replace(RUN, device="cuda", dtype="float16")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[machine.Gpu]:
    """Two GPUs that the driver lists and no process can use."""
    gpus = [machine.Gpu("GPU-1", "NVIDIA One"), machine.Gpu("GPU-2", "NVIDIA Two")]
    monkeypatch.setattr(machine, "gpus", lambda: gpus)
    monkeypatch.setattr(machine, "driver_version", lambda: "580.1")
    return gpus


def test_a_run_that_died_on_a_gpu_has_the_name_of_the_one_that_it_had(
    measure: Measured, two_gpus: list[machine.Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "_run_child", lambda *_: {"status": "error", "message": "died"})
    with claimed("cuda") as variables:
        assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
        died = measure("return qkv", ON_GPU)
    assert died.status == "error"
    assert died.environment["device_name"] == "NVIDIA Two"


def test_a_run_whose_gpu_is_lost_has_no_record(
    measure: Measured, two_gpus: list[machine.Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> dict[str, str]:
        del two_gpus[0]
        return {"status": "error", "message": "RuntimeError: CUDA error: launch failure"}

    with pytest.raises(MeasuringError, match="machine failed"):
        measure("return naive(qkv, causal)", ON_GPU)
    monkeypatch.setattr(supervise, "_run_child", lose)
    with pytest.raises(MeasuringError, match="GPU-1"):
        measure("return qkv", ON_GPU)


@EITHER_WAY
def test_without_room_for_its_answer_a_run_has_no_record_and_is_measured_once_there_is(
    measured: Measured, tmp_path: Path
) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    with pytest.raises(MeasuringError, match=r"nothing is recorded.*TMPDIR"):
        measured(f"{limit}; return naive(qkv, causal)")
    assert not list(tmp_path.rglob("r.json"))
    assert measured("return naive(qkv, causal)").status == "ok"


@EITHER_WAY
def test_a_kernel_that_finds_a_disk_full_has_no_record(
    measured: Measured, full_disk: Path, tmp_path: Path
) -> None:
    write = f"open({str(full_disk / 'compiled')!r}, 'wb').write(bytes(2**20))"
    with pytest.raises(MeasuringError, match=r"No space left on device|File too large"):
        measured(f"{write}; return naive(qkv, causal)")
    assert not list(tmp_path.rglob("r.json"))


@NEW_OR_WARM
def test_a_kernel_that_hangs_is_ended_after_its_time_and_gone_before_the_device_is_free(
    measured: Measured, hang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of the test's own: how long a process takes to start is the machine's affair."""
    pid = tmp_path / "mine.py.pid"
    clock = Clock(pid)
    monkeypatch.setattr(supervise, "time", clock)
    record = measured(f"held = torch.ones(2**27); {hang}", timeout_s=2500)
    assert not psutil.pid_exists(int(pid.read_text()))
    assert status(record) == ("error", "timed out after 2500 s")
    assert clock.asked >= 3  # no look before 2500 s ended it


def test_nothing_starts_for_a_workflow_that_has_gone(
    measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(WORKFLOW_PID, str(gone.pid))
    with pytest.raises(WorkflowGoneError, match=str(gone.pid)):
        measure("return naive(qkv, causal)")
    assert not list(tmp_path.rglob("r.json"))


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "expected"),
    [
        (-9, 1, ("oom", "killed by the system for lack of memory (SIGKILL)")),
        (-11, 1, ("error", "crashed: ended by signal SIGSEGV")),
        (-6, 0, ("error", "crashed: ended by signal SIGABRT")),
        (1, 0, ("error", "ended with status 1: last words")),
    ],
)
def test_a_kill_for_memory_is_told_from_a_crash(
    tmp_path: Path, returncode: int, oom_kills: int, expected: tuple[str, str]
) -> None:
    (tmp_path / "stderr").write_text("first words\nlast words\n")
    found = supervise.ended_without_answer(returncode, oom_kills, tmp_path / "stderr")
    assert (found["status"], found["message"]) == expected


@pytest.mark.parametrize(("returncode", "name"), [(-9, "SIGKILL"), (-15, "SIGTERM"), (-40, "40")])
def test_an_end_from_outside_is_no_result(tmp_path: Path, returncode: int, name: str) -> None:
    with pytest.raises(MeasuringError, match=f"from outside, by signal {name}"):
        supervise.ended_without_answer(returncode, 0, tmp_path)
