"""Check 2, arithmetic: rates follow from times, times add up, and samples have them as medians."""

from __future__ import annotations

import math
import statistics

from flashlab.course.results import FLOPS_RATIOS, agree
from flashlab_grading.model import Line, Result, Samples

COARSE = 0.02
"""Relative error of the FLOPs above which rounded numbers determine no run."""


def check_arithmetic(result: Result, samples: Samples) -> Line:
    """A line: rate × time is F, 2.5 F and 3.5 F, times add up, and are their samples' medians.

    Numbers that somebody has rounded need to agree only within that rounding. The line is about
    the first of these that does not hold.
    """
    numbers = result.numbers
    seconds, rates = numbers.seconds, numbers.rates

    def failed(code: str, expected: float, found: float, name: str) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line("fail", code, result.name, {"pass": name}, *texts)

    forward = numbers.forward_flops / 1e12
    for name, ratio in FLOPS_RATIOS.items():
        found = rates[name] * seconds[name]
        error = numbers.product_error(name)
        if not numbers.is_exact:
            error = (1 + error) * (1 + numbers.flops_error) - 1
        if not math.isclose(found, ratio * forward, rel_tol=error):
            return failed("arithmetic.flops", ratio, found / forward, name)
    total = seconds["forward"] + seconds["backward"]
    if not math.isclose(seconds["forward_backward"], total, rel_tol=numbers.sum_error):
        return failed("arithmetic.sum", total, seconds["forward_backward"], "forward_backward")
    for name, values in samples.items():
        if values:
            median = statistics.median(values)
            if not agree(seconds[name], median):
                return failed("arithmetic.samples", median, seconds[name], name)
    if numbers.flops_error > COARSE:
        return Line("not_checked", "arithmetic.coarse", result.name)
    code = "arithmetic.pass" if numbers.is_exact else "arithmetic.rounded"
    return Line("pass", code, result.name)
