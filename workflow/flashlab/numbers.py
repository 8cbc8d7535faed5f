"""Numbers as they are printed: alike in sentences, tables, figures, compare and the terminal.

**A quantity is a number, or a triple** of the value with the ends of its 95% interval (None, or
NaN, without one). One that was measured is printed by `measured` (times, rates, memory), a ratio by
`times`, a range of ratios by `range_of`, a ratio and its interval by `with_ends`: with the digits
that the interval supports, two to four, and three without one. So a number that stands in a table
and in a sentence is the same where both are given the same triple: quote ``gain | times`` with
``gain = [x, low, high]``, never a number rounded before.

For what has no interval: `percent`, `size` (MiB), `scaled` (bytes, operations), `rough`, `tick`
(axes and settings). The others belong to sentences as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FEWEST, USUAL, MOST = 2, 3, 4
"""Significant digits of a measured number: the fewest, those without an interval, and the most."""

LARGE, NEAR_ONE = 20, 1.995
"""A ratio from the one on has two digits; below the other two decimals at least, as beside a margin
of 5% they decide."""

Triple = tuple[float, float | None, float | None]
Quantity = float | Sequence[float | None]
"""A number, or a triple: a value, and the ends of its interval."""


def _triple(of: Quantity) -> Triple:
    value, low, high = of if isinstance(of, Sequence) else (of, None, None)
    assert value is not None
    known = low is not None and high is not None and low == low and high == high
    return (value, low, high) if known else (value, None, None)


def _places(of: Triple, most: int) -> int:
    """The decimals of a value that its interval supports: of two to `most` significant digits."""
    value, low, high = of
    if low is None or high is None:
        return _decimals(value, USUAL)
    supported = math.floor(-math.log10((high - low) / 2)) if high > low else most
    return min(max(supported, _decimals(value, FEWEST)), _decimals(value, most))


def _ratio_places(of: Triple) -> int:
    return max(_places(of, USUAL), 2 if of[0] < NEAR_ONE else 0)


def measured(of: Quantity) -> str:
    """A measured value: ``0.460``, ``4,736``; from a hundred on all of its whole digits."""
    return _printed(_triple(of)[0], _places(_triple(of), MOST))


def times(of: Quantity) -> str:
    """A ratio of measured values: ``1.80``, ``4.0``, of three digits at most; from 20 on of two."""
    value, *_ = triple = _triple(of)
    if value >= LARGE:
        return f"{float(f'{value:.{FEWEST}g}'):,.0f}"
    return _printed(value, _ratio_places(triple))


def range_of(ratios: Sequence[Quantity], between: str = "–") -> str:
    """From the least of some ratios to the greatest, each as `times` has it: ``1.80–4.0``.

    One number where both print alike.
    """
    ordered = sorted(ratios, key=lambda each: _triple(each)[0])
    return between.join(dict.fromkeys(map(times, (ordered[0], ordered[-1]))))


def with_ends(of: Quantity) -> tuple[str, ...]:
    """A ratio and the ends of its interval, which have a decimal more; it alone without one."""
    value, *ends = triple = _triple(of)
    places = _ratio_places(triple)
    beyond = max(places, _places(triple, USUAL) + 1)
    return _printed(value, places), *(_printed(end, beyond) for end in ends if end is not None)


def tick(value: float) -> str:
    """A round number of an axis, or a label: ``0.05``, ``2``, ``10,000``."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if 1e-8 < abs(value) < 1e-4 else f"{value:g}"


def _decimals(value: float, digits: int) -> int:
    """The decimals of so many significant digits of a number, once it is rounded to them."""
    rounded = abs(float(f"{value:.{digits}g}"))
    return max(0, digits - 1 - math.floor(math.log10(rounded))) if rounded else 0


def _printed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}"


def two(value: float) -> str:
    """Two significant digits: ``19``, ``3.3``, ``0.27``; whole from 10 on, where zeros count."""
    return _printed(value, _decimals(value, 2))


def three(value: float) -> str:
    """Three significant digits: ``772``, ``22.1``, ``0.0456``."""
    return _printed(value, _decimals(value, 3))


def factor(value: float) -> str:
    """By how much something grows: whole where it is, else two significant digits."""
    return short(value) if near(value, round(value)) and value >= 1.5 else two(value)


def ratio(value: float) -> str:
    """A ratio: two decimals below 2, where they decide, else two significant digits."""
    return _printed(value, 2 if value < NEAR_ONE else _decimals(value, 2))


def _ends(ends: Sequence[float], between: str) -> str:
    told = (_printed(e, 2) if max(ends) < NEAR_ONE else two(e) for e in ends)
    return between.join(dict.fromkeys(told))


def span(ends: Sequence[float]) -> str:
    """A range of ratios: ``2.4–6.3``; one number where both ends print alike."""
    return _ends(ends, "–")


def arrow(ends: Sequence[float]) -> str:
    """A ratio from one end of a sweep to the other: ``2.4 → 6.3``."""
    return _ends(ends, " → ")


def spread(numbers: Sequence[float]) -> list[float]:
    """The least and the greatest of some numbers."""
    return [min(numbers), max(numbers)]


def size(value: float) -> str:
    """A size in MiB: whole from 100 on, else three significant digits."""
    return _printed(value, 0) if value >= 100 else f"{float(f'{value:.3g}'):g}"


def percent(share: float) -> str:
    """A share as a percentage: whole, with a decimal below 2%."""
    return f"{100 * share:.1f}%" if 0 < share < 0.0195 else f"{100 * share:.0f}%"


def shares(ends: Sequence[float]) -> str:
    """A range of shares as percentages: ``9–56%``."""
    low, high = map(percent, ends)
    return low if low == high else f"{low.removesuffix('%')}–{high}"


def leads(ends: Sequence[float]) -> str:
    """By how much one is faster than the next, from ratios of their times: ``7–40%``."""
    return shares([end - 1 for end in ends])


def span_of(numbers: Sequence[float]) -> str:
    """A range of times, rates or bytes, each to three digits; one number where both print alike."""
    return "–".join(dict.fromkeys(map(three, numbers)))


def short(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def rough(value: float) -> str:
    """A number of which two digits count: ``7.8``, ``220``, ``1,900``."""
    return two(float(f"{value:.2g}"))


PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(value: float, unit: str = "") -> str:
    """A large count or number of bytes in two digits: ``4.5 TB``, ``71 G``."""
    divisor, prefix = next((each for each in PREFIXES if value >= each[0]), (1.0, ""))
    return f"{two(value / divisor)} {prefix}{unit}".strip()


def near(value: float, other: float) -> bool:
    """True if two numbers are the same to 1%."""
    return math.isclose(value, other, rel_tol=0.01)


def begin(text: str) -> str:
    """A text that begins a sentence: its first letter is a capital."""
    return text[:1].upper() + text[1:]


FILTERS: Mapping[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(times, range_of, two, three, factor, ratio, span, arrow, spread, size, percent),
        *(shares, rough, short, begin),
    )
}
