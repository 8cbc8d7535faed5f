"""A process for each run, forked by a server that has its imports, or by a new interpreter.

The server forks a keeper for each connection. The keeper forks the run, which has the connection to
talk with the caller, and says there how that ended. It kills it where the caller goes first, with
everything that it has started. Without a server the keeper is a new interpreter. A server ends with
the process that it serves; it runs no threads of its own, since a fork has none of them.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import glob
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import psutil

from flashlab.files import socket_address
from flashlab.plan.watching import POLL_SECONDS, has_ended

FORK = get_context("fork")

START_SECONDS, ORDER_SECONDS, LEAVE_SECONDS = 120.0, 5.0, 1.0
"""Seconds to wait for a server to import its modules, before doing without it; for an order; and
for what a run has started to end after it."""


def signal_name(status: int) -> str:
    """The name of the signal of a negative exit status, such as SIGKILL; else its number."""
    known = -status in set(signal.Signals)
    return signal.Signals(-status).name if known else str(-status)


def send(connection: socket.socket, message: Mapping[str, object]) -> None:
    """Send a JSON object as one line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket, seconds: float | None = None) -> dict[str, Any] | None:
    """The next line as a JSON object, None where the other end is closed; TimeoutError."""
    line = b""
    connection.settimeout(seconds)
    with suppress(ConnectionError):
        while seen := connection.recv(2**16, socket.MSG_PEEK):
            line += connection.recv(seen.find(b"\n") + 1 or len(seen))  # the rest is the next's
            if line.endswith(b"\n"):
                connection.settimeout(None)
                return dict(json.loads(line))
    return None


# The run and its keeper


def _call(function: Callable[..., object], arguments: Sequence[Any]) -> None:
    """Call a function, and end this process with a status; as soon as its parent has ended, too."""
    parent, status = parent_process(), 1
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    try:
        threading.Thread(target=watch, daemon=True).start()
        function(*arguments)
        status = 0
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(status)  # waits for no thread


def forked(function: Callable[..., object], *arguments: Any) -> ForkProcess:
    """Call a function in a fork that dies with this process."""
    process = FORK.Process(target=_call, args=(function, arguments))
    process.start()
    return process


def become(command: list[str], _: socket.socket) -> None:
    """Run a program in the place of a function, without its connection."""
    os.execvp(command[0], command)


def _run(connection: socket.socket, order: Mapping[str, Any]) -> None:
    """Take an order's folder, environment and output, and call its function."""
    if order["log"] is not None:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    os.register_at_fork(after_in_child=connection.close)  # a kernel's forks do not answer for it
    pkgutil.resolve_name(order["function"])(*order["arguments"], connection)


def _end_descendants() -> list[str]:
    """End what this process has started, directly or not; the names of what did not end itself."""
    names = list[str]()
    while left := psutil.Process().children(recursive=True):
        for process in psutil.wait_procs(left, LEAVE_SECONDS)[1]:
            with suppress(psutil.NoSuchProcess):
                names.append(process.name())
                process.kill()
    return names


def _keep(connection: socket.socket, order: Mapping[str, Any]) -> None:
    """Fork a run and say how it ended; end it if the caller goes, and then what it has left."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: it is all orphans' parent
    send(connection, {"keeper": os.getpid()})  # it begins
    run, poll = forked(_run, connection, order), select.poll()
    poll.register(connection, 0)  # for the caller's end alone
    poll.register(run.sentinel, select.POLLIN)
    while run.is_alive():
        # Looks again after a while: what the run left behind may hold its sentinel open.
        if connection.fileno() in dict(poll.poll(POLL_SECONDS * 1e3)):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            run.join()
    with suppress(OSError):
        send(connection, {"ended": run.exitcode, "left": _end_descendants()})


# The server


def hold_gpus() -> subprocess.Popen[bytes] | None:
    """Keep the GPUs initialised until this process ends; None where there is no driver.

    Without persistence mode the driver shuts a GPU down with the last process that has it open, and
    initialises it again for the next: 8 to 15 s a run on a host of two H100s. The program is one of
    its own, since no fork survives an open GPU; it ends at its next line once nobody can read that.
    """
    program = ("nvidia-smi", "dmon", "-s", "p", "-d", "10")  # the power, every ten seconds
    files: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with suppress(OSError):
        return subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True, **files)
    return None


def open_devices() -> list[str]:
    """The GPU's device files that this process holds open."""
    opened = {os.path.realpath(link) for link in glob.iglob("/proc/self/fd/*")}
    return sorted(path for path in opened if path.startswith("/dev/nvidia"))


def preload(modules: Iterable[str]) -> None:
    """Import modules that later forks will need.

    One that cannot be imported is left to the run, whose record then states why. Where one has
    opened a GPU, which no fork survives, the server ends: its callers start without it.
    """
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)
    if touched := open_devices():
        sys.exit(f"importing {', '.join(modules)} has opened {', '.join(touched)}")
    gc.freeze()  # a fork's collections skip what it has from here: 0.15 s each otherwise


