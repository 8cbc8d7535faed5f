"""Check 2, arithmetic: rates and times that follow from one another, and samples that make them."""

from __future__ import annotations

import math
import statistics

from flashlab.costs import BACKWARD_FLOPS_RATIO
from flashlab.grading.model import Line, Result

TOLERANCE = 1e-9
"""Relative; the script writes all digits of a double, so what is off by more was altered."""

FLOPS_RATIOS = {
    "forward": 1.0,
    "backward": BACKWARD_FLOPS_RATIO,
    "forward_backward": 1.0 + BACKWARD_FLOPS_RATIO,
}


def check_arithmetic(submission: str, result: Result) -> Line:
    """Whether rate × time is F, 2.5 F and 3.5 F, the times add up, and are their samples' medians.

    A line for the first that does not hold.
    """
    seconds, rates = result.numbers.seconds, result.numbers.rates

    def failed(code: str, expected: float, found: float, name: str) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line(*(submission, result.name, "arithmetic", "fail", code), {"pass": name}, *texts)

    forward = rates["forward"] * seconds["forward"]
    for name, ratio in FLOPS_RATIOS.items():
        found = rates[name] * seconds[name]
        if not math.isclose(found, ratio * forward, rel_tol=TOLERANCE):
            return failed("arithmetic.flops", ratio, found / forward, name)
    total = seconds["forward"] + seconds["backward"]
    if not math.isclose(seconds["forward_backward"], total, rel_tol=TOLERANCE):
        return failed("arithmetic.sum", total, seconds["forward_backward"], "forward_backward")
    for name, samples in result.samples.items():
        if samples:
            median = statistics.median(samples)
            if not math.isclose(seconds[name], median, rel_tol=TOLERANCE):
                return failed("arithmetic.samples", median, seconds[name], name)
    return Line(submission, result.name, "arithmetic", "pass", "arithmetic.pass")
