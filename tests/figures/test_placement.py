"""Texts kept apart and within the figure, whatever was measured."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib.pyplot as plt
from figures.drawn import BOTH, clipped, drawn, experiment_of, overlapping
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures.many import draw_longest
from flashlab.figures.placement import sparse, spread
from flashlab.figures.strips import draw_strips

NAMES = ("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4", "Own")
STATUSES = ("oom", "unsupported", "incorrect", "error")
wildly = settings(max_examples=8, deadline=None, derandomize=True)


@st.composite
def wild_experiments(draw: Any, most: int = len(NAMES)) -> Experiment:
    """Sweeps with times of any magnitude, equal ones, and failures of any kind."""
    count = draw(st.integers(2, most))
    sizes = draw(st.lists(st.integers(1, 2**20), min_size=1, max_size=8, unique=True).map(sorted))
    times = st.one_of(
        st.floats(1e-6, 1e6), st.sampled_from((0.1, 0.1001, 5.0)), st.sampled_from(STATUSES)
    )
    results = {
        name: draw(st.lists(times, min_size=len(sizes), max_size=len(sizes)))
        for name in NAMES[:count]
    }
    masks = draw(st.sampled_from(((False,), (False, True))))
    return experiment_of(results, sizes, masks)


def assert_legible(figure: Figure) -> None:
    assert overlapping(figure) == []
    assert clipped(figure) == []
    plt.close(figure)


@given(experiment=wild_experiments(), quantity=st.sampled_from(tuple(ATTENTION.quantities)))
@wildly
def test_no_text_of_a_figure_covers_another_or_leaves_it(
    experiment: Experiment, quantity: str
) -> None:
    assert_legible(drawn(experiment, quantity))


@given(several=wild_experiments())
@wildly
def test_no_text_of_page_ones_figure_covers_another_or_leaves_it(several: Experiment) -> None:
    for page_one in (draw_strips([several], BOTH), draw_longest([several], BOTH)):
        if page_one:
            assert_legible(page_one)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9).map(sorted))
def test_labels_keep_their_order_and_their_distance(wanted: list[float]) -> None:
    places = spread(wanted, 0.1)
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(places))
    assert places[0] >= 0.05 - 1e-9 and places[-1] <= 0.95 + 1e-9


def test_ticks_are_thinned_evenly_and_the_last_stays() -> None:
    centres = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sparse(centres, [0.5] * 5, 0.1) == [0, 1, 2, 3, 4]
    assert sparse(centres, [1.2] * 5, 0.1) == [0, 2, 4]
    assert sparse(centres, [9.0] * 5, 0.1) == [4]
    assert sparse([], [], 0.1) == []
