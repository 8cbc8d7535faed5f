"""Child processes: what they answer, how they end, and with whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from waiting import PATIENCE, wait_until

from flashlab.calls.watching import has_ended
from flashlab.children import Child, Program, interpreter, signal_name
from flashlab.forks import forked

FUNCTIONS = """
import os, signal, subprocess, sys, time
from flashlab.children import receive, send

def echo(word, channel):
    while asked := receive(channel):
        send(channel, {word: asked})
    return 3

def crash(channel):
    send(channel, {"pid": os.getpid()})
    os.kill(os.getpid(), signal.SIGSEGV)

def hang(channel):
    other = subprocess.Popen(["sleep", "600"], pass_fds=[channel.fileno()])
    send(channel, {"pid": os.getpid(), "other": other.pid})
    send(channel, {"second": True})
    time.sleep(600)

def leave(channel):
    subprocess.Popen(["sleep", "600"], pass_fds=[channel.fileno()])
    sys.exit(4)
"""

Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path, root: Path) -> Iterator[Start]:
    """Start one of `FUNCTIONS` in a new interpreter, which is killed after the test."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    search = f"{root / 'workflow'}{os.pathsep}{tmp_path}"
    started: list[Child] = []

    def begin(name: str, *arguments: object) -> Child:
        environment = {**os.environ, "PYTHONPATH": search}
        started.append(interpreter(f"functions:{name}", arguments, environment, 2))
        return started[-1]

    yield begin
    for child in started:
        child.kill()


def test_a_child_answers_message_by_message_and_ends_with_what_its_function_returns(
    start: Start,
) -> None:
    child = start("echo", "heard")
    for word in ("one", "x" * 2**20):
        child.say({"word": word})
        assert child.answer(PATIENCE) == {"heard": {"word": word}}
    assert child.wait(0.01) is None
    child.say({})
    assert child.wait(PATIENCE) == 3


def test_one_that_is_ended_by_a_signal_has_no_answer_and_its_number(start: Start) -> None:
    child = start("crash")
    assert child.answer(PATIENCE) is not None
    assert child.answer(PATIENCE) is None
    assert signal_name(child.wait() or 0) == "SIGSEGV"
    child.say({"word": "to nobody"})
    assert signal_name(-40) == "40"


def test_no_answer_within_the_time_limit_is_an_error_and_a_kill_ends_all_it_started(
    start: Start,
) -> None:
    child = start("hang")
    told = child.answer(PATIENCE)
    assert told is not None and child.answer(PATIENCE) == {"second": True}
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
        child.answer(0.5)
    assert time.monotonic() - begin < PATIENCE
    processes = [psutil.Process(told[name]) for name in ("pid", "other")]
    child.kill()
    wait_until(lambda: all(map(has_ended, processes)), "the end of what it had started")


def test_what_a_child_left_behind_with_its_channel_keeps_nobody_waiting(start: Start) -> None:
    child = start("leave")
    assert child.answer(PATIENCE) is None
    assert child.wait() == 4


def test_a_program_that_does_not_lead_is_in_its_callers_session() -> None:
    for leads in (True, False):
        child = Program(["sleep", "600"], os.environ, leads=leads)
        assert (os.getsid(child.pid) == os.getsid(0)) != leads
        child.kill()
        assert child.wait() == -signal.SIGKILL


# Forks of this process


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (lambda: None, 0),
        (lambda: 3, 3),
        (lambda: sys.exit(4), 4),
        (lambda: sys.exit("in words"), 1),
        (lambda: 1 / 0, 1),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), -signal.SIGTERM),
    ],
    ids=["nothing", "a status", "an exit", "words", "an error", "a signal"],
)
def test_a_fork_ends_as_its_function_does(ends: Callable[[], int], status: int) -> None:
    fork = forked(ends)
    fork.join(PATIENCE)
    assert fork.exitcode == status


FORKS = """
import sys, time
from flashlab.forks import forked
print(forked(time.sleep, 600).pid, flush=True)
sys.stdin.read()
"""


def test_a_fork_dies_with_the_process_that_it_is_of(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        fork = psutil.Process(int(process.stdout.readline()))
        assert not has_ended(fork)
        process.kill()
        wait_until(lambda: has_ended(fork), "the end of the fork")
