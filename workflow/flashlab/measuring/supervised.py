"""Timed sections of a measuring process, by the clock of the process that supervises it.

A kernel could mislead its own process about the time, but not the supervisor. So the process
reports to it when a section begins and ends, and the sum of the samples in it. Nothing here imports
torch.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flashlab.files import socket_address

BESIDES_SECONDS = 0.25
"""The tolerance in seconds between a section and the sum of its samples: on a busy machine, the
message that a section has ended arrives late."""

LEAST = 0.25
"""The smallest share of a section that its samples fill where the calls follow one another."""


class Section(NamedTuple):
    """A timed section: its seconds, those of the samples within, and whether those fill it."""

    seconds: float
    samples: float
    is_filled: bool


def together(sections: Sequence[Section]) -> Section:
    """One section with the summed seconds of several."""
    seconds, samples, filled = zip(*sections, strict=True)
    return Section(sum(seconds), sum(samples), filled[0])


def refused(sections: Iterable[Section]) -> dict[str, Any]:
    """Status, message and no metrics, where samples cannot be from their section; else nothing."""
    for section in sections:
        least = LEAST * (section.seconds - BESIDES_SECONDS) if section.is_filled else 0.0
        if not least <= section.samples <= section.seconds + BESIDES_SECONDS:
            message = (
                f"its times add up to {section.samples:.3g} s, but {section.seconds:.3g} s passed "
                "by the supervising process's clock"
            )
            return {"status": "incorrect", "message": message, "metrics": {}}
    return {}


class Sections:
    """Listens to one measuring process until it is closed."""

    def __init__(self, path: Path) -> None:
        self._sections: list[Section] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket_address(path) as address:
            self._socket.bind(address)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        begin = time.monotonic()
        while message := self._socket.recv(1024):
            now = time.monotonic()
            report = json.loads(message)
            if "samples" in report:
                self._sections.append(Section(now - begin, report["samples"], report["is_filled"]))
            begin = now

    def close(self) -> list[Section]:
        """Stop listening; returns the sections that the process reported."""
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._socket.close()
        return self._sections


_supervisor: str | None = None


def connect(path: str) -> None:
    """Tell the `Sections` at a path of the timed sections of this process from now on."""
    global _supervisor
    _supervisor = path


def _tell(**what: Any) -> None:
    if _supervisor is not None:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection,
            socket_address(Path(_supervisor)) as address,
        ):
            connection.sendto(json.dumps(what).encode(), address)


@contextmanager
def timed_section(is_filled: bool) -> Iterator[list[float]]:
    """A timed section, and the list that takes its samples in seconds.

    They fill it where calls are timed by the clock, one after the other.
    """
    samples: list[float] = []
    _tell()
    yield samples
    _tell(samples=sum(samples), is_filled=is_filled)
