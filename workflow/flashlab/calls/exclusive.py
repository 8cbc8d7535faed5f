"""One Snakemake call at a time in a folder; clears what a killed call left behind.

Snakemake's own lock is a file that a killed call leaves behind. Ours is an operating-system lock,
which is released with its process; whoever holds it knows that Snakemake's is stale.

Not every shared filesystem passes such a lock from host to host. So the call that holds it makes a
file beside it, which only one host succeeds in, and counts up there; a call on another host watches
whether that goes on. No clock is asked, and no process of another host is looked for.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

WAIT_SECONDS = 3.0
"""How long to wait for the folder; a call that only reads it (`--lint`) is gone by then."""


BEAT_SECONDS = 3.0
"""How often a call that works in the folder shows that it is alive."""

SILENCE_SECONDS = 15.0
"""How long a call on another host is watched before it counts as dead."""


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
    """This call's claim on the folder, held until it is released or the process ends."""

    def __init__(self, snakemake: Path) -> None:
        snakemake.mkdir(exist_ok=True)
        self._snakemake = snakemake.absolute()  # Snakemake changes the working directory
        self._file = (snakemake / "flashlab.lock").open("a+")
        self._alive = self._snakemake / "flashlab.alive"
        self._host = socket.gethostname()
        self._has_lock = True
        self.held = False

    def _lock(self) -> bool:
        """Take the operating system's lock; where the filesystem has none, the count decides."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            self._has_lock = False
        return True

    def _read_alive(self) -> str | None:
        """The last sign of life: host, process and count; None where there is none.

        The file is opened anew each time: then NFS asks the server whether it has changed.
        """
        try:
            return self._alive.read_text()
        except FileNotFoundError:
            return None

    def _next_sign(self, seen: str) -> str | None:
        """What the call that left this sign of life shows next; None where it shows no more."""
        deadline = time.monotonic() + SILENCE_SECONDS
        while time.monotonic() < deadline:
            now = self._read_alive()
            if now is None:
                return None
            if now not in ("", seen):  # empty while it is written
                return now
            time.sleep(0.1)
        return None

    def _remove_dead(self, seen: str) -> None:
        """Remove a dead call's sign of life, and no other one that is in its place by now."""
        aside = self._alive.with_name(f"{self._alive.name}-{self._host}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            self._alive.rename(aside)  # of several hosts, one succeeds
            if aside.read_text() != seen:
                with contextlib.suppress(OSError):
                    self._alive.hardlink_to(aside)
            aside.unlink()

    def _other_host(self) -> str | None:
        """The host on which another call is alive in this folder; None once this one shows life.

        The first sign of life is a file made exclusively, which one host alone succeeds in.
        """
        while True:
            try:
                with self._alive.open("x") as file:
                    file.write(f"{self._host} {os.getpid()} 0\n")
                return None
            except FileExistsError:
                seen = self._read_alive()
            if seen is None:  # removed since then, or made since this host's cache was filled
                time.sleep(0.1)
                continue
            # On this host the lock has decided, where the filesystem has one.
            is_decided = self._has_lock and seen.startswith(f"{self._host} ")
            if not is_decided and (sign := self._next_sign(seen)):
                return sign.partition(" ")[0]
            self._remove_dead(seen)

    def _show_life(self) -> None:
        for count in itertools.count(1):
            if self._ended.wait(BEAT_SECONDS):
                self._alive.unlink(missing_ok=True)
                return
            with contextlib.suppress(OSError):  # a server that is away for a moment
                self._alive.write_text(f"{self._host} {os.getpid()} {count}\n")

    def _hold(self) -> None:
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} {self._host}\n")
        self._file.flush()
        self.held = True
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._show_life, daemon=True)
        self._beating.start()
        atexit.register(self.release)

    def release(self) -> None:
        """Leave the folder to other calls; nothing if it is not held."""
        if self.held:
            self.held = False
            self._ended.set()
            self._beating.join()
            self._file.close()
            atexit.unregister(self.release)

    def take(self) -> None:
        """Claim the folder if it is free, and clear what a killed call left.

        If another call holds it, Snakemake's lock is not touched, and decides.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._lock():
            if time.monotonic() > deadline:
                self._file.seek(0)
                process, _, on = self._file.read().strip().partition(" ")
                elsewhere = f" on the host {on}" if on != self._host else ""
                self._refuse(f"process {process}{elsewhere}")
                return
            time.sleep(0.1)
        if host := self._other_host():
            if self._has_lock:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._refuse(f"on the host {host}")
            return
        self._hold()
        _clear_killed_call(self._snakemake)

    def _refuse(self, which: str) -> None:
        print(
            f"Another snakemake call ({which}) is working in this folder; if this one is refused, "
            "wait for that one to end.",
            file=sys.stderr,
        )
