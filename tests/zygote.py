"""Starts Snakemake, and the jobs of its rules, as forks of a process that has imported libraries.

Importing Snakemake, SciPy, Matplotlib and WeasyPrint takes most of the time of the many small calls
that the pipeline tests make. Here it is done once. The package itself is never imported in advance,
so a fork runs the sources of the folder that it is called for, as a new process would. Its files
are only parsed in advance: every call reads their syntax trees for imports and digests, and a fork
parses those again that have changed.

`python zygote.py serve SOCKET` is that process; `python zygote.py SOCKET ARGUMENTS` stands in for
`python ARGUMENTS`, and a fork has its caller's descriptors and leads a session where its caller
does. What needs torch, such as the warm parent of a call's measuring processes or the process that
checks a kernel, is a fork of a process beside it, which imports torch when the first one is wanted;
it listens at the socket with TORCH_SUFFIX.

The workers that run tests side by side are forks, too, where `serve SOCKET TESTS` names tests: of
a process that has collected these, and so imported all that they import (WORKERS_SUFFIX).
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARSED = ("workflow/flashlab", "kernels")
IMPORTED = (
    *("snakemake.cli", "snakemake.workflow", "snakemake.executors.local", "snakemake.storage"),
    *("snakemake.profiles", "snakemake.report.html_reporter", "snakemake.report.rulegraph_spec"),
    *("jsonschema", "psutil", "pynvml", "yaml", "scipy.stats", "seaborn"),
    *("requests", "smart_open", "platformdirs", "argparse_dataclass", "statistics"),
    *("matplotlib.pyplot", "matplotlib.backends.backend_svg", "fontTools.ttLib", "pikepdf"),
    *("jinja2", "weasyprint", "markdown_it", "PIL.Image"),
)
TORCH = ("torch", "torch._dynamo")
TORCH_SUFFIX = ".torch"
WORKERS_SUFFIX = ".workers"
PATIENCE = 300
"""The seconds in which a process must listen."""
MOST_DESCRIPTORS = 100
STAGES = (
    *("import", "freeze", "grade", "verify"),
    *("comparison", "comparison-figures", "comparison-pdf", "check", "bench"),
)
"""Commands of the package that run in a fork, beside those of `flashlab.stage`."""
WITH_TORCH = (
    *("flashlab.measuring.warm", "flashlab.children flashlab.measuring"),
    "flashlab.children flashlab.checking",
)
"""The beginnings of the commands that import torch, which run in a fork that has it."""


def _parse_in_advance(files: Iterable[Path]) -> None:
    """Have `ast.parse` return the tree of any source that is, byte for byte, one of these files."""
    parse = ast.parse
    trees = {source: parse(source) for source in {path.read_bytes() for path in files}}

    def parse_unless_known(source: Any, *arguments: Any, **options: Any) -> Any:
        tree = trees.get(source) if isinstance(source, bytes) else None
        return parse(source, *arguments, **options) if tree is None else tree

    ast.parse = parse_unless_known


def _measure_ceilings_on_little() -> None:
    """Otherwise they take both cores for four seconds, more than all runs of a test's report."""
    ceilings = importlib.import_module("flashlab.measuring.ceilings")
    ceilings.PROTOCOL["max_seconds"] = 0.05
    ceilings.MATRIX_SIZE["cpu"], ceilings.COPY_BYTES["cpu"] = 256, 2**22


def _run(request: dict[str, Any]) -> int:
    """Run what `python -m` or `python -c` would, in this process; its exit status."""
    if request["leads"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ.pop("FLASHLAB_STAGES", None)  # it is a fork already
    given = request["arguments"]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if given[:2] == ["-u", "-c"]:  # a worker, as execnet starts it
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(given[2], vars(sys.modules["__main__"]))
        return 0
    sys.path[:0] = [request["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    sys.executable = request["python"]
    _, module, *arguments = given[given.index("-m") :]
    sys.argv = [module, *arguments]
    for folder in sys.path:
        if Path(folder, "sitecustomize.py").is_file():
            sys.modules.pop("sitecustomize", None)
            importlib.import_module("sitecustomize")
            break
    if "flashlab.measuring." in " ".join([module, *arguments[:1]]):
        _measure_ceilings_on_little()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _keep(connection: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    """Fork the process that runs a request, and report its status; kill it if the caller ends."""
    ended, alive = os.pipe()
    pid = os.fork()
    if pid == 0:
        connection.close()
        os.close(ended)
        targets = request["descriptors"]
        above = max(targets) + 1  # where no target overwrites what is still to be moved
        moved = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, above) for stream in streams]
        for target, stream in zip(targets, moved, strict=True):
            os.dup2(stream, target)
        status = _run(request)
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(status)
    os.close(alive)
    for stream in streams:
        os.close(stream)
    connection.sendall(f"{pid}\n".encode())
    if connection.fileno() in select.select([connection.fileno(), ended], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _collect(tests: Sequence[str]) -> None:
    """Import tests as pytest does. What cannot be imported, a worker tells."""
    pytest = importlib.import_module("pytest")
    options = ("--collect-only", "-qq", "-n", "0", "-p", "no:cacheprovider")
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main([*options, *tests])


def serve(path: str, tests: Sequence[str]) -> None:
    """Serve until standard input, which the tests keep open, is closed."""
    for name in IMPORTED:
        importlib.import_module(name)
    if tests and os.fork() == 0:
        _collect(tests)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _listen(path + WORKERS_SUFFIX, ())
        return
    _parse_in_advance(path for folder in PARSED for path in (ROOT / folder).rglob("*.py"))
    os.fsync = lambda descriptor: None  # the files need not survive a power cut
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
    if os.fork() == 0:
        _listen(path + TORCH_SUFFIX, TORCH)
    else:
        _listen(path, ())


def _listen(path: str, wanted: Sequence[str]) -> None:
    """Run each request in a fork, with these modules imported once the first one comes."""
    gc.freeze()  # a fork's collections need not go through the libraries
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            connection, _ = listener.accept()
            if not sys.modules.keys() >= set(wanted):
                for name in wanted:
                    importlib.import_module(name)
                gc.freeze()
            message, streams, _, _ = socket.recv_fds(connection, 2**20, MOST_DESCRIPTORS)
            while not message.endswith(b"\n"):
                message += connection.recv(2**20)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                try:
                    _keep(connection, json.loads(message), streams)
                finally:
                    os._exit(0)
            connection.close()
            for stream in streams:
                os.close(stream)


def _is_passed(fd: int) -> bool:
    """True if a descriptor is inherited by a process that this one becomes or starts."""
    try:
        return os.get_inheritable(fd)
    except OSError:  # there is no such descriptor
        return False


def _connect(connection: socket.socket, path: str) -> None:
    """Connect to a process that may still be importing."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def call(path: str, python: str, arguments: list[str]) -> int:
    """Have a fork run these arguments, and wait for its status."""
    passed = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and _is_passed(fd)]
    request = {
        "arguments": arguments,
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "python": python,
        "descriptors": [0, 1, 2, *passed],
        "leads": os.getsid(0) == os.getpid(),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        _connect(connection, path)
        text = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [text], request["descriptors"])
        connection.sendall(text[sent:])
        for fd in passed:  # as long as one is open here, its other end would not see it closed
            os.close(fd)
        with connection.makefile() as answers:
            pid = int(answers.readline())
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda received, _: os.kill(pid, received))
            status = int(answers.readline() or 1)
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL is as it is
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(call(sys.argv[1], sys.argv[2], sys.argv[3:]))
