"""One Snakemake call at a time in a folder; clears the locks of a killed call.

Snakemake's own lock is a file that a killed call leaves behind. Ours is an operating-system lock,
which is released with its process; whoever holds it knows that Snakemake's is stale.

Not every shared filesystem passes such a lock from host to host. So the call that holds it makes a
file beside it that names its host, by a hard link, which one host alone succeeds in. A call on
another host is refused until that file is gone.
"""

from __future__ import annotations

import atexit
import base64
import fcntl
import os
import shutil
import socket
import time
from pathlib import Path

WAIT_SECONDS = 3.0
"""The longest wait for the folder; a call that only reads it (`--lint`) is gone by then."""


def _clear_killed_call(snakemake: Path) -> None:
    """Remove a killed call's lock, and its marks on records, which are never partial."""
    shutil.rmtree(snakemake / "locks", ignore_errors=True)
    for record in Path("results").glob("*/records/*.json"):
        marker = base64.urlsafe_b64encode(str(record).encode()).decode()
        (snakemake / "incomplete" / marker).unlink(missing_ok=True)


class BusyError(Exception):
    """The folder cannot be worked in: one message with the remedy."""


def _busy(which: str, remedy: str) -> BusyError:
    return BusyError(
        f"Another snakemake call ({which}) is working in this folder, so nothing was changed. "
        f"{remedy}; then call again."
    )


class FolderClaim:
    """This call's claim on the folder, held until it is released or the process ends."""

    def __init__(self, snakemake: Path) -> None:
        snakemake.mkdir(exist_ok=True)
        self._snakemake = snakemake.absolute()  # Snakemake changes the working directory
        self._file = (snakemake / "flashlab.lock").open("a+")
        self._claim = self._snakemake / "flashlab.host"
        self._host = socket.gethostname()
        self._has_lock = True
        self.held = False

    def _lock(self) -> bool:
        """Take the operating system's lock; where the filesystem has none, the claim decides."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            self._has_lock = False
        return True

    def _other_host(self) -> str | None:
        """The host that has claimed the folder; None once this one has.

        A claim of this host is a killed call's where there is a lock, since that is ours.
        """
        mine = self._claim.with_name(f"{self._claim.name}-{self._host}-{os.getpid()}")
        mine.write_text(self._host)
        try:
            self._claim.hardlink_to(mine)
        except FileExistsError:
            # Opened anew: then NFS asks the server what it holds.
            host = self._claim.read_text() if self._claim.exists() else ""
            is_left = self._has_lock and host == self._host
            return None if is_left else host or "of a call that has just ended"
        finally:
            mine.unlink()
        return None

    def release(self) -> None:
        """Leave the folder to other calls; nothing if it is not held."""
        if self.held:
            self.held = False
            self._claim.unlink(missing_ok=True)
            self._file.close()

    def take(self) -> None:
        """Claim the folder, and clear the locks of a killed call.

        Raises:
            BusyError: another call holds the folder.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._lock():
            if time.monotonic() > deadline:
                self._file.seek(0)
                process = self._file.read().removesuffix(f" on the host {self._host}")
                raise _busy(f"process {process}", "Wait for that one to end")
            time.sleep(0.1)
        if host := self._other_host():
            if self._has_lock:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            remedy = f"Wait for that one to end, or if it was killed, remove {self._claim}"
            raise _busy(f"on the host {host}", remedy)
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} on the host {self._host}")
        self._file.flush()
        self.held = True
        atexit.register(self.release)
        _clear_killed_call(self._snakemake)
