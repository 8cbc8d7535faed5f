"""A record, or none, for whatever becomes of a run."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from measuring.conftest import HANG, RUN, Measured, in_call
from planted.calls import another_process
from waiting import Clock

from flashlab import machine
from flashlab.benchmarks.attention import costs
from flashlab.measuring import supervise
from flashlab.measuring.supervise import MeasuringError, claimed, is_claimed
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


@NEW_OR_WARM
def test_a_run_that_succeeds_has_its_times_samples_memory_and_check(measured: Measured) -> None:
    record = measured()
    assert (record.status, record.message) == ("ok", None)
    assert (record.metrics["peak_memory"].value * costs.MIB).is_integer()
    for name in ("forward_time", "backward_time"):
        assert len(record.metrics[name].samples) >= 10
        assert record.metrics[name].stopped in ("interval", "time")
    assert record.gate is not None
    assert record.gate["seq_len"] == 37
    assert record.environment["provider"].startswith("torch ")
    assert record.sources == {"torch": "2"}


WITHOUT_ROOM = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, -1))
torch.empty(2**28)
"""


@EITHER_WAY
@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (WITHOUT_ROOM, "oom", "allocate"),
        ("import ctypes; ctypes.string_at(0)", "error", "crashed: ended by signal SIGSEGV"),
        ("import os; os.write(2, b'No'); os._exit(3)", "error", "ended with status 3: No"),
        ("raise SystemExit('No')", "error", "ended with status 1: SystemExit: No"),
    ],
)
def test_a_run_without_room_and_one_that_ends_its_process_say_so(
    measured: Measured, code: str, status: str, said: str
) -> None:
    record = measured(in_call(code))
    assert record.status == status
    assert said in str(record.message)


def test_a_run_that_died_has_the_environment_that_is_known_without_it(measured: Measured) -> None:
    died = measured(in_call("import os; os._exit(3)")).environment
    assert died.items() <= measured().environment.items()
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


