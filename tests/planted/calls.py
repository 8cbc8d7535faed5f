"""Other processes at work, such as a call in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from flashlab.sources import PACKAGE

HOLD = """
import sys; from flashlab.plan.call import hold_folder
hold_folder(); print(True, flush=True); sys.stdin.read()
"""


@contextmanager
def another_process(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs this code with the package, which a test may read from and write to."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def another_call() -> Iterator[subprocess.Popen[bytes]]:
    """A living process that holds the working directory as long as this."""
    with another_process(HOLD) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"True\n"
        yield process
        process.stdin.close()
        process.wait()  # which lets go of it
