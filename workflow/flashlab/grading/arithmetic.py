"""Check 2, arithmetic: rates follow from times, times add up, and samples have them as medians."""

from __future__ import annotations

import statistics

from flashlab.benchmarks.attention.costs import BACKWARD_FLOPS_RATIO
from flashlab.course import agree
from flashlab.grading.model import Line, Result

FLOPS_RATIOS = {
    "forward": 1.0,
    "backward": BACKWARD_FLOPS_RATIO,
    "forward_backward": 1.0 + BACKWARD_FLOPS_RATIO,
}


def check_arithmetic(submission: str, result: Result) -> Line:
    """Whether rate × time is F, 2.5 F and 3.5 F, the times add up, and are their samples' medians.

    The line is about the first of these that does not hold.
    """
    seconds, rates = result.numbers.seconds, result.numbers.rates

    def failed(code: str, expected: float, found: float, name: str) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line(*(submission, result.name, "arithmetic", "fail", code), {"pass": name}, *texts)

    forward = rates["forward"] * seconds["forward"]
    for name, ratio in FLOPS_RATIOS.items():
        found = rates[name] * seconds[name]
        if not agree(found, ratio * forward):
            return failed("arithmetic.flops", ratio, found / forward, name)
    total = seconds["forward"] + seconds["backward"]
    if not agree(seconds["forward_backward"], total):
        return failed("arithmetic.sum", total, seconds["forward_backward"], "forward_backward")
    for name, samples in result.samples.items():
        if samples:
            median = statistics.median(samples)
            if not agree(seconds[name], median):
                return failed("arithmetic.samples", median, seconds[name], name)
    return Line(submission, result.name, "arithmetic", "pass", "arithmetic.pass")
