"""Experiments with a planted truth, by way of real records and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from analysis.deriving import Plant
from planted.experiments import Planter


@pytest.fixture
def write_experiment(planter: Planter) -> Callable[..., Path]:
    """`Planter.write_experiment` in the test's folder."""
    return planter.write_experiment


@pytest.fixture
def experiment(planter: Planter) -> Plant:
    """`Planter.experiment` in the test's folder."""
    return planter.experiment
