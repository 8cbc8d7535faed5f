"""A call beside others, interrupted, and killed in the middle: nothing is lost by them."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import psutil
from planted.project import TINY, Held
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


def test_a_killed_call_leaves_nothing_running_and_the_next_goes_on_by_itself(held: Held) -> None:
    """One run at a time, whatever --cores says."""
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
    said = project.make("records", "--cores", "4")
    told = re.findall(r"^(?:Job \d+: )?(Measuring|Finished)", said, re.MULTILINE)
    assert told == [*("Measuring", "Finished") * 2, "Finished"], "the last is that of a target"
    after = project.records
    assert after.items() >= before.items(), "a record was measured again"
    new = [project.result(f"records/{name}") for name in after.keys() - before.keys()]
    assert [json.loads(path.read_text())["record"]["status"] for path in new] == ["ok", "ok"]


def plan_of(folder: Path) -> dict[Path, bytes]:
    files = [*folder.glob("results/*/plan/**/*.json"), *folder.glob("report/*.json")]
    return {path: path.read_bytes() for path in files}


OTHER_CALLS = (
    ("--dry-run", "report/lab5.pdf", "--config", "dataset=h200"),
    ("--summary", "report/lab5.pdf", *TINY, "--config", "languages=[en]"),
    ("--cores", "1", "records", *TINY, "--config", "again=all"),
)


def test_a_look_or_a_refused_call_changes_nothing_and_ctrl_c_says_what_is_kept(held: Held) -> None:
    folder = held.project.folder
    call = held.start("--logger=flashlab", own_group=True)
    before = plan_of(folder)
    for other in OTHER_CALLS:
        done = held.project.snakemake(*other, config=())
        assert (done.returncode == 0) == ("--cores" not in other), done.stdout
        assert "Traceback" not in done.stdout and "LockException" not in done.stdout
        named = r"Another snakemake call \(process \d+\) is working in this folder"
        assert "--cores" not in other or re.search(named, done.stdout)
        assert plan_of(folder) == before, other
    os.killpg(call.pid, signal.SIGINT)
    said, _ = call.communicate(timeout=120)
    assert call.returncode != 0
    kept = "Interrupted, with 2 of 4 runs measured and kept; the same call goes on from there."
    assert said.rstrip().endswith(kept)
    assert not re.search("Traceback|KeyboardInterrupt|failed|Error", said)
    wait_until(lambda: not at_work_in(folder), "the end of the jobs")
    logs = held.project.result("logs/measure").glob("held-*.log")
    texts = [path.read_text(encoding="utf-8") for path in logs]
    assert texts and not any("KeyboardInterrupt" in text for text in texts)
