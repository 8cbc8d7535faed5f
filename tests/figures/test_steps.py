"""The figures of a ladder: the counters of its steps along a sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from figures.drawn import BOTH
from planted import ladder

from flashlab.analysis.experiment import ladder_of
from flashlab.figures.steps import draw_profile
from flashlab.report.data import ReportData


def test_the_bytes_of_a_step_are_drawn_per_second_of_its_time_in_kernels(tmp_path: Path) -> None:
    report = ladder.ON_GPU
    steps = ladder_of(ReportData(report.config, report.write(tmp_path, drawn=[]), None).experiments)
    figure = draw_profile(steps, BOTH) if steps else None
    assert figure is not None
    (loads,) = [axes for axes in figure.axes if "Global-memory loads" in axes.get_title()]
    drawn = [float(np.asarray(line.get_ydata())[-1]) for line in loads.lines]
    assert drawn == pytest.approx([8e3 / 0.2749, 1e3 / 0.1374], rel=1e-3)  # 8 TB in 275 ms
