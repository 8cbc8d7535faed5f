"""Child processes: a function in a fork of a server that has its imports, or in a new interpreter.

A fork has imported what takes most of a short job's time in a new interpreter (`forks`). A child
dies with its caller, however that ends. It may answer by JSON lines on a channel; it ends with an
exit status or by a signal. What calls a server does without installed packages (``python -S``) and
without most of Python's own, whose imports would be most of its time.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLL_SECONDS = 0.2
START_SECONDS = 120.0
"""Seconds to wait for a server to import its modules before doing without it."""

END_SECONDS = 5.0
"""Seconds to wait for a child to close its channel once its keeper was killed."""

CHANNEL = "{channel}"
"""In a program's command: where the number of its end of the channel to the caller stands."""

FILES = 4
"""Standard input, output and error of a fork, and its end of the channel to the caller."""


def send(connection: socket.socket, message: Mapping[str, object]) -> None:
    """Send a JSON object as one line."""
    import json

    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next line as a JSON object; None where the other end closed first."""
    import json

    line = read_line(connection)
    message: dict[str, Any] | None = None if line is None else json.loads(line)
    return message


def read_line(connection: socket.socket) -> bytes | None:
    """The next line; None where the other end closed first."""
    line = b""
    while not line.endswith(b"\n"):
        seen = connection.recv(2**16, socket.MSG_PEEK)  # what follows the line is another message
        if not seen:
            return None
        line += connection.recv(seen.find(b"\n") + 1 or len(seen))
    return line


def signal_name(status: int) -> str:
    """The name of the signal of a negative exit status, such as SIGKILL; else its number."""
    known = -status in set(signal.Signals)
    return signal.Signals(-status).name if known else str(-status)


def call(function: str, arguments: Sequence[object]) -> int | None:
    """The status that a function gives, by its name as ``module:function``."""
    import importlib

    module, _, name = function.partition(":")
    status: int | None = getattr(importlib.import_module(module), name)(*arguments)
    return status


def end_with(file: int) -> None:
    """End this process, with status 1, as soon as the other end of a pipe or socket is closed."""
    import threading

    def wait() -> None:
        closed = select.poll()
        closed.register(file, 0)  # `answer` reports its end in any case
        closed.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# The caller's side


class Child:
    """A child process, and a channel of JSON lines to the function in it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit status (negative: the signal), None while it runs on after `seconds`."""
        return self._wait(seconds)

    def kill(self) -> None:
        """End it, if it still runs, and wait until it is gone."""
        self._kill()
        self._channel.close()

    def _wait(self, seconds: float | None) -> int | None:
        raise NotImplementedError

    def _kill(self) -> None:
        raise NotImplementedError

    def say(self, message: Mapping[str, object]) -> None:
        """Send a message to the function; one that has ended is met by `answer`."""
        with contextlib.suppress(OSError):
            send(self._channel, message)

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """The function's next message; None where it has ended, or closed the channel, without one.

        TimeoutError where there is none within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not self._is_readable(POLL_SECONDS):
            # Looks again after a while: what the child left behind may hold its end open.
            if self.wait(0.001) is not None and not self._is_readable(0.0):
                return None
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no answer within {seconds:g} s")
        self._channel.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            return receive(self._channel)
        except ConnectionResetError:
            return None

    def _is_readable(self, seconds: float) -> bool:
        return bool(select.select([self._channel], [], [], seconds)[0])


