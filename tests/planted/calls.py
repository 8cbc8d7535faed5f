"""Other processes at work, such as a command or a call in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

from flashlab.sources import PACKAGE

HOLD = """
import sys; from flashlab.plan.call import hold_folder
hold_folder(); print(True, flush=True); sys.stdin.read()
"""


def python(
    folder: Path, *words: str, stderr: int | None = PIPE, **environment: str
) -> subprocess.Popen[str]:
    """Python with these words, in a folder, with the package; a test may read from it and write."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment},
        **{"stdin": PIPE, "stdout": PIPE, "stderr": stderr, "text": True},
        # A process started in the background would pass on that it ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@contextmanager
def another_process(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One that runs this code, and is killed afterwards."""
    with python(Path(), "-c", code, *arguments, stderr=None) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def another_call() -> Iterator[subprocess.Popen[str]]:
    """A living process that holds the working directory as long as this."""
    with another_process(HOLD) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "True\n"
        yield process
        process.stdin.close()
        process.wait()  # which lets go of it
