"""Child processes: what they answer, how they end, and with whom."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


# Servers that outlive their callers

SERVER = """
import os, signal, socket, sys, time
from flashlab import children, forks

def tell(channel):
    children.send(channel, {"fork": os.getpid(), "group": os.getpgid(0)})

def hang(channel):
    tell(channel)
    time.sleep(600)

def stay(channel):
    tell(channel)

def serve():
    time.sleep(float(os.environ["STARTS_IN"]))
    version = open("version").read()
    forks.IDLE_SECONDS, forks.REQUEST_SECONDS = float(os.environ["IDLE"]), 0.5
    forks.__file__ = "version"
    forks.serve(lambda: lambda asked: (lambda: 0) if asked["version"] == version else forks.leave())

def call(name):
    children.START_SECONDS = float(os.environ["PATIENCE"])
    server = children.Server("lasting", "test", os.environ, log="logs/log")
    version = open("version").read()
    output = os.open("output", os.O_RDWR | os.O_CREAT)
    fork = server.call(f"lasting:{name}", [], os.environ, [output] * 3, version)
    print(-1 if fork is None else fork.answer(60)["group"], flush=True)
    status = 1 if fork is None else fork.wait()
    time.sleep(600 if name == "stay" else 0)
    sys.exit(status)

if __name__ == "__main__":
    call(sys.argv[1]) if sys.argv[1] in ("tell", "hang", "stay") else serve()
