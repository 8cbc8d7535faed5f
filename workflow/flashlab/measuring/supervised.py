"""Timed sections of a measuring process, by the clock of the process that supervises it.

A kernel could mislead its own process about the time, but not the supervisor. So the process
reports on its channel when a section begins and ends, and the sum of the samples in it. Nothing
here imports torch.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

BESIDES_SECONDS = 0.25
"""The tolerance in seconds between a section and the sum of its samples: on a busy machine, the
message that a section has ended arrives late."""

LEAST = 0.25
"""The smallest share of a section that its samples fill where the calls follow one another."""

supervisor: socket.socket | None = None
"""The channel on which this process tells of its timed sections, once it has one."""


class Section(NamedTuple):
    """A timed section: its seconds, those of the samples within, and whether those fill it."""

    seconds: float
    samples: float
    is_filled: bool


def together(sections: Sequence[Section]) -> Section:
    """One section with the summed seconds of several."""
    seconds, samples, filled = zip(*sections, strict=True)
    return Section(sum(seconds), sum(samples), filled[0])


def refused(sections: Iterable[Section], left: Sequence[str] = ()) -> dict[str, Any]:
    """Status, message and no metrics, where samples cannot be from their section; else nothing.

    The same where a run has `left` processes of these names running.
    """
    said = f"leaves processes running, which were ended: {', '.join(sorted({*left}))}" * bool(left)
    for section in sections:
        least = LEAST * (section.seconds - BESIDES_SECONDS) if section.is_filled else 0.0
        if not least <= section.samples <= section.seconds + BESIDES_SECONDS:
            said = (
                f"its times add up to {section.samples:.3g} s, but {section.seconds:.3g} s passed "
                "by the supervising process's clock"
            )
    return {"status": "incorrect", "message": said, "metrics": {}} if said else {}


def _tell(**what: Any) -> None:
    if supervisor is not None:
        supervisor.sendall(json.dumps(what).encode() + b"\n")


@contextmanager
def timed_section(is_filled: bool) -> Iterator[tuple[list[float], list[float]]]:
    """A timed section, and the lists that take its samples and what was done besides, in seconds.

    They fill it where calls are timed by the clock, one after the other.
    """
    samples, besides = list[float](), list[float]()
    _tell()
    yield samples, besides
    _tell(samples=sum(samples) + sum(besides), is_filled=is_filled)
