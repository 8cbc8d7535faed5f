"""A process for each run, forked by a server that has its imports, or by a new interpreter.

The server is the standard library's: for each connection it forks a keeper. The keeper forks the
run, which has the connection to talk with the caller, and says there how that ended. It kills it
where the caller goes first, with everything that it has started. Without a server the keeper is a
new interpreter. A server ends with the process that it serves; it runs no threads of its own, since
a fork has none of them.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import socketserver
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

START_SECONDS = 120.0
"""Seconds to wait for a server to import its modules before doing without it."""

ORDER_SECONDS = 5.0
"""Seconds to wait for an order."""

LEAVE_SECONDS = 1.0
"""Seconds that what a run has started may take to end after it."""

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl: descendants whose parent has ended become children."""

ENDED = "ended"
"""The key of a keeper's last message, with the exit status."""

HANG_UP = getattr(select, "POLLRDHUP", 0)
"""The event that the other end has closed its side, where there is more than `POLLHUP`."""

HOLDS_GPUS = ("nvidia-smi", "dmon", "-s", "p", "-d", "10")
"""A program that has every GPU open and measures nothing but its power, every ten seconds."""


def signal_name(status: int) -> str:
    """The name of the signal of a negative exit status, such as SIGKILL; else its number."""
    known = -status in set(signal.Signals)
    return signal.Signals(-status).name if known else str(-status)


def send(connection: socket.socket, message: Mapping[str, object]) -> None:
    """Send a JSON object as one line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next line as a JSON object; None where the other end closed first."""
    line = b""
    while not line.endswith(b"\n"):
        seen = connection.recv(2**16, socket.MSG_PEEK)  # what follows the line is another message
        if not seen:
            return None
        line += connection.recv(seen.find(b"\n") + 1 or len(seen))
    message: dict[str, Any] = json.loads(line)
    return message


def _ordered(connection: socket.socket) -> dict[str, Any] | None:
    """The order that comes first on a connection; None where it is closed at once."""
    connection.settimeout(ORDER_SECONDS)
    order = receive(connection)
    connection.settimeout(None)
    return order


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
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # waits for no thread


def forked(function: Callable[..., object], *arguments: Any) -> ForkProcess:
    """Call a function in a fork that dies with this process."""
    process = get_context("fork").Process(target=_call, args=(function, arguments))
    process.start()
    return process


def _run(connection: socket.socket, order: Mapping[str, Any]) -> None:
    """Take the order's folder, environment and output; call its function, or become its command."""
    if order["log"] is not None:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["command"]:
        os.execvp(order["command"][0], order["command"])
    module, _, name = order["function"].partition(":")
    getattr(importlib.import_module(module), name)(*order["arguments"], connection)


def _end_descendants() -> list[str]:
    """End what this process has started, directly or not; the names of what did not end itself."""
    names, deadline = list[str](), time.monotonic() + LEAVE_SECONDS
    while left := psutil.Process().children(recursive=True):
        _, running = psutil.wait_procs(left, timeout=0.01)
        for process in running if time.monotonic() >= deadline else ():
            with suppress(psutil.NoSuchProcess):
                names.append(process.name())
                process.kill()
    return names


def _keep(connection: socket.socket, order: Mapping[str, Any]) -> None:
    """Fork a run and say how it ended; end it if the caller goes, and then what it has left."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    send(connection, {})  # it begins
    run, poll = forked(_run, connection, order), select.poll()
    poll.register(connection, HANG_UP)
    poll.register(run.sentinel, select.POLLIN)
    while run.is_alive():
        # Looks again after a while: what the run left behind may hold its sentinel open.
        if any(file == connection.fileno() for file, _ in poll.poll(POLL_SECONDS * 1e3)):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            run.join()
    with suppress(OSError):
        send(connection, {ENDED: run.exitcode, "left": _end_descendants()})


# The server


def hold_gpus() -> subprocess.Popen[bytes] | None:
    """Keep the GPUs initialised until this process ends; None where there is no driver.

    Without persistence mode the driver shuts a GPU down when the last process that has it open
    ends, and the next one waits until it is initialised again: 8 to 15 s a run on a host of two
    H100s. The program is one of its own, since no fork survives an open GPU; it ends at its next
    line once nobody can read that.
    """
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            HOLDS_GPUS, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing,
            start_new_session=True
        )  # fmt: skip
    except OSError:
        return None


def open_devices() -> list[str]:
    """The GPU's device files that this process holds open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    # The folder's own descriptor is in its list, and closed by now.
    opened = {os.readlink(link) for link in links if os.path.lexists(link)}
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


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks keepers for callers of one user until the process that it serves has ended."""

    max_children = 1000

    def __init__(self, listener: int, serves: psutil.Process) -> None:
        super().__init__("", socketserver.BaseRequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket, self._serves = socket.socket(fileno=listener), serves

    def process_request(self, request: Any, client_address: Any) -> None:
        """Import what a run needs, and fork its keeper."""
        if order := _ordered(request):
            preload(order["modules"])
            super().process_request(request, order)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Keep the run, in a fork; in place of the caller's address it has the order."""
        self.socket.close()
        _keep(request, client_address)

    def service_actions(self) -> None:
        """Reap keepers, and leave with the process served; called at each poll."""
        super().service_actions()
        if has_ended(self._serves):
            sys.exit()


