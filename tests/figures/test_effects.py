"""A variant's effect on each time: speeds with it over those without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from figures.drawn import BOTH, clipped, overlapping, texts_of
from matplotlib.figure import Figure
from planted.experiments import Planter

from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment
from flashlab.figures.effects import draw_effects

WITHOUT = (30, 60, 120, 240)


def drawn(experiment: Experiment) -> dict[str, Figure]:
    table = comparisons([experiment], Estimates([experiment]))
    return dict(draw_effects([experiment], table, BOTH))


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    return Planter(tmp_path)


def test_each_pass_has_its_speed_with_the_mask_over_that_without_it(planter: Planter) -> None:
    masked = ((30 / 2, 60), (60 / 2, 120), (120 / 1.5, 240), (240 / 1.5, 480))
    runs = {("Pytorch", False): WITHOUT, ("Pytorch", True): masked}
    figure = drawn(planter.experiment(runs, spread=0.001))["effects-seq_len"]
    forward, backward = figure.axes
    assert (forward.get_title(), backward.get_title()) == ("前向 Forward", "反向 Backward")
    assert [text.get_text() for text in forward.texts] == ["1.50", "2.00"]
    assert [text.get_text() for text in backward.texts] == ["0.500", "0.500"]
    assert {"N = 128", "N = 1024", "1×", "2×"} <= set(texts_of(figure))
    assert overlapping(figure) == clipped(figure) == []


def test_a_dashed_line_is_what_the_operations_allow(planter: Planter) -> None:
    runs = {("Pytorch", mask): WITHOUT for mask in (False, True)}
    (figure,) = drawn(planter.experiment(runs)).values()
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert [list(line.get_xdata()) for line in dashed] == [[2.0, 2.0]]


def test_an_experiment_without_variants_has_no_such_figure(planter: Planter) -> None:
    assert drawn(planter.experiment({"Pytorch": WITHOUT, "Flash2": WITHOUT})) == {}
