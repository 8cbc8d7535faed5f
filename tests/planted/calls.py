"""Another call at work in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashlab.sources import PACKAGE

CLAIM = """
import sys; from pathlib import Path; from flashlab.calls.exclusive import FolderClaim
claim = FolderClaim(Path(sys.argv[1])); claim.take()
print(claim.held, flush=True); sys.stdin.read()
"""


@contextmanager
def another_call(snakemake: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A living process that holds the claim on a folder, by its `.snakemake`, as long as this."""
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(snakemake)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    ) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"True\n"
        yield process
        process.stdin.close()
