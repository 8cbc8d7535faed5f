from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from analysis.deriving import Plant, the_one
from planted.experiments import SIZES

from flashlab.analysis.kinds.scaling import SCALING

STILL = {"spread": 0.002}
SIX = tuple(128 * 2**i for i in range(6))


def growing(time: Callable[[int], float], sizes: tuple[int, ...] = SIZES) -> dict[Any, Any]:
    return {"Flash2": {size: time(size) for size in sizes}}


@pytest.mark.parametrize(
    ("runs", "noise", "verdict", "exponent", "local"),
    [
        (growing(lambda n: n**0.5), {}, "power_law", 0.5, None),
        (growing(lambda n: n), {}, "power_law", 1.0, None),
        (growing(lambda n: n**2 / 1e3), {}, "power_law", 2.0, [2.0] * 3),
        (growing(lambda n: n**3 / 1e6), {}, "power_law", 3.0, None),
        # A launch that is added to a square law; exponents that drift in small steps.
        (growing(lambda n: 10 + 1e-4 * n**2), {}, "curved", None, [0.55, 1.17, 1.64]),
        ({"Flash2": [2**sum((0, 0.3, 0.45, 0.6, 0.75)[: i + 1]) for i in range(5)]},
         {**STILL, "values": SIX}, "curved", None, [0.3, 0.45, 0.6, 0.75]),
        (growing(lambda n: 100), STILL, "flat", 0.0, None),
        # A small exponent over a wide range.
        (growing(lambda n: 100 * n**0.08, SIX), STILL, "power_law", 0.08, None),
        (growing(lambda n: n**2 / 1e3, SIZES[:3]), {}, "too_few_sizes", None, [2.0, 2.0]),
        (growing(lambda n: n**2 / 1e3), {"count": 12, "spread": 0.5}, "imprecise", None, None),
    ],
)  # fmt: skip
def test_one_exponent_is_given_where_it_describes_all_sizes(
    experiment: Plant,
    runs: dict[Any, Any],
    noise: dict[str, Any],
    verdict: str,
    exponent: float | None,
    local: list[float] | None,
) -> None:
    found = the_one(SCALING, experiment(runs, **noise))
    assert (found.verdict, found.reasons) == (verdict, [])
    assert found.facts.get("exponent") == (exponent and pytest.approx(exponent, abs=0.05))
    if exponent is not None and exponent > 0.1:
        *medians, fit = found.estimates
        assert fit["low"] <= exponent <= fit["high"]
        times = medians[-1]["estimate"] / medians[0]["estimate"]
        assert found.facts["times"] == pytest.approx(times, rel=0.005)
    if local:
        assert found.facts["local"] == pytest.approx(local, abs=0.06)


@pytest.mark.parametrize(
    ("peak", "verdict", "exponent"),
    [
        (lambda n: n**2 / 1024, "power_law", 2.0),
        (lambda n: n + n**2 / 256, "curved", None),
        (lambda n: 64.0, "flat", 0.0),
        (lambda n: n**0.04, "power_law", 0.04),  # it changes by more than the margin
    ],
)
def test_memory_is_exact_so_its_growth_needs_no_samples(
    experiment: Plant, peak: Callable[[int], float], verdict: str, exponent: float | None
) -> None:
    runs = {"Flash2": {n: {"peak": peak(n)} for n in (*SIZES, 2048)}}
    found = the_one(SCALING, experiment(runs), metric="peak_memory")
    assert (found.verdict, found.facts.get("exponent")) == (verdict, exponent)
