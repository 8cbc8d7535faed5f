"""Forks: a function in a fork of this process, and servers that fork at the request of `children`.

A server listens at a socket and ends with the process that it serves; one that serves whoever
calls, `IDLE_SECONDS` after its last caller has ended, or when its socket or the package is removed.
It runs no threads of its own, since a fork has none of them. For each request it forks a keeper,
which forks the child, says how that ended, and kills it if the caller goes. Keepers outlive their
server.
"""

from __future__ import annotations

import gc
import marshal
import multiprocessing
import multiprocessing.popen_fork  # else each fork would import it
import os
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Any, NoReturn

import psutil

from flashlab.calls.watching import has_ended
from flashlab.children import FILES, POLL_SECONDS, call, end_with

IDLE_SECONDS = 600.0

REQUEST_SECONDS = 5.0
"""Seconds to wait for a request on a connection."""

Request = Mapping[str, Any]
Accept = Callable[[Request], Callable[[], None] | None]
"""Imports a request's modules; returns work to do while the child runs, None to refuse."""


def _call(function: Callable[..., int | None], arguments: Sequence[Any]) -> None:
    status: Any = 1
    try:
        parent = multiprocessing.parent_process()
        assert parent is not None
        end_with(parent.sentinel)
        status = function(*arguments)
    except SystemExit as ended:
        status = ended.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)


def forked(function: Callable[..., int | None], *arguments: Any) -> ForkProcess:
    """Call a function, which returns the exit status, in a fork that dies with this process."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_call, args=(function, arguments))
    process.start()
    return process


def _serve(connection: socket.socket, request: Request, files: Sequence[int]) -> int | None:
    """Take the caller's folder, environment and streams, and call its function."""
    connection.close()  # the keeper's
    *streams, last = files
    channel = socket.socket(fileno=last)
    channel.set_inheritable(False)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return call(request["function"], [*request["arguments"], channel])


def _keep(connection: socket.socket, request: Request, files: Sequence[int]) -> None:
    """Fork the child and say how it ended; kill it if the caller goes, and hand on interrupts."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a caller may itself ignore it
    child = forked(_serve, connection, request, files)
    for file in files:
        os.close(file)
    while child.is_alive():
        # Looks again after a while: what the child left behind may hold its sentinel open.
        if connection in wait([connection, child.sentinel], POLL_SECONDS):
            if connection.recv(1):
                assert child.pid is not None
                os.kill(child.pid, signal.SIGINT)
            else:
                child.kill()
                child.join()
    connection.sendall(f"{child.exitcode}\n".encode())


def _take(
    listener: socket.socket, connection: socket.socket, accept: Accept
) -> Callable[[], None] | None:
    """Read a request and fork its keeper; returns work to do meanwhile, None if refused."""
    files: list[int] = []
    with connection, suppress(ConnectionError, EOFError, TimeoutError):  # of a caller that has gone
        try:
            connection.settimeout(REQUEST_SECONDS)
            _, files, _, _ = socket.recv_fds(connection, 1, FILES)
            with connection.makefile("rb") as sent:
                request = marshal.load(sent)
            connection.settimeout(None)
            afterwards = accept(request)
            if afterwards is None:
                return None
            gc.freeze()  # a fork's collections skip what it has from here: 0.15 s each otherwise
            connection.sendall(b"accepted\n")
            if os.fork() == 0:
                try:
                    listener.close()
                    _keep(connection, request, files)
                finally:
                    os._exit(0)
            return afterwards
        finally:
            for file in files:
                os.close(file)
    return None


def outlives_callers() -> bool:
    """True of a server that serves whoever calls: its command line names no process."""
    return len(sys.argv) == 2


def leave() -> NoReturn:
    """End this server, which is outdated; whoever has asked it starts another at its address."""
    with suppress(FileNotFoundError):
        os.unlink(sys.argv[1])  # before the connections are closed
    os._exit(0)


def _callers(connection: socket.socket) -> set[psutil.Process]:
    """The process at the other end; none where it has ended."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    try:
        return {psutil.Process(struct.unpack("3i", told)[0])}
    except psutil.NoSuchProcess:
        return set()


def _is_in_place(path: str, inode: int) -> bool:
    """True while a server's socket and its code are where they were."""
    with suppress(OSError):
        return os.stat(path).st_ino == inode and os.path.exists(__file__)
    return False


def serve(prepare: Callable[[], Accept]) -> None:
    """Fork a child for each request at the socket that the command line names, while it is needed.

    `prepare` imports the modules that all requests need.
    """
    path, lasts = sys.argv[1], outlives_callers()
    try:
        callers = {psutil.Process(int(pid)) for pid in sys.argv[2:]}
        accept = prepare()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(POLL_SECONDS)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped automatically
            inode, used = os.stat(path).st_ino, time.monotonic()
            while callers or (lasts and time.monotonic() - used < IDLE_SECONDS):
                if lasts and not _is_in_place(path, inode):
                    return
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    used = time.monotonic() if callers else used
                    callers = {caller for caller in callers if not has_ended(caller)}
                    continue
                if lasts:
                    callers |= _callers(connection)
                afterwards = _take(listener, connection, accept)
                if afterwards is not None:
                    afterwards()
            if lasts:
                leave()  # whoever has just connected starts another
    finally:
        if not lasts:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
