"""A record, or none, for whatever becomes of a run."""

from __future__ import annotations

import os
import pwd
import select
import subprocess
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest
from measuring.conftest import RUN, Measured, in_call
from planted.calls import another_process
from waiting import Clock

from flashlab import machine
from flashlab.benchmarks.attention import costs
from flashlab.forks import forked
from flashlab.measuring import supervise
from flashlab.measuring.supervise import MeasuringError, claimed, is_claimed
from flashlab.plan.watching import WORKFLOW_PID, WorkflowGoneError
from flashlab.records import Record

TORCH = f"torch {metadata.version('torch')}"
EITHER_WAY = pytest.mark.parametrize("measured", ["cold", "warm"], indirect=True)


@pytest.fixture
def measured(request: pytest.FixtureRequest, measure: Measured) -> Measured:
    """`measure` in a process that is warm, as a fork of a workflow's server is, or cold."""
    if is_warm := getattr(request, "param", "warm") == "warm":
        request.getfixturevalue("in_workflow")

    def measured(*of: Any, **limits: Any) -> Record:
        record = measure(*of, **limits)
        assert record.environment.get("started_warm") in (None, is_warm)
        return record

    return measured


@EITHER_WAY
def test_a_run_that_succeeds_has_its_times_samples_memory_and_check(measured: Measured) -> None:
    record = measured()
    assert (record.status, record.message) == ("ok", None)
    assert (record.metrics["peak_memory"].value * costs.MIB).is_integer()
    for name in ("forward_time", "backward_time"):
        assert len(record.metrics[name].samples) >= 10
        assert record.metrics[name].stopped in ("interval", "time")
    assert record.gate and record.gate["seq_len"] == 37
    assert (record.environment["provider"], record.sources) == (TORCH, {"torch": "2"})


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
def test_a_run_that_died_says_how(measured: Measured, code: str, status: str, said: str) -> None:
    record = measured(in_call(code))
    assert record.status == status
    assert said in str(record.message)


def test_a_run_that_died_has_the_environment_that_is_known_without_it(measured: Measured) -> None:
    died = measured(in_call("import os; os._exit(3)")).environment
    assert died.items() <= measured().environment.items()
    assert {"device_name", "platform", "packages", "commit", "boot"} < died.keys()


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
    on_gpu = replace(RUN, device="cuda", dtype="float16")
    with pytest.raises(MeasuringError, match="machine failed"):
        measure("", on_gpu)
    died = {"status": "error", "message": "RuntimeError: CUDA error: launch failure"}
    monkeypatch.setattr(supervise, "_run_child", lambda *_: died)
    with claimed("cuda"):
        record = measure("", on_gpu)
    assert (record.status, record.environment["device_name"]) == ("error", "NVIDIA Two")
    monkeypatch.setattr(supervise, "_run_child", lambda *_: two_gpus.clear() or died)
    with pytest.raises(MeasuringError, match="GPU-1"):
        measure("", on_gpu)


@EITHER_WAY
def test_without_room_for_an_answer_there_is_no_record(measured: Measured, tmp_path: Path) -> None:
    with pytest.raises(MeasuringError, match=r"nothing is recorded.*TMPDIR"):
        measured(in_call("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"))
    assert not list(tmp_path.rglob("r.json"))
    assert measured().status == "ok"


@EITHER_WAY
def test_a_kernel_that_hangs_is_ended_after_its_time_and_gone_before_the_device_is_free(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of the test's own: how long a process takes to start is the machine's affair."""
    pid = tmp_path / "mine.py.pid"
    monkeypatch.setattr(supervise, "time", clock := Clock(pid))
    hang = "import os; open(__file__ + '.pid', 'w').write(str(os.getpid())); time.sleep(600)"
    record = measured(in_call(f"held = torch.ones(2**27); {hang}"), timeout_s=2500)
    assert not psutil.pid_exists(int(pid.read_text()))
    assert (record.status, record.message) == ("error", "timed out after 2500 s")
    assert clock.asked >= 3  # no look before 2500 s ended it


def test_nothing_starts_for_a_workflow_that_has_gone(measure: Measured, monkeypatch: Any) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(WORKFLOW_PID, str(gone.pid))
    with pytest.raises(WorkflowGoneError, match=str(gone.pid)):
        measure()


@pytest.mark.parametrize(
    ("returncode", "oom_kills", "said"),
    [
        (-9, 1, {"status": "oom", "message": "killed by the system for lack of memory (SIGKILL)"}),
        (-11, 1, {"status": "error", "message": "crashed: ended by signal SIGSEGV"}),
        *((-9, 0, "signal SIGKILL"), (-15, 0, "signal SIGTERM"), (-40, 0, "signal 40")),
    ],
)
def test_a_kill_for_memory_is_told_from_a_crash_and_one_from_outside_is_no_result(
    returncode: int, oom_kills: int, said: str | dict[str, str]
) -> None:
    outside = pytest.raises(MeasuringError, match=f"from outside, by {said}; nothing is recorded")
    with outside if isinstance(said, str) else nullcontext():
        assert supervise.ended_without_answer(returncode, oom_kills, Path()) == said


# The claim on a device

CLAIM = """
import sys
from flashlab.measuring.supervise import claimed
with claimed("cpu"):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_processes_that_claim_the_cpu_exclude_each_other_until_one_is_killed() -> None:
    with another_process(CLAIM) as first:
        assert first.stdout and first.stdout.readline() == "claimed\n"
        with another_process(CLAIM) as second:
            assert second.stdout
            assert select.select([second.stdout], [], [], 1.0)[0] == [] and second.poll() is None
            first.kill()
            assert second.stdout.readline() == "claimed\n"
            second.kill()
            begin = time.monotonic()
            with pytest.raises(ZeroDivisionError), claimed("cpu") as environment:
                assert environment == {"CUDA_VISIBLE_DEVICES": ""} and is_claimed("cpu")
                _ = 1 / 0
            assert time.monotonic() - begin < 2 and not is_claimed("cpu")


def test_each_claim_gets_its_own_gpu_until_all_are_claimed(two_gpus: list[machine.Gpu]) -> None:
    with claimed("cuda") as first:
        assert not is_claimed("cuda")
        with claimed("cuda") as second:
            assert is_claimed("cuda")
    assert [first, second] == [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in ("GPU-1", "GPU-2")]
    assert not is_claimed("cuda")
    two_gpus.clear()
    with pytest.raises(machine.MachineError, match="no NVIDIA GPU is visible"), claimed("cuda"):
        pass
    assert not is_claimed("cuda")


@pytest.mark.usefixtures("two_gpus")
def test_a_run_waits_for_the_card_of_its_block() -> None:
    order: list[str] = []

    def wait() -> None:
        with claimed("cuda", card=3) as own:
            order.append(own["CUDA_VISIBLE_DEVICES"])

    waiting = threading.Thread(target=wait)
    with claimed("cuda", card=1) as held:
        assert held == {"CUDA_VISIBLE_DEVICES": "GPU-2"}
        waiting.start()
        with claimed("cuda", card=0) as other:
            order.append(other["CUDA_VISIBLE_DEVICES"])
    waiting.join()
    assert order == ["GPU-1", "GPU-2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_claim_the_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o1777)  # as /tmp is
        monkeypatch.setattr(tempfile, "tempdir", shared)

        def claim(user: str) -> None:
            os.setuid(pwd.getpwnam(user).pw_uid)
            with claimed("cpu"):
                pass

        for user in ("root", "nobody"):
            process = forked(claim, user)
            process.join()
            assert process.exitcode == 0
