from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from planted.calls import another_process

from flashlab import machine
from flashlab.measuring.supervise import claimed, is_claimed

CODE = """
import sys
from flashlab.measuring.supervise import claimed
with claimed("cpu"):
    print("claimed", flush=True)
    sys.stdin.read()
"""
GPUS = [machine.Gpu("GPU-a", "H200"), machine.Gpu("GPU-b", "H200")]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs that the driver lists."""
    monkeypatch.setattr(machine, "gpus", lambda: GPUS)


def says_claimed(process: subprocess.Popen[bytes]) -> bool:
    return process.stdout is not None and process.stdout.readline() == b"claimed\n"


def test_processes_that_claim_the_cpu_exclude_each_other_until_one_is_killed() -> None:
    with another_process(CODE) as first:
        assert says_claimed(first)
        with another_process(CODE) as second:
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
    assert [first, second] == [{"CUDA_VISIBLE_DEVICES": gpu.uuid} for gpu in GPUS]
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
        assert held == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
        waiting = threading.Thread(target=wait)
        waiting.start()
        with claimed("cuda", card=0) as other:
            order.append(other["CUDA_VISIBLE_DEVICES"])
    waiting.join()
    assert order == ["GPU-a", "GPU-b"]


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
