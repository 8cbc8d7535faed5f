"""Experiments with a planted truth, by way of real records and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from analysis.deriving import Plant
from planted.experiments import Planter


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    """Plants experiments in the test's folder."""
    return Planter(tmp_path)


@pytest.fixture
def write_experiment(planter: Planter) -> Callable[..., Path]:
    """Writes what is planted, and returns the plan's file (`Planter.write_sweep`)."""
    return planter.write_experiment


@pytest.fixture
def experiment(planter: Planter) -> Plant:
    """What is planted, as the observations read it (`Planter.sweep`)."""
    return planter.experiment
