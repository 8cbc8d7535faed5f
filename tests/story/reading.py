"""Planted tables as a story reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment
from flashlab.analysis.run_estimates import RunEstimates, estimate_rows
from flashlab.story.observation import Observation
from flashlab.story.tables import Section, Speed, Tables
from flashlab.story.telling import tell

LANGUAGES = ("zh_TW", "en")


def tables_of(*experiments: Experiment, ceilings: Ceilings | None = None) -> Tables:
    """The tables of planted experiments."""
    estimates, benchmark = Estimates(experiments), experiments[0].benchmark
    rows = list(estimate_rows(experiments, estimates, {}))
    every = comparisons(experiments, estimates)
    return Tables(experiments, every, RunEstimates(rows, benchmark), ceilings)


def section_of(experiment: Experiment) -> Section:
    """The only section of planted tables."""
    return tables_of(experiment).sections[0]


def told(observation: Observation | None, benchmark: str = "attention") -> Mapping[str, str]:
    """The text of an observation, by language."""
    assert observation is not None
    return {language: tell(observation, benchmark, language) for language in LANGUAGES}


def speed(x: float, width: float = 0.01, verdict: str | None = None) -> Speed:
    """A speed-up with an interval of a relative half-width, and the verdict that it gives."""
    low, high = x / (1 + width), x * (1 + width)
    if verdict is None:
        inside = low > 1 / 1.05 and high < 1.05
        verdict = "faster" if low > 1.05 else "slower" if high < 1 / 1.05 else "undecided"
        verdict = "equal" if inside else verdict
    return Speed(x, low, high, verdict, {})


def speeds(found: Iterable[float], width: float = 0.01) -> dict[int, Any]:
    """Speed-ups along a sweep that doubles from 128 on."""
    return {128 * 2**i: speed(x, width) for i, x in enumerate(found)}
