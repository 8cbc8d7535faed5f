"""Check 7, copies, within one submission: times that follow from others of its own times.

A file handed in twice as two runs, times that were computed from a constant rate, and points on
the straight line between their neighbours: measurements are never any of these to seven digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from flashlab.course import FLOPS_RATIOS
from flashlab_grading.model import Line, Result, Verdict
from flashlab_grading.plausibility import sweeps_of
from flashlab_grading.points import Point

PASSES = ("forward", "backward")

EXACT = 1e-7
"""Relative difference below which two numbers are taken to be computed from one another.

Two measurements differ by 1e-4 at least, so both passes do by chance once in a million pairs.
"""

FINE = 1e-8
"""Relative rounding above which numbers are too coarse for this."""


def _is_fine(result: Result) -> bool:
    rounding, seconds = result.numbers.rounding, result.numbers.seconds
    return all(rounding.relative_error(seconds[name]) <= FINE for name in PASSES)


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EXACT)


def _duplicates(submission: str, results: Sequence[Result]) -> Iterator[Line]:
    """A line for each file whose times are those of another file, declared as another run."""
    ordered = sorted(filter(_is_fine, results), key=lambda r: r.numbers.seconds["forward"])
    for i, result in enumerate(ordered):
        seconds = result.numbers.seconds
        for other in ordered[i + 1 :]:
            theirs = other.numbers.seconds
            if not _equal(seconds["forward"], theirs["forward"]):
                break
            one, two = result.declaration, other.declaration
            if not _equal(seconds["backward"], theirs["backward"]) or not one.contradicts(two):
                continue
            if one.without(one.hinted).contradicts(two.without(two.hinted)):
                verdict: Verdict = "fail"
            else:
                verdict = "warn"  # only their names make them different runs
            yield Line(
                *(submission, other.name, "copies", verdict, "copies.within"),
                {"other": result.name},
                one.describe(),
                two.describe(),
            )
            break


def _constant_rates(submission: str, results: Sequence[Result]) -> Iterator[Line]:
    """A line for each file that has the rates of another file of another number of operations."""
    ordered = sorted(filter(_is_fine, results), key=lambda r: r.numbers.rates["forward"])
    for i, result in enumerate(ordered):
        for other in ordered[i + 1 :]:
            if not _equal(result.numbers.rates["forward"], other.numbers.rates["forward"]):
                break
            if _equal(result.numbers.rates["backward"], other.numbers.rates["backward"]) and not (
                _equal(result.numbers.forward_flops, other.numbers.forward_flops)
            ):
                yield Line(
                    *(submission, other.name, "copies", "fail", "copies.constant_rate"),
                    {"other": result.name},
                )
                break


def _between(x0: float, y0: float, x1: float, y1: float, x: float) -> tuple[float, float, float]:
    """What lies on a line at x: linear, of logarithms, and of the rates over the size."""
    share = (x - x0) / (x1 - x0)
    straight = y0 + share * (y1 - y0)
    portion = math.log(x / x0) / math.log(x1 / x0)
    power = math.exp(math.log(y0) + portion * (math.log(y1) - math.log(y0)))
    halved = math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))
    return straight, power, halved


def _interpolated(submission: str, points: Sequence[Point]) -> Iterator[Line]:
    """A line for each point that lies on a line between two others of a sweep, in both passes."""
    for sweep in sweeps_of(points):
        fine = [entry for entry in sweep if _is_fine(entry[1].result)]
        for (x0, low), (x, point), (x1, high) in zip(fine, fine[1:], fine[2:], strict=False):
            times = [
                [p.result.numbers.seconds[name] for p in (low, point, high)] for name in PASSES
            ]
            rates = [
                [p.result.numbers.rates[name] * FLOPS_RATIOS[name] for p in (low, point, high)]
                for name in PASSES
            ]
            for measured in (times, rates):
                lines = [_between(x0, a, x1, b, x) for a, _, b in measured]
                kinds = [
                    [_equal(found, value) for value in values]
                    for (_, found, _), values in zip(measured, lines, strict=True)
                ]
                if any(all(both) for both in zip(*kinds, strict=True)):
                    params = {"one": low.result.name, "other": high.result.name}
                    yield Line(
                        *(submission, point.result.name, "copies", "fail"),
                        "copies.interpolated",
                        params,
                    )
                    break


def check_fabrication(
    submission: str, results: Sequence[Result], points: Sequence[Point]
) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once."""
    found: dict[str, Line] = {}
    for lines in (
        _duplicates(submission, results),
        _constant_rates(submission, results),
        _interpolated(submission, points),
    ):
        for line in lines:
            found.setdefault(line.file, line)
    return list(found.values())
