"""Check 7, copies: times that agree more closely than two measurements can.

Two measurements of one run differ by at least some thousandths, so the logarithms of the ratios
between two submissions' times scatter. Copied times share one ratio: 1, or the constant that they
were scaled by, give or take some jitter. Equal memory proves nothing, because memory is exact.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from scipy.stats import binom

from flashlab.grading.model import Line, Result

PASSES = ("forward", "backward")

RUN_TO_RUN = 0.002
"""The relative scatter assumed between two measurements of one run; a lower bound."""

WINDOWS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4)
"""Relative widths within which ratios count as equal."""

CHANCE = 1e-9
"""The probability, for a pair of submissions, below which agreement is no coincidence."""

DIGITS = 6
"""Fewest significant digits of a time that is compared: a coarse clock gives equal times."""


@dataclass(frozen=True)
class _Agreement:
    """`count` of `total` common times of two submissions have the ratio `ratio`, within `width`."""

    count: int
    total: int
    ratio: float
    width: float


def _has_enough_digits(seconds: float) -> bool:
    return len(repr(seconds).partition("e")[0].replace(".", "").strip("0")) >= DIGITS


@cache
def _needed(total: int) -> tuple[int, ...]:
    """How many of `total` ratios must lie in each window to be no coincidence."""
    counts = np.arange(2, total + 1)
    found = []
    for width in WINDOWS:
        chance = width / (RUN_TO_RUN * math.sqrt(2 * math.pi))
        # Any of the ratios can begin the window; the others must fall into it.
        tails = total * binom.sf(counts - 2, total - 1, chance)
        enough = counts[tails < CHANCE]
        found.append(int(enough[0]) if len(enough) else total + 1)
    return tuple(found)


def _agreement(
    log_ratios: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> _Agreement | None:
    """The narrowest window with more ratios in it than chance can put there."""
    ordered = np.sort(log_ratios)
    for width, least in zip(WINDOWS, _needed(len(ordered)), strict=True):
        ends = np.searchsorted(ordered, ordered + width, side="right")
        counts = ends - np.arange(len(ordered))
        start = int(counts.argmax())
        if counts[start] >= least:
            middle = float(np.median(ordered[start : ends[start]]))
            return _Agreement(int(counts[start]), len(ordered), math.exp(middle), width)
    return None


def _key(result: Result) -> tuple[float, float]:
    """What identifies a run in any submission: its FLOPs and its memory."""
    flops = float(f"{result.numbers.forward_flops:.9g}")
    return flops, result.numbers.peak_mib


def _logs(results: Sequence[Result]) -> dict[tuple[float, float, str], float]:
    logs: dict[tuple[float, float, str], float] = {}
    for result in results:
        for name in PASSES:
            seconds = result.numbers.seconds[name]
            if _has_enough_digits(seconds):
                logs.setdefault((*_key(result), name), math.log(seconds))
    return logs


def _same_files(a: Sequence[Result], b: Sequence[Result]) -> list[tuple[str, str]]:
    """Pairs of files of one run whose two times are equal to the last digit."""

    def times(results: Sequence[Result]) -> dict[tuple[float, ...], str]:
        return {
            (*_key(r), *seconds): r.name
            for r in results
            if all(map(_has_enough_digits, seconds := [r.numbers.seconds[name] for name in PASSES]))
        }

    mine, theirs = times(a), times(b)
    return [(mine[key], theirs[key]) for key in mine if key in theirs]


def copies_between(results: Mapping[str, Sequence[Result]]) -> Iterator[Line]:
    """A line for each submission of every pair whose times agree as only copies do.

    A single identical file is a warning: two measurements with one coarse clock can be equal.
    """
    logs = {submission: _logs(own) for submission, own in results.items()}
    keys = {key: i for i, key in enumerate(sorted({key for own in logs.values() for key in own}))}
    table = np.full((len(logs), len(keys)), np.nan)
    for row, own in enumerate(logs.values()):
        for key, value in own.items():
            table[row, keys[key]] = value
    present = ~np.isnan(table)
    names = list(logs)
    for i, j in combinations(range(len(names)), 2):
        common = present[i] & present[j]
        total = int(common.sum())
        if total < 2:
            continue
        agreement = _agreement((table[j] - table[i])[common])
        if agreement is None:
            for mine, theirs in _same_files(results[names[i]], results[names[j]]):
                for submission, file, other in (
                    (names[i], mine, names[j]),
                    (names[j], theirs, names[i]),
                ):
                    params = {"other": other}
                    yield Line(submission, file, "copies", "warn", "copies.file", params)
            continue
        code = "copies.same" if abs(math.log(agreement.ratio)) < 1e-3 else "copies.scaled"
        for submission, other, ratio in (
            (names[i], names[j], 1 / agreement.ratio),
            (names[j], names[i], agreement.ratio),
        ):
            yield Line(
                *(submission, "", "copies", "fail", code),
                {
                    "other": other,
                    "count": str(agreement.count),
                    "total": str(agreement.total),
                    "ratio": f"{ratio:.6g}",
                    "width": f"{agreement.width:g}",
                },
                f"< {_needed(total)[WINDOWS.index(agreement.width)]}",
                f"{agreement.count} / {agreement.total}",
            )


def copies_within(submission: str, results: Sequence[Result]) -> Iterator[Line]:
    """A line for each file whose times are those of another file, declared as another run."""
    seen: dict[tuple[float, float], list[Result]] = defaultdict(list)
    for result in results:
        seconds = (result.numbers.seconds["forward"], result.numbers.seconds["backward"])
        if not all(map(_has_enough_digits, seconds)):
            continue
        for other in seen[seconds]:
            declared, before = result.declaration, other.declaration
            if None not in (declared.shape, before.shape) and declared.said() != before.said():
                yield Line(
                    *(submission, result.name, "copies", "fail", "copies.within"),
                    {"other": other.name},
                    before.said(),
                    declared.said(),
                )
                break
        seen[seconds].append(result)