def test_a_run_that_died_has_the_name_of_its_gpu_and_none_whose_gpu_is_lost(
    measure: Measured, two_gpus: list[machine.Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MeasuringError, match="machine failed"):
        measure("", ON_GPU)
    died = {"status": "error", "message": "RuntimeError: CUDA error: launch failure"}
    monkeypatch.setattr(supervise, "_run_child", lambda *_: died)
    with claimed("cuda") as variables:
        assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
        record = measure("", ON_GPU)
    assert (record.status, record.environment["device_name"]) == ("error", "NVIDIA Two")
    monkeypatch.setattr(supervise, "_run_child", lambda *_: two_gpus.clear() or died)
    with pytest.raises(MeasuringError, match="GPU-1"):
        measure("", ON_GPU)


@EITHER_WAY
def test_without_room_for_its_answer_a_run_has_no_record_and_is_measured_once_there_is(
    measured: Measured, tmp_path: Path
) -> None:
    with pytest.raises(MeasuringError, match=r"nothing is recorded.*TMPDIR"):
        measured(in_call("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"))
    assert not list(tmp_path.rglob("r.json"))
    assert measured().status == "ok"


@EITHER_WAY
def test_a_kernel_that_finds_a_disk_full_has_no_record(
    measured: Measured, full_disk: Path, tmp_path: Path
) -> None:
    with pytest.raises(MeasuringError, match=r"No space left on device|File too large"):
        measured(in_call(f"open({str(full_disk / 'compiled')!r}, 'wb').write(bytes(2**20))"))
    assert not list(tmp_path.rglob("r.json"))


@NEW_OR_WARM
def test_a_kernel_that_hangs_is_ended_after_its_time_and_gone_before_the_device_is_free(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of the test's own: how long a process takes to start is the machine's affair."""
    pid = tmp_path / "mine.py.pid"
    clock = Clock(pid)
    monkeypatch.setattr(supervise, "time", clock)
    record = measured(in_call(f"held = torch.ones(2**27); {HANG}"), timeout_s=2500)
    assert not psutil.pid_exists(int(pid.read_text()))
    assert (record.status, record.message) == ("error", "timed out after 2500 s")
    assert clock.asked >= 3  # no look before 2500 s ended it


def test_nothing_starts_for_a_workflow_that_has_gone(
    measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(WORKFLOW_PID, str(gone.pid))
    with pytest.raises(WorkflowGoneError, match=str(gone.pid)):
        measure()
    assert not list(tmp_path.rglob("r.json"))


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "status", "said"),
    [
        (-9, 1, "oom", "killed by the system for lack of memory (SIGKILL)"),
        (-11, 1, "error", "crashed: ended by signal SIGSEGV"),
        (-6, 0, "error", "crashed: ended by signal SIGABRT"),
        (1, 0, "error", "ended with status 1: last words"),
        (-9, 0, None, "from outside, by signal SIGKILL"),
        (-15, 0, None, "from outside, by signal SIGTERM"),
        (-40, 0, None, "from outside, by signal 40"),
    ],
)
def test_a_kill_for_memory_is_told_from_a_crash_and_one_from_outside_is_no_result(
    tmp_path: Path, returncode: int, oom_kills: int, status: str | None, said: str
) -> None:
    (tmp_path / "errors").write_text("first words\nlast words\n")
    given = returncode, oom_kills, tmp_path / "errors"
    if status is None:
        with pytest.raises(MeasuringError, match=said):
            supervise.ended_without_answer(*given)
    else:
        assert supervise.ended_without_answer(*given) == {"status": status, "message": said}


# The claim on a device

CLAIM = """
import sys
from flashlab.measuring.supervise import claimed
with claimed("cpu"):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def says_claimed(process: subprocess.Popen[bytes]) -> bool:
    return process.stdout is not None and process.stdout.readline() == b"claimed\n"


def test_processes_that_claim_the_cpu_exclude_each_other_until_one_is_killed() -> None:
    with another_process(CLAIM) as first:
        assert says_claimed(first)
        with another_process(CLAIM) as second:
            assert second.stdout is not None
            os.set_blocking(second.stdout.fileno(), False)
            time.sleep(1.0)
            assert second.stdout.read() is None and second.poll() is None
            os.set_blocking(second.stdout.fileno(), True)
            first.kill()
            assert says_claimed(second)
            second.kill()
            begin = time.monotonic()
            with claimed("cpu") as environment:
                assert environment == {"CUDA_VISIBLE_DEVICES": ""}
            assert time.monotonic() - begin < 2


def test_a_claim_ends_with_its_block_also_where_it_fails() -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), claimed("cpu"):
            _ = 1 / 0


@pytest.mark.usefixtures("two_gpus")
def test_each_claim_on_a_gpu_gets_a_gpu_of_its_own_until_every_one_is_claimed() -> None:
    with claimed("cuda") as first:
        assert not is_claimed("cuda")
        with claimed("cuda") as second:
            assert is_claimed("cuda")
    assert [first, second] == [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in ("GPU-1", "GPU-2")]
    assert not is_claimed("cuda")
    with claimed("cuda") as again:
        assert again == first


@pytest.mark.usefixtures("two_gpus")
def test_a_run_waits_for_the_card_of_its_block() -> None:
    order: list[str] = []

    def wait() -> None:
        with claimed("cuda", card=3) as own:
            order.append(own["CUDA_VISIBLE_DEVICES"])

    with claimed("cuda", card=1) as held:
        assert held == {"CUDA_VISIBLE_DEVICES": "GPU-2"}
        waiting = threading.Thread(target=wait)
        waiting.start()
        with claimed("cuda", card=0) as other:
            order.append(other["CUDA_VISIBLE_DEVICES"])
    waiting.join()
    assert order == ["GPU-1", "GPU-2"]


def test_without_a_gpu_there_is_nothing_to_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", list)
    with pytest.raises(machine.MachineError, match="no NVIDIA GPU is visible"), claimed("cuda"):
        pass
    assert not is_claimed("cuda")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_can_claim_the_device_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o1777)  # as /tmp is
        monkeypatch.setattr(tempfile, "tempdir", shared)
        with claimed("cpu"):
            pass
        if (child := os.fork()) == 0:
            status = 1
            try:
                os.setuid(pwd.getpwnam("nobody").pw_uid)
                with claimed("cpu"):
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