class Program(Child):
    """A program of its own; with `leads`, in a session with whatever it starts, and ends with."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: int | None = None,
        leads: bool = True,
    ) -> None:
        import subprocess

        ours, theirs = socket.socketpair()
        super().__init__(ours)
        self._leads = leads
        with theirs:
            self._process = subprocess.Popen(
                [str(theirs.fileno()) if part == CHANNEL else part for part in command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=leads,
            )
        self.pid = self._process.pid

    def _wait(self, seconds: float | None) -> int | None:
        import subprocess

        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _kill(self) -> None:
        if self._leads:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of it is left
                os.killpg(self.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()


def interpreter(
    function: str, arguments: Sequence[object], environment: Mapping[str, str], output: int
) -> Program:
    """Call a function (`module:name`) in a new interpreter, with the channel as last argument."""
    import json

    command = [sys.executable, "-m", __name__, function, json.dumps(arguments), CHANNEL]
    return Program(command, environment, output)


class Fork(Child):
    """A fork of a server, by the connection to its keeper."""

    def __init__(self, connection: socket.socket, channel: socket.socket) -> None:
        super().__init__(channel)
        self._connection = connection
        self._status: int | None = None

    def _wait(self, seconds: float | None) -> int | None:
        if self._status is None:
            self._connection.settimeout(seconds)
            try:
                ended = read_line(self._connection)
            except TimeoutError:
                return None
            except ConnectionError:
                ended = None
            if not ended:  # the keeper itself was killed, and the child dies with it
                with contextlib.suppress(OSError):
                    self._channel.settimeout(END_SECONDS)
                    while self._channel.recv(2**16):
                        pass
            self._status = int(ended) if ended else -signal.SIGKILL
        return self._status

    def interrupt(self) -> None:
        """Interrupt it as from the keyboard."""
        with contextlib.suppress(OSError):  # it has just ended, and its status is on the way
            self._connection.sendall(b"\n")

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)  # the keeper kills the child
            self._connection.settimeout(None)
            while self._connection.recv(64):  # and is gone when it has buried it
                pass
        self._connection.close()


def _address(module: str, serves: int | str) -> str:
    import tempfile

    name = f"flashlab-{os.getuid()}-{serves}-{module.rpartition('.')[2]}"
    return os.path.join(tempfile.gettempdir(), name, "warm")


class Server:
    """The server of a module (`forks.serve`), at a path in a folder of this user.

    It ends with the process whose number it `serves`. A text in place of the number names a server
    that outlives its callers; its output is in the file `log`, from the folder that it began in.
    """

    def __init__(
        self,
        module: str,
        serves: int | str,
        environment: Mapping[str, str],
        path: str = "",
        log: str = "",
    ) -> None:
        self.path = path or _address(module, serves)
        self._command = [sys.executable, "-m", module, self.path]
        self._command += [str(serves)] if isinstance(serves, int) else []
        self._environment = dict(environment)
        self._log = log

    def call(
        self,
        function: str,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        streams: Sequence[int],
        version: str = "",
    ) -> Fork | None:
        """Have it call a function (`module:name`) in a fork, in this process's folder.

        None where it does not start, or has another `version` of what the function needs. The fork
        has this environment and these standard streams; the channel is its last argument.
        """
        asked = {
            "function": function,
            "arguments": arguments,
            "environment": dict(environment),
            "folder": os.getcwd(),
            "version": version,
        }
        for _ in range(2):  # a server may end at the first request after a source was edited
            connection = self.connect()
            if connection is None:
                return None
            connection.settimeout(START_SECONDS)
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(connection, [b"\n"], [*streams, theirs.fileno()])
                    connection.sendall(marshal.dumps(asked))
                    if read_line(connection) is not None:
                        # A fork may be at work: what becomes of it starts no second one.
                        return Fork(connection, ours)
            except ConnectionError:
                pass  # the server has ended
            except TimeoutError:  # it hangs: another takes its place
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)
            connection.close()
            ours.close()
        return None

    def connect(self) -> socket.socket | None:
        """A connection to it; it is started if it does not run. None, and a word, if it cannot."""
        folder = os.path.dirname(self.path)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            status = os.lstat(folder)
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise PermissionError(f"{folder} is not this user's alone")
            return self._reach() or self._start(folder)
        except OSError as error:
            print(f"no warm start: {error}", file=sys.stderr)
            return None

    def _reach(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            return None
        return connection

    def _start(self, folder: str) -> socket.socket | None:
        import fcntl
        import subprocess

        written = self._log or f"{folder}/log"
        os.makedirs(os.path.dirname(written), exist_ok=True)
        with open(f"{folder}/lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if connection := self._reach():  # another process has started it
                return connection
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            with open(written, "wb") as log:
                process = subprocess.Popen(
                    self._command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            deadline = time.monotonic() + START_SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                if connection := self._reach():
                    return connection
                time.sleep(0.02)
            # Where a call was ended as its server began, that one may by now be there.
            if (connection := self._reach()) is None and self._log:
                raise ChildProcessError(f"{self._log} says why")
            return connection


def main() -> None:
    """Call the function that the command line names (`interpreter`)."""
    import json

    function, arguments, file = sys.argv[1:]
    end_with(int(file))
    channel = socket.socket(fileno=int(file))
    sys.exit(call(function, [*json.loads(arguments), channel]))


if __name__ == "__main__":
    main()
