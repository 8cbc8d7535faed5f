"""Servers that fork: processes that have imported what the jobs of one Snakemake call need.

Importing libraries is most of a short job's time in a fresh interpreter; a fork has them imported.
A server listens at a socket in a folder that only its user can enter, serves the one call, and ends
with it, however that ends. It runs no threads of its own, since a fork has none of them.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from flashlab.calls.watching import has_ended

POLL_SECONDS = 0.2
START_SECONDS = 120.0
"""How long to wait for a server to import what it needs before running cold."""


def send_message(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """One JSON object as one line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def read_message(connection: socket.socket) -> dict[str, Any] | None:
    """One line as a JSON object; None where the other end closed first."""
    line = b""
    while not line.endswith(b"\n"):
        # Byte by byte: what follows the line belongs to the next reader.
        part = connection.recv(1)
        if not part:
            return None
        line += part
    message: dict[str, Any] = json.loads(line)
    return message


def die_with_parent(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe `lifeline` is closed."""

    def wait() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# The caller's side


def _socket_path(workflow: psutil.Process, module: str) -> Path:
    """Where a workflow's server listens: in a folder that only this user can enter."""
    name = f"flashlab-{os.getuid()}-{workflow.pid}-{module.rpartition('.')[2]}"
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder / "warm"


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def connect_or_start(
    workflow: psutil.Process, module: str, environment: Mapping[str, str]
) -> socket.socket | None:
    """A connection to a workflow's server of this module, started if there is none yet.

    None where it does not start. OSError where its folder cannot be made.
    """
    path = _socket_path(workflow, module)
    with open(path.parent / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connect(path)
        if connection is not None:
            return connection
        path.unlink(missing_ok=True)
        with open(path.parent / "log", "ab") as log:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-m", module),
                    *("--socket", str(path)),
                    *("--workflow", json.dumps([workflow.pid, workflow.create_time()])),
                ],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            connection = _connect(path)
            if connection is not None:
                return connection
            time.sleep(0.02)
    return None


# The server's side


@dataclass(frozen=True)
class Work:
    """What a fork does, and the files that came with the request, which only the fork needs.

    `run` gets the end of a pipe that is closed when the fork's keeper ends; it returns a status.
    """

    run: Callable[[int], int]
    files: Sequence[int] = ()

    def close(self) -> None:
        """Close the files, once they are the fork's."""
        for file in self.files:
            os.close(file)


def _keep(connection: socket.socket, work: Work) -> None:
    """Fork the process that works, wait for it and say how it ended; kill it if the caller goes."""
    read_end, lifeline = os.pipe()  # closed by the system however this process ends
    ended, alive = os.pipe()  # and this one however the forked process does
    pid = os.fork()
    if pid == 0:
        connection.close()
        os.close(lifeline)
        os.close(ended)
        code = 1
        try:
            code = work.run(read_end)
        except SystemExit as error:
            print(error, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(read_end)
    os.close(alive)
    work.close()
    gone, status = 0, 0
    while not gone:
        # Looks again after a while: a process that the kernel left behind may hold `alive` open.
        ready = select.select([connection.fileno(), ended], [], [], POLL_SECONDS)[0]
        if connection.fileno() in ready:
            os.kill(pid, signal.SIGKILL)  # the caller closed its end
        gone, status = os.waitpid(pid, 0 if ready else os.WNOHANG)
    with contextlib.suppress(OSError):
        send_message(connection, {"returncode": os.waitstatus_to_exitcode(status)})


def listen(
    path: Path,
    workflow: psutil.Process,
    accept: Callable[[socket.socket], Work | None],
) -> None:
    """Fork a process for each request until the workflow has ended.

    `accept` reads a request, answers whether it is accepted, and returns what the fork does.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(POLL_SECONDS)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
        while not has_ended(workflow):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(None)
                work = accept(connection)
                if work is None:
                    continue
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    try:
                        _keep(connection, work)
                    finally:
                        os._exit(0)
                work.close()


def serve(serving: Callable[[Path, psutil.Process], None]) -> None:
    """Serve the Snakemake call that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--workflow", type=json.loads, required=True, help="process id and birth")
    arguments = parser.parse_args()
    pid, born = arguments.workflow
    try:
        workflow = psutil.Process(pid)
        if workflow.create_time() == born:
            serving(arguments.socket, workflow)
    finally:
        shutil.rmtree(arguments.socket.parent, ignore_errors=True)
