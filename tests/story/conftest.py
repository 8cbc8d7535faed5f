"""Experiments with a planted truth, by way of real records and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted.experiments import Planter


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    """Plants experiments in the test's folder."""
    return Planter(tmp_path)
