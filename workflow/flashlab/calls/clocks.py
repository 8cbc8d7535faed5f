"""Modification times in the future: after a clock was set back, or by a file server's other clock.

Modification times decide what reruns. Files from the future would look newer than everything made
after them: a changed configuration or a new record would change no report.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

TOLERANCE_NS = 2 * 10**9
"""How far ahead a time may be: by how much the clocks of hosts that share a folder may differ."""


def filesystem_now(folder: Path) -> int:
    """The modification time, in ns, of a file written in a folder now: its server's, if any."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\0")
        file.flush()
        return os.fstat(file.fileno()).st_mtime_ns


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for root, _, names in os.walk(folder):
            yield Path(root)
            yield from (Path(root, name) for name in names)


def pull_back(folders: Iterable[Path], now: int) -> int:
    """Set files and folders from the future to just before `now` (ns), in the same order.

    Returns how many there were. They stay newer than everything from the past.
    """
    ahead: dict[int, list[Path]] = {}
    for path in _files(folders):
        if not path.is_symlink() and (time := path.stat().st_mtime_ns) > now + TOLERANCE_NS:
            ahead.setdefault(time, []).append(path)
    for place, time in enumerate(sorted(ahead, reverse=True)):
        for path in ahead[time]:
            os.utime(path, ns=(now, now - place))
    return sum(map(len, ahead.values()))