"""
"""A server of forks that tell its number, that of their process group; and a caller of it."""


class Lasting:
    """A lasting server of the module `SERVER`, in a folder of its own."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.path = folder / f"flashlab-{os.getuid()}-test-lasting" / "warm"
        (folder / "lasting.py").write_text(SERVER)
        (folder / "version").write_text("1")
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{root / 'workflow'}{os.pathsep}{folder}",
            "TMPDIR": str(folder),
            **{"STARTS_IN": "0", "IDLE": "600", "PATIENCE": "60"},
        }

    def call(self, name: str) -> subprocess.Popen[str]:
        """A process that has a fork call a function, and ends as that does."""
        return subprocess.Popen(
            [sys.executable, "-m", "lasting", name],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def tell(self) -> psutil.Process:
        """The server that has served a call to its end, which nothing has kept open since."""
        with self.call("tell") as call:
            said, _ = call.communicate(timeout=PATIENCE)
        assert call.returncode == 0, said
        return psutil.Process(int(said))

    def processes(self) -> list[psutil.Process]:
        """The processes of its servers, and of their forks."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if str(self.path) in process.cmdline():
                    found.append(process)
        return found

    @contextmanager
    def hanging(self) -> Iterator[tuple[subprocess.Popen[str], psutil.Process, psutil.Process]]:
        """A call whose fork hangs, the server, and the fork."""
        with self.call("hang") as call:
            assert call.stdout
            server = psutil.Process(int(call.stdout.readline()))
            (keeper,) = server.children()
            wait_until(lambda: bool(keeper.children()), "the fork")
            yield call, server, keeper.children()[0]
            call.kill()


@pytest.fixture
def lasting(root: Path) -> Iterator[Lasting]:
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        served = Lasting(Path(folder), root)
        yield served
        for left in served.processes():
            left.kill()


def test_a_server_that_outlives_its_callers_serves_one_after_the_other(lasting: Lasting) -> None:
    server = lasting.tell()
    assert lasting.tell() == server
    assert os.getsid(server.pid) == server.pid != os.getsid(0)
    assert lasting.path.parent.stat().st_mode & 0o777 == 0o700
    assert (lasting.folder / "logs" / "log").read_text() == ""


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM", "SIGKILL"])
def test_the_end_of_a_call_is_that_of_its_fork_and_of_no_other(lasting: Lasting, name: str) -> None:
    with lasting.hanging() as (_, server, other), lasting.call("hang") as call:
        assert call.stdout and call.stdout.readline()
        forks = server.children(recursive=True)
        call.send_signal(signal.Signals[name])
        assert call.wait(PATIENCE) != 0
        wait_until(lambda: len(server.children(recursive=True)) == 2, "the end of one fork")
        assert len(forks) == 4 and not has_ended(other)
    wait_until(lambda: has_ended(other), "the end of the other")
    assert lasting.tell() == server


def test_it_ends_when_it_is_idle_which_it_is_not_while_a_caller_lives(lasting: Lasting) -> None:
    lasting.environment["IDLE"] = "0.4"
    with lasting.call("stay") as call:
        assert call.stdout
        server = psutil.Process(int(call.stdout.readline()))
        wait_until(lambda: not server.children(), "the end of its fork")
        time.sleep(1.2)
        assert not has_ended(server)
        call.kill()
    wait_until(lambda: has_ended(server), "its end")
    assert not lasting.path.exists()
    assert lasting.tell() != server


def test_an_outdated_one_ends_another_takes_its_place_and_running_calls_go_on(
    lasting: Lasting,
) -> None:
    with lasting.hanging() as (call, server, fork):
        (lasting.folder / "version").write_text("2")
        other = lasting.tell()
        wait_until(lambda: has_ended(server), "its end")
        assert lasting.tell() == other != server
        assert call.poll() is None and not has_ended(fork)
    wait_until(lambda: has_ended(fork), "the end of the fork")


@pytest.mark.parametrize("what", ["the socket", "the package"])
def test_it_ends_when_what_it_needs_is_removed(lasting: Lasting, what: str) -> None:
    server = lasting.tell()
    {"the socket": lasting.path, "the package": lasting.folder / "version"}[what].unlink()
    wait_until(lambda: has_ended(server), "its end")


def test_it_ends_when_another_has_taken_its_place(lasting: Lasting) -> None:
    server, other = lasting.tell(), lasting.path.with_name("other")
    other.touch()
    other.replace(lasting.path)
    wait_until(lambda: has_ended(server), "its end")
    assert lasting.path.exists()


def _kill(lasting: Lasting, server: psutil.Process) -> None:
    server.kill()
    assert lasting.path.is_socket()


def _leave_a_file(lasting: Lasting, server: psutil.Process) -> None:
    server.kill()
    lasting.path.unlink()
    lasting.path.write_text("no socket")


def _stop(lasting: Lasting, server: psutil.Process) -> None:
    lasting.environment["PATIENCE"] = "1"
    server.suspend()


def _send_nonsense(lasting: Lasting, server: psutil.Process) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(lasting.path))
        connection.sendall(b"\nnonsense")
    wait_until(lambda: has_ended(server), "its end")


@pytest.mark.parametrize("harm", [_kill, _leave_a_file, _stop, _send_nonsense])
def test_one_that_is_dead_or_hangs_is_replaced(
    lasting: Lasting, harm: Callable[[Lasting, psutil.Process], None]
) -> None:
    server = lasting.tell()
    harm(lasting, server)
    other = lasting.tell()
    assert lasting.tell() == other != server


def test_a_call_goes_on_without_the_server_that_has_forked_for_it(lasting: Lasting) -> None:
    with lasting.hanging() as (call, server, fork):
        server.kill()
        wait_until(lambda: has_ended(server), "its end")
        assert lasting.tell() != server
        assert call.poll() is None and not has_ended(fork)


def test_one_who_says_nothing_keeps_nobody_waiting(lasting: Lasting) -> None:
    server = lasting.tell()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(lasting.path))
        assert lasting.tell() == server


def test_calls_that_begin_at_once_share_one_server_even_if_the_first_is_killed(
    lasting: Lasting,
) -> None:
    lasting.environment["STARTS_IN"] = "1"
    first = lasting.call("tell")
    wait_until(lambda: (lasting.folder / "logs" / "log").exists(), "the start of the server")
    calls = [lasting.call("tell") for _ in range(3)]
    first.kill()
    servers = {call.communicate(timeout=PATIENCE)[0] for call in (first, *calls)}
    assert len(servers - {""}) == 1
    wait_until(lambda: len(lasting.processes()) == 1, "the end of any other server")


def test_a_folder_that_others_can_enter_is_not_used(lasting: Lasting) -> None:
    lasting.path.parent.mkdir(mode=0o755)
    with lasting.call("tell") as call:
        said, _ = call.communicate(timeout=PATIENCE)
    assert "no warm start: " in said and "is not this user's alone" in said
    assert call.returncode == 1 and not lasting.path.exists()
