"""One Snakemake call at a time in a folder; clears what a killed call left behind.

Snakemake's own lock is a file that a killed call leaves behind. Ours is an operating-system lock,
which is released with its process; whoever holds it knows that Snakemake's is stale.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import shutil
import sys
import time
from pathlib import Path

WAIT_SECONDS = 3.0
"""How long to wait for the folder; a call that only reads it (`--lint`) is gone by then."""


def _clear_killed_call(snakemake: Path) -> None:
    """Remove a killed call's lock, and its marks on records, which are never partial."""
    shutil.rmtree(snakemake / "locks", ignore_errors=True)
    for marker in (snakemake / "incomplete").glob("*"):
        try:
            output = Path(base64.urlsafe_b64decode(marker.name).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
        if output.parent.name == "records" and output.is_file():
            marker.unlink(missing_ok=True)


class FolderClaim:
    """This call's claim on the folder, held until the process ends."""

    def __init__(self, snakemake: Path) -> None:
        snakemake.mkdir(exist_ok=True)
        self._snakemake = snakemake
        self._file = (snakemake / "flashlab.lock").open("a+")
        self.held = False

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()
        self.held = True
        return True

    def take(self) -> None:
        """Claim the folder if it is free, and clear what a killed call left.

        If another call holds it, Snakemake's lock is not touched, and decides.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._try():
            if time.monotonic() > deadline:
                self._file.seek(0)
                print(
                    f"Another snakemake call (process {self._file.read().strip()}) is working in "
                    "this folder; if this one is refused, wait for that one to end.",
                    file=sys.stderr,
                )
                return
            time.sleep(0.1)
        _clear_killed_call(self._snakemake)
