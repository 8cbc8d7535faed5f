"""A call that is killed in the middle, and jobs beside a measurement."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import psutil
from waiting import wait_until


def at_work_in(folder: Path) -> list[str]:
    """The command lines of FlashLab's processes of this folder: the jobs, and what they started."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or ())
        mine = process.info["cwd"] == str(folder) and "flashlab" in command
        if mine and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(command)
    return found


def test_a_killed_call_leaves_nothing_running_and_the_next_one_goes_on_by_itself(
    held: Any,
) -> None:
    project = held.project
    before = project.records
    call = held.start()
    assert any("flashlab.measuring" in command for command in at_work_in(project.folder))
    call.kill()
    call.wait()
    wait_until(lambda: not at_work_in(project.folder), "the end of the jobs")
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


def test_ctrl_c_says_what_is_kept_without_a_traceback(held: Any) -> None:
    call = held.start("--logger=flashlab", own_group=True)
    os.killpg(call.pid, signal.SIGINT)
    said, _ = call.communicate(timeout=120)
    assert call.returncode != 0
    assert said.rstrip().endswith(
        "Interrupted: 3 of 5 runs are measured and kept; the same call goes on from there."
    )
    assert not re.search("Traceback|KeyboardInterrupt|failed|Error", said)
    wait_until(lambda: not at_work_in(held.project.folder), "the end of the jobs")
    logs = held.project.folder / "results" / "local" / "logs" / "measure"
    texts = [path.read_text(encoding="utf-8") for path in logs.glob("held-*.log")]
    assert texts and not any("KeyboardInterrupt" in text for text in texts)


def test_nothing_else_runs_while_a_run_is_measured_whatever_cores_says(project: Any) -> None:
    project.append("kernels/flash2.py", "EDITED = True  # measured again\n")
    with project.config() as config:
        config["experiments"] = [config["experiments"][i] for i in (0, 2)]
    done = project.snakemake("--cores", "4", "results/local/overview")
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
