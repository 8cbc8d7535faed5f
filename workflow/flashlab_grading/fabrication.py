"""Check 7, copies, within one submission: times that follow from others of its own times.

A file handed in twice as two runs, files of which one is the other times a constant (a constant
rate, or causal runs made from full ones), and points on the straight line between their
neighbours: measurements are never any of these to seven digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from flashlab.course.results import FLOPS_RATIOS
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
        ratios = _pass_ratio(one), _pass_ratio(other)
        said = one.declaration, other.declaration
        is_other = said[0].contradicts(said[1]) or not _equal(
            one.numbers.forward_flops, other.numbers.forward_flops
        )
        if not _equal(*ratios) or not is_other:
            continue
        times = [each.numbers.seconds["forward"] for each in (one, other)]
        rates = [each.numbers.rates["forward"] for each in (one, other)]
        verdict: Verdict = "fail"
        if _equal(*times):
            code = "copies.within"
            if not said[0].without(said[0].hinted).contradicts(said[1].without(said[1].hinted)):
                verdict = "warn"  # only their names make them different runs
        elif _equal(*rates):
            code = "copies.constant_rate"
        elif _equal(*ratios, PROPORTIONAL):
            code = "copies.proportional"
        else:
            continue
        params = {"other": one.name, "ratio": f"{times[1] / times[0]:.6g}"}
        yield Line(verdict, code, other.name, params, *(each.describe() for each in said))


def _lies_between(sizes: Sequence[float], values: Sequence[Sequence[float]]) -> bool:
    """Whether the middle one of three is on a line, straight or on logarithmic axes, throughout."""
    share = (sizes[1] - sizes[0]) / (sizes[2] - sizes[0])
    portion = math.log(sizes[1] / sizes[0]) / math.log(sizes[2] / sizes[0])
    straight = all(_equal(a + share * (b - a), middle) for a, middle, b in values)
    return straight or any(
        all(_equal(a * (b / a) ** by, middle) for a, middle, b in values) for by in (portion, share)
    )


def _interpolated(points: Sequence[Point]) -> Iterator[Line]:
    """A line for each point that lies on a line between two others of a sweep, in both passes."""
    for sweep in sweeps_of(points):
        fine = [(size, points[0]) for size, points in sweep if _is_fine(points[0].result)]
        for three in zip(fine, fine[1:], fine[2:], strict=False):
            sizes = [size for size, _ in three]
            numbers = [point.result.numbers for _, point in three]
            times = [[n.seconds[name] for n in numbers] for name in PASSES]
            rates = [[n.rates[name] * FLOPS_RATIOS[name] for n in numbers] for name in PASSES]
            if _lies_between(sizes, times) or _lies_between(sizes, rates):
                low, middle, high = (point.result.name for _, point in three)
                params = {"one": low, "other": high}
                yield Line("fail", "copies.interpolated", middle, params)


def check_fabrication(results: Sequence[Result], points: Sequence[Point]) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once."""
    found: dict[str, Line] = {}
    for line in (*_proportional(results), *_interpolated(points)):
        found.setdefault(line.file, line)
    return list(found.values())
