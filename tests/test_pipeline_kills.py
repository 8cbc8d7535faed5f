"""A call that is killed in the middle, two calls in one folder, and jobs beside a measurement."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

HELD = '''
"""Naive attention that waits for as long as the file `hold` stands beside this one."""

import os
import time
from pathlib import Path

import torch

NAME = "Held"
LABEL = {"zh_TW": "被擋住的", "en": "Held"}


def attention(qkv, causal):
    here = Path(__file__).parent
    (here / "held.new").write_text(str(os.getpid()))
    (here / "held.new").rename(here / "held")
    while (here / "hold").exists():
        time.sleep(0.02)
    q, k, v = qkv.transpose(1, 3).unbind(2)
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
    return (weights @ v).transpose(1, 2)
'''


def wait_until(condition: Callable[[], Any], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def at_work_in(folder: Path) -> list[str]:
    """The command lines of FlashLab's processes of this folder: the jobs, and what they started."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or ())
        mine = process.info["cwd"] == str(folder) and "flashlab" in command
        if mine and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(command)
    return found


class Held:
    """The finished folder with two runs to measure, which wait in their kernel until let go."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.kernels = project.folder / "kernels"
        self.kernels.joinpath("held.py").write_text(HELD, encoding="utf-8")
        self.kernels.joinpath("hold").touch()
        with project.config() as config:
            del config["experiments"][1:]
            config["experiments"][0]["implementations"] = ["Pytorch", "Held"]

    def start(self, *arguments: str, **options: Any) -> Any:
        """A call of Snakemake, which has come to measure a record."""
        call = self.project.start("--cores", "1", *arguments, "records", **options)
        wait_until(self.kernels.joinpath("held").exists, 60)
        return call

    def let_go(self) -> None:
        self.kernels.joinpath("hold").unlink()


@pytest.fixture
def held(project: Any) -> Held:
    return Held(project)


def test_a_killed_call_leaves_nothing_running_and_the_next_one_goes_on_by_itself(
    held: Held,
) -> None:
    project = held.project
    before = project.records
    call = held.start()
    assert any("flashlab.measuring" in command for command in at_work_in(project.folder))
    call.kill()
    call.wait()
    wait_until(lambda: not at_work_in(project.folder), 3)
    assert project.records == before, "a record half written, or one lost"
    locks = project.folder / ".snakemake" / "locks"
    assert list(locks.iterdir()), "Snakemake left no lock, so this shows nothing"

    held.let_go()
    project.make("records")
    after = project.records
    assert after.items() >= before.items(), "a record was measured again"
    new = sorted(after.keys() - before.keys())
    assert [name[: name.index("-float32")] for name in new] == [
        "held-b1-n16-h2-e32-full",
        "held-b1-n64-h2-e32-full",
    ]
    for name in new:
        path = project.folder / "results" / "local" / "records" / name
        assert json.loads(path.read_text(encoding="utf-8"))["record"]["status"] == "ok"


def test_ctrl_c_says_what_is_kept_without_a_traceback(held: Held) -> None:
    call = held.start("--logger=flashlab", own_group=True)
    os.killpg(call.pid, signal.SIGINT)
    said, _ = call.communicate(timeout=60)
    assert call.returncode != 0
    assert said.rstrip().endswith(
        "Interrupted: 3 of 5 runs are measured and kept; the same call goes on from there."
    )
    assert not re.search("Traceback|KeyboardInterrupt|failed|Error", said)
    wait_until(lambda: not at_work_in(held.project.folder), 3)
    logs = held.project.folder / "results" / "local" / "logs" / "measure"
    texts = [path.read_text(encoding="utf-8") for path in logs.glob("held-*.log")]
    assert texts and not any("KeyboardInterrupt" in text for text in texts)


def test_a_second_call_is_refused_and_the_first_one_is_not_disturbed(held: Held) -> None:
    first = held.start()
    second = held.project.start("--cores", "1", "records")
    look = held.project.start("--dry-run", "records")
    said, _ = second.communicate()
    assert second.returncode != 0
    assert f"Another snakemake call (process {first.pid}) is working in this folder" in said
    assert "Traceback" not in said
    said, _ = look.communicate()
    assert look.returncode == 0, said
    assert first.poll() is None

    held.let_go()
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 0, said
    assert sum(name.startswith("held-") for name in held.project.records) == 2


def test_nothing_else_runs_while_a_run_is_measured_whatever_cores_says(project: Any) -> None:
    project.append("kernels/flash2.py", "# edited: measured again\n")
    with project.config() as config:
        config["experiments"] = [config["experiments"][i] for i in (0, 2)]
    drawings = [f"results/local/figures/{name}" for name in ("seq_len", "batch_size")]
    done = project.snakemake("--cores", "4", *drawings)
    assert done.returncode == 0, done.stdout
    running: dict[str, str] = {}
    measured = 0
    for job, message, finished in re.findall(
        r"^(?:Job (\d+): (.*)|Finished jobid: (\d+) .*)$", done.stdout, re.MULTILINE
    ):
        if finished:
            del running[finished]
            continue
        running[job] = message
        beside = [other for other in running.values() if other.startswith("Measuring")]
        assert not beside or len(running) == 1, f"at once: {sorted(running.values())}"
        measured += message.startswith("Measuring")
    assert measured == 4
    assert not running
