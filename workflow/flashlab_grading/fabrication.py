"""Check 7, copies, within one submission: times that follow from others of its own times.

A file handed in twice as two runs, files of which one is the other times a constant (a constant
rate, or causal runs made from full ones), and points on the line between their neighbours, straight
or on logarithmic axes: measurements are never any of these to seven digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from flashlab_grading.identity import Point
from flashlab_grading.model import PASSES, Line, Result, Verdict
from flashlab_grading.plausibility import sweeps_of

EXACT = 1e-7
"""Relative difference below which two numbers are taken to be computed from one another.

Two measurements differ by 1e-4 at least, so both passes do by chance once in a million pairs.
"""

PROPORTIONAL = 1e-10
"""The same for the ratio of the two passes alone, of which a submission has 630 pairs."""

FINE = 1e-8
"""Relative rounding above which numbers are too coarse for this."""


def _is_fine(result: Result) -> bool:
    rounding, seconds = result.numbers.time_rounding, result.numbers.seconds
    return all(rounding.relative_error(seconds[name]) <= FINE for name in PASSES)


def _equal(one: float, other: float, error: float = EXACT) -> bool:
    return math.isclose(one, other, rel_tol=error)


def _pass_ratio(result: Result) -> float:
    return result.numbers.seconds["backward"] / result.numbers.seconds["forward"]


def _proportional(results: Sequence[Result]) -> Iterator[Line]:
    """A line for each file of which one of another run is a multiple.

    Both passes were multiplied by one number, so that the ratio between them is the same.
    """
    for one, other in pairwise(sorted(filter(_is_fine, results), key=_pass_ratio)):
        said = one.declaration, other.declaration
        flops = one.numbers.forward_flops, other.numbers.forward_flops
        if not said[0].contradicts(said[1]) and _equal(*flops):
            continue
        times = [result.numbers.seconds["forward"] for result in (one, other)]
        verdict: Verdict = "fail"
        if _equal(*times) and _equal(_pass_ratio(one), _pass_ratio(other)):
            code = "copies.within"
            if not said[0].without(said[0].hinted).contradicts(said[1].without(said[1].hinted)):
                verdict = "warn"  # only their names make them different runs
        elif _equal(_pass_ratio(one), _pass_ratio(other), PROPORTIONAL):
            code = "copies.proportional"
        else:
            continue
        params = {"other": one.name, "ratio": f"{times[1] / times[0]:.6g}"}
        yield Line(verdict, code, other.name, params, *(declared.describe() for declared in said))


def _lies_between(sizes: Sequence[float], a: float, middle: float, b: float) -> bool:
    """True for a value on the line between its neighbours, straight or on logarithmic axes."""
    share = (sizes[1] - sizes[0]) / (sizes[2] - sizes[0])
    portion = math.log(sizes[1] / sizes[0]) / math.log(sizes[2] / sizes[0])
    return _equal(a + share * (b - a), middle) or _equal(a * (b / a) ** portion, middle)


def _interpolated(points: Sequence[Point]) -> Iterator[Line]:
    """A line for each point that lies on a line between two others of a sweep, in both passes."""
    for sweep in sweeps_of(points):
        fine = [(size, points[0].result) for size, points in sweep if _is_fine(points[0].result)]
        for three in zip(fine, fine[1:], fine[2:], strict=False):
            sizes = [size for size, _ in three]
            results = [result for _, result in three]
            times = [[result.numbers.seconds[name] for result in results] for name in PASSES]
            if all(_lies_between(sizes, *values) for values in times):
                low, middle, high = (result.name for result in results)
                yield Line("fail", "copies.interpolated", middle, {"one": low, "other": high})


def check_fabrication(results: Sequence[Result], points: Sequence[Point]) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once."""
    found: dict[str, Line] = {}
    for line in (*_proportional(results), *_interpolated(points)):
        found.setdefault(line.file, line)
    return list(found.values())