def _serve(listener: socket.socket, path: str, serves: str, *modules: str) -> None:
    """Import modules while callers wait in line, then fork keepers until a process has ended."""
    os.register_at_fork(after_in_child=listener.close)
    _holder = hold_gpus()
    try:
        served = psutil.Process(int(serves))
        preload(modules)
        while not has_ended(served):
            if select.select([listener], [], [], POLL_SECONDS)[0]:
                with listener.accept()[0] as connection, suppress(Exception):  # of nonsense
                    if order := receive(connection, ORDER_SECONDS):
                        preload(order["modules"])
                        FORK.Process(target=_keep, args=(connection, order)).start()
    finally:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)


# The caller


def _interpreter(given: socket.socket, environment: Mapping[str, str], *serving: object) -> None:
    """This module in a new interpreter, in a session of its own, with a socket that it is given."""
    command = [sys.executable, "-m", __name__, *map(str, (given.fileno(), *serving))]
    output = subprocess.DEVNULL if serving else None
    files: Any = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
    files |= {"pass_fds": [given.fileno()], "start_new_session": True}
    subprocess.Popen(command, env={**environment}, **files)


class Server:
    """The server that forks for a process and what it starts, in a folder of this user's alone."""

    def __init__(self, serves: int, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self.path = Path(tempfile.gettempdir(), f"flashlab-{os.getuid()}-{serves}", "warm")
        self._arguments, self._environment = [self.path, serves, *modules], environment

    def connect(self) -> socket.socket | None:
        """A connection to it, even as it imports; it is started if it is not there.

        None on macOS, whose libraries do not survive a fork; and, with a word, if it cannot start.
        """
        if sys.platform != "linux":
            return None
        folder, connection = self.path.parent, socket.socket(socket.AF_UNIX)
        try:
            folder.mkdir(0o700, exist_ok=True)
            status = folder.lstat()
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise PermissionError(f"{folder} is not this user's alone")
            with open(folder / "lock", "a") as lock, socket_address(self.path) as address:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be starting it
                if connection.connect_ex(address):
                    self.path.unlink(missing_ok=True)
                    with socket.socket(socket.AF_UNIX) as listener:
                        listener.bind(address)
                        listener.listen(1000)
                        _interpreter(listener, self._environment, *self._arguments)
                    connection.connect(address)
            return connection
        except OSError as error:
            print(f"no warm start: {error}", file=sys.stderr)
            connection.close()
            return None


class Child:
    """A function's call in a process of its own, and the connection with it, in JSON lines.

    `left` names the processes that it left running, which were ended after it; `is_warm` says
    whether a server has forked it.
    """

    left: Sequence[str] = ()
    _status: int | None = None

    def __init__(
        self,
        function: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        log: Path | None = None,
        server: Server | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        """Call ``module:function`` with JSON's arguments, and last the socket that leads here.

        `environment` has all of its variables. Its output is appended to the file `log`, or goes
        where ours does. A `server` forks it, which has imported `modules` then; a new interpreter
        does without one, or where it does not start: ChildProcessError where nor does that.
        """
        order: dict[str, Any] = {
            **{"function": function, "arguments": [*arguments], "environment": {**environment}},
            **{"folder": os.getcwd(), "modules": [*modules], "log": log and str(log.absolute())},
        }
        self.is_warm = bool(server and self._begins(server.connect(), order))
        if not self.is_warm:
            ours, theirs = socket.socketpair()
            with theirs:
                _interpreter(theirs, environment)
            if not self._begins(ours, order):
                raise ChildProcessError(f"{sys.executable} does not start")

    def _begins(self, connection: socket.socket | None, order: Mapping[str, Any]) -> bool:
        """Order a run of a keeper or a server; False where that ends before the run begins."""
        if connection:
            with suppress(ConnectionError, TimeoutError):
                send(connection, order)
                if began := receive(connection, START_SECONDS):
                    self._connection, self._keeper = connection, began["keeper"]
                    return True
            connection.close()
        return False

    def say(self, message: Mapping[str, object]) -> None:
        """Send a message to the function; one that has ended is met by `answer`."""
        with suppress(OSError):
            send(self._connection, message)

    def answer(self, seconds: float | None) -> dict[str, Any] | None:
        """The function's next message; None where it has ended without one.

        TimeoutError where there is none within `seconds`.
        """
        if self._status is None:
            message = receive(self._connection, seconds)
            if message is not None and "ended" not in message:
                return message
            # A keeper that was killed itself has no last message, and the run dies with it.
            last = message or {"ended": -signal.SIGKILL, "left": []}
            self._status, self.left = last["ended"], last["left"]
        return None

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit status (negative: the signal), None while it runs on after `seconds`.

        What the function still says is passed over.
        """
        with suppress(TimeoutError):
            while self.answer(seconds) is not None:
                pass
        return self._status

    def kill(self) -> None:
        """End it with all that it has started, and wait until they are gone."""
        self._connection.close()
        with suppress(psutil.NoSuchProcess):
            keeper = psutil.Process(self._keeper)
            while self._status is None and not has_ended(keeper):
                time.sleep(0.01)


def main() -> None:
    """Keep one run (``FILE``), or serve a process at a path (``FILE PATH PID MODULE...``)."""
    file, *serving = sys.argv[1:]
    given = socket.socket(fileno=int(file))
    given.set_inheritable(False)
    if serving:
        _serve(given, *serving)
    elif order := receive(given, ORDER_SECONDS):
        _keep(given, order)


if __name__ == "__main__":
    main()
