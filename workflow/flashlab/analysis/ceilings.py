"""A device's measured ceilings: the fastest calls in a row, and sustained where the rate fell.

A GPU at its power limit slows down some calls after the load begins, often in several steps.
Such a ceiling is no one number; a run may have been measured in either state or in between.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flashlab.analysis.ratios import ratio
from flashlab.statistics import MIN_SAMPLES, Estimate, estimate_median

COPY = "copy"

BEYOND = {"cuda": 1.15, "cpu": 1.5}
"""Above which share of the measured matrix-product rate a rate is implausible, by kind of device.

A ceiling is a measurement too: beside other load it comes out low. On a machine shared with others
FlashAttention, honestly timed, reached 1.14 of it; a CPU is shared more often than a GPU."""


def is_implausible(share: float, device: str) -> bool:
    """True if a rate, as a share of the measured ceiling, is more than the device can do."""
    return share > BEYOND[device]


@dataclass(frozen=True)
class Ceiling:
    """The best that a device was measured to do: the work of a call, and its time in ms.

    Attributes:
        work: operations of a matrix product, or bytes of a copy.
        time: of a call, the fastest `MIN_SAMPLES` in a row.
        sustained: of a call in the second half; None where the rate did not fall.
    """

    work: float
    time: Estimate
    sustained: Estimate | None = None

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.time.median * 1e3

    @property
    def sustained_rate(self) -> float | None:
        """Work a second after the rate fell."""
        return self.work / self.sustained.median * 1e3 if self.sustained else None


@dataclass(frozen=True)
class Ceilings:
    """A device's ceilings: the matrix product of each dtype, and a large copy."""

    device_name: str | None
    matrix: Mapping[str, Ceiling]
    copy: Ceiling


def _ceiling(found: Mapping[str, Any], work: float, on_gpu: bool) -> Ceiling:
    seconds = found["samples"] or [found["time(s)"]]
    return _ceiling_of(tuple([each * 1e3 for each in seconds]), work, on_gpu)


@lru_cache  # each experiment's figures ask for all of them
def _ceiling_of(samples: tuple[float, ...], work: float, on_gpu: bool) -> Ceiling:
    """Of the fastest calls in a row; on a GPU, whose clocks fall, also of the second half."""
    runs = (samples[i : i + MIN_SAMPLES] for i in range(max(1, len(samples) - MIN_SAMPLES + 1)))
    fastest = estimate_median(min(runs, key=statistics.median))
    later = estimate_median(samples[len(samples) // 2 :])
    has_fallen = on_gpu and ratio(0, later, fastest).verdict == "above"
    return Ceiling(work, fastest, later if has_fallen else None)


def read_ceilings(document: Mapping[str, Any]) -> Ceilings:
    """The ceilings of a record by ``flashlab.measuring.ceilings``."""
    on_gpu = document["device"] == "cuda"
    products = {
        dtype: _ceiling(found, 2.0 * found["size"] ** 3, on_gpu)
        for dtype, found in document["matrix_product"].items()
    }
    copied = _ceiling(document[COPY], 2.0 * document[COPY]["bytes"], on_gpu)
    return Ceilings(document["environment"].get("device_name"), products, copied)
