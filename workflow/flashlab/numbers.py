"""Numbers as they are printed, alike in every language and place."""

from __future__ import annotations

from decimal import Decimal

MOST_PLACES = 12
"""Decimals of a number that is printed in full, beyond those that it has at least."""


def in_full(value: float, places: int = 0) -> str:
    """A number with all of its digits, and at least so many decimals: ``1,234.5``."""
    exact = round(Decimal(str(value or 0.0)), places + MOST_PLACES).normalize()  # never "-0"
    return f"{exact:,.{max(places, -int(exact.as_tuple().exponent))}f}"
