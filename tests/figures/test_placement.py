"""Texts kept apart and within the figure, whatever was measured."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from figures.drawn import clipped, overlapping, sweep_of, text_boxes
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Evidence, Finding
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.figures import rows, summary, sweeps
from flashlab.figures.placement import sparse, spread, text_inches, wrap_texts
from flashlab.figures.style import drawing

NAMES = ("Pytorch", "Flash2", "SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4", "Own")
STATUSES = ("oom", "unsupported", "incorrect", "error")
FIGURE = {"id": "any", "supplement": False}


@st.composite
def wild_sweeps(draw: Any, most: int = len(NAMES)) -> Sweep:
    """Sweeps with times of any magnitude, equal ones, and failures of any kind."""
    count = draw(st.integers(2, most))
    sizes = draw(st.lists(st.integers(1, 2**20), min_size=1, max_size=8, unique=True).map(sorted))
    times = st.one_of(
        st.floats(1e-6, 1e6), st.sampled_from((0.1, 0.1001, 5.0)), st.sampled_from(STATUSES)
    )
    found = {
        name: draw(st.lists(times, min_size=len(sizes), max_size=len(sizes)))
        for name in NAMES[:count]
    }
    masks = draw(st.sampled_from(((False,), (False, True))))
    return sweep_of(found, sizes, masks)


@given(sweep=wild_sweeps(), quantity=st.sampled_from(tuple(ATTENTION.quantities)))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_text_of_a_figure_covers_another_or_leaves_it(sweep: Sweep, quantity: str) -> None:
    names = [entry["name"] for entry in sweep.plan["implementations"]]
    with drawing():
        figure = sweeps.draw(
            sweep, ["zh_TW", "en"], {**FIGURE, "quantity": quantity, "implementations": names}
        )
        boxes = text_boxes(figure)
    assert overlapping(boxes) == []
    assert clipped(figure, boxes) == []


@given(sweep=wild_sweeps(most=2))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_text_of_a_small_figure_covers_another_or_leaves_it(sweep: Sweep) -> None:
    with drawing():
        for _, figure in rows.draw_rows(sweep, ["zh_TW", "en"]):
            boxes = text_boxes(figure)
            assert overlapping(boxes) == []
            assert clipped(figure, boxes) == []


@given(sweep=wild_sweeps())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_text_of_page_ones_figure_covers_another_or_leaves_it(sweep: Sweep) -> None:
    with drawing():
        figure = summary.draw_summary([sweep], [], ["Pytorch", "Flash2"], None, ["zh_TW", "en"])
        if figure is None:
            return
        boxes = text_boxes(figure)
    assert overlapping(boxes) == []
    assert clipped(figure, boxes) == []


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9).map(sorted))
def test_labels_keep_their_order_and_their_distance(wanted: list[float]) -> None:
    places = spread(wanted, [0.1] * len(wanted), 0.0, 1.0)
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(places))
    assert places[0] >= 0.05 - 1e-9 and places[-1] <= 0.95 + 1e-9


def test_labels_that_do_not_collide_stay_where_they_are_wanted() -> None:
    assert spread([0.2, 0.5, 0.9], [0.1] * 3, 0.0, 1.0).tolist() == pytest.approx([0.2, 0.5, 0.9])


def test_ticks_are_thinned_evenly_and_the_last_stays() -> None:
    centres = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sparse(centres, [0.5] * 5, 0.1) == [0, 1, 2, 3, 4]
    assert sparse(centres, [1.2] * 5, 0.1) == [0, 2, 4]
    assert sparse(centres, [9.0] * 5, 0.1) == [4]


def test_texts_are_parted_only_where_they_do_not_fit() -> None:
    with drawing():
        assert wrap_texts(["時間", "Time (ms)"], 7, 3.0) == ["時間 Time (ms)"]
        assert wrap_texts(["時間", "Time (ms)"], 7, 0.5) == ["時間", "Time (ms)"]
        assert 0 < text_inches("1,024", 6.5) < text_inches("1,024", 6.5, bold=True)
        assert text_inches("", 6.5) == 0.0


def finding(kind: str, rank: int | None, facts: dict[str, Any], **subject: Any) -> Finding:
    evidence = Evidence("", {}, "by hand", 12)
    return Finding(kind, None, "Abacus", subject, "x", evidence, facts=facts, rank=rank)


def test_what_page_one_names_is_in_colour() -> None:
    leads = [{"name": "SdpaCudnn", "low": "7.0"}, {"name": "Flash4", "low": "9.0"}]
    found = [
        finding("comparison", 2, {}, implementation="SdpaEfficient", baseline="Pytorch"),
        finding("conclusion", 1, {"row": "seq_len", "name": "FlashLab", "leads": leads}),
        finding("comparison", None, {}, implementation="SdpaMath", baseline="Pytorch"),
    ]
    names = ["Pytorch", "SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flash4", "FlashLab"]
    named = summary.named_on_page_one(found, names)
    assert named == ["FlashLab", "SdpaCudnn", "Flash4", "Pytorch", "SdpaEfficient"]


def test_sweeps_that_go_on_from_one_another_are_one_line() -> None:
    short = sweep_of({"Pytorch": [1, 2], "Flash2": [1, 2]}, [128, 256])
    further = sweep_of({"Pytorch": [2, 3], "Flash2": [2, 3]}, [256, 512], name="long")
    apart = sweep_of({"Pytorch": [2, 3], "Flash2": [2, 3]}, [1024, 2048], name="apart")
    chain = summary.longest(summary.chains([apart, short, further]))
    assert chain.values == [128, 256, 512]
    assert len(chain.joined.runs) == 6