def _serve(path: str, listener: str, serves: str, *modules: str) -> None:
    """Import modules while callers wait in line, then serve."""
    try:
        server, holder = _Server(int(listener), psutil.Process(int(serves))), hold_gpus()
        preload(modules)
        server.serve_forever(POLL_SECONDS)
    finally:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    del holder


# The caller


class Child:
    """A run, by the connection on which its function and then its keeper speak, in JSON lines.

    `left` names the processes that it left running, which were ended after it; `is_warm` says
    whether a server has forked it.
    """

    def __init__(
        self, connection: socket.socket, keeper: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._connection, self._keeper = connection, keeper
        self.is_warm = keeper is None
        self._status: int | None = None
        self.left: Sequence[str] = ()

    def say(self, message: Mapping[str, object]) -> None:
        """Send a message to the function; one that has ended is met by `answer`."""
        with suppress(OSError):
            send(self._connection, message)

    def answer(self, seconds: float | None) -> dict[str, Any] | None:
        """The function's next message; None where it has ended without one.

        TimeoutError where there is none within `seconds`.
        """
        if self._status is not None:
            return None
        self._connection.settimeout(seconds)
        message = None
        with suppress(ConnectionError):
            message = receive(self._connection)
        if message is None:  # the keeper itself was killed, and the run dies with it
            message = {ENDED: -signal.SIGKILL, "left": []}
        if ENDED not in message:
            return message
        self._status, self.left = message[ENDED], message["left"]
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
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR if self.is_warm else socket.SHUT_RDWR)
        if self._keeper is None:
            self.wait()
        else:
            self._keeper.wait()
        self._connection.close()


def _started(
    arguments: Sequence[str], environment: Mapping[str, str], **more: Any
) -> subprocess.Popen[bytes]:
    """This module in a new interpreter, in a session of its own."""
    command, nothing = [sys.executable, "-m", __name__, *arguments], subprocess.DEVNULL
    return subprocess.Popen(
        command, env=dict(environment), stdin=nothing, start_new_session=True, **more
    )


class Server:
    """The server that forks for a process and what it starts, in a folder of this user's alone."""

    def __init__(self, serves: int, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self.path = Path(tempfile.gettempdir(), f"flashlab-{os.getuid()}-{serves}", "warm")
        self._arguments, self._environment = [str(serves), *modules], environment

    def connect(self) -> socket.socket | None:
        """A connection to it, even as it imports; it is started if it is not there.

        None, and a word, if it cannot be.
        """
        folder, connection = self.path.parent, socket.socket(socket.AF_UNIX)
        try:
            folder.mkdir(0o700, exist_ok=True)
            status = folder.lstat()
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise PermissionError(f"{folder} is not this user's alone")
            with open(folder / "lock", "a") as lock, socket_address(self.path) as address:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be starting it
                if connection.connect_ex(address):
                    self._start(address)
                    connection.connect(address)
            return connection
        except OSError as error:
            print(f"no warm start: {error}", file=sys.stderr)
            connection.close()
            return None

    def _start(self, address: str) -> None:
        self.path.unlink(missing_ok=True)
        with (
            socket.socket(socket.AF_UNIX) as listener,
            self.path.with_name("log").open("ab") as log,
        ):
            listener.bind(address)
            listener.listen(_Server.max_children)
            given = [str(self.path), str(listener.fileno()), *self._arguments]
            files = {"stdout": log, "stderr": log, "pass_fds": [listener.fileno()]}
            _started(given, self._environment, **files)


def _has_begun(connection: socket.socket, order: Mapping[str, Any]) -> bool:
    """Order a run of a keeper or a server; False where that ends before the run begins."""
    with suppress(ConnectionError, TimeoutError):
        connection.settimeout(START_SECONDS)
        send(connection, order)
        if receive(connection) is not None:
            return True
    connection.close()
    return False


def start(
    function: str,
    arguments: Sequence[object],
    environment: Mapping[str, str],
    log: Path | None = None,
    server: Server | None = None,
    modules: Sequence[str] = (),
    command: Sequence[str] = (),
) -> Child:
    """Call a function (`module:name`) in a process of its own, with its connection at the end.

    Args:
        function: its name, called with `arguments`, of which JSON must be able to tell.
        arguments: its arguments but for the last, the socket that leads to the caller.
        environment: all environment variables of the process.
        log: file that its output is appended to; the caller's own output without one.
        server: what forks it; a new interpreter without one, or where it does not start.
        modules: what the server imports beforehand.
        command: a program that is run in place of the function.
    """
    order: dict[str, Any] = {
        **{"function": function, "arguments": list(arguments), "command": list(command)},
        **{"environment": dict(environment), "folder": os.getcwd(), "modules": list(modules)},
        "log": None if log is None else str(log.absolute()),
    }
    if server and (connection := server.connect()) and _has_begun(connection, order):
        return Child(connection)
    connection, theirs = socket.socketpair()
    with theirs:
        keeper = _started([str(theirs.fileno())], environment, pass_fds=[theirs.fileno()])
    if _has_begun(connection, order):
        return Child(connection, keeper)
    raise ChildProcessError(f"{sys.executable} does not start")


def main() -> None:
    """Keep one run (``FILE``), or serve a process at a path (``PATH FILE PID MODULE...``)."""
    first, *rest = sys.argv[1:]
    if rest:
        return _serve(first, *rest)
    connection = socket.socket(fileno=int(first))
    connection.set_inheritable(False)
    if order := _ordered(connection):
        _keep(connection, order)


if __name__ == "__main__":
    main()
