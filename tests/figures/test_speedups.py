"""Page one's speed-ups: a row a setting, filled where decided, on an axis that all share."""

from __future__ import annotations

from pathlib import Path

import pytest
from figures.drawn import BOTH, clipped, overlapping, texts_of
from matplotlib.figure import Figure
from planted.experiments import Planter

from flashlab.analysis.comparisons import comparisons
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment
from flashlab.figures.speedups import draw_speedups

NAIVE = (30, 60, 120, 240)


def drawn(*experiments: Experiment) -> dict[str, Figure]:
    table = comparisons(experiments, Estimates(experiments))
    return dict(draw_speedups(experiments, table, BOTH))


def marks(figure: Figure) -> list[tuple[float, bool]]:
    """Each speed-up as it is drawn, and whether its mark is filled."""
    (axes,) = figure.axes
    points = [line for line in axes.lines if line.get_linestyle() == "None"]
    return [
        (float(point.get_xdata()[0]), point.get_markerfacecolor() != "white") for point in points
    ]


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    return Planter(tmp_path)


def test_a_row_has_each_pass_and_the_total_with_their_numbers(planter: Planter) -> None:
    flash = tuple((n / 4, n / 2) for n in NAIVE)
    (figure,) = drawn(
        planter.experiment({"Pytorch": NAIVE, "Flash2": flash}, spread=0.001)
    ).values()
    found = marks(figure)
    assert len(found) == 3 * len(NAIVE)
    assert [x for x, _ in found[:3]] == pytest.approx([4, 2, 8 / 3], rel=0.01)
    said = set(texts_of(figure))
    assert {"N", "128", "1024", "4.00×", "2.00×", "2.67×", "前向\nForward"} <= said
    assert overlapping(figure) == clipped(figure) == []


def test_the_memory_beside_them_is_a_share_of_the_baselines(planter: Planter) -> None:
    naive, flash = ({"forward": n, "peak": peak} for n, peak in ((40, 200.0), (10, 50.0)))
    (figure,) = drawn(planter.experiment({"Pytorch": [naive], "Flash2": [flash]})).values()
    assert "25%" in texts_of(figure)


def test_what_is_not_decided_is_hollow(planter: Planter) -> None:
    close = (28, 57, 115, 230)
    noisy = planter.experiment({"Pytorch": NAIVE, "Flash2": close}, spread=0.3, count=12)
    decided = planter.experiment(
        {"Pytorch": NAIVE, "Flash2": (10, 20, 40, 80)},
        "other",
        sizes=lambda n: {"seq_len": n, "num_heads": 8},
    )
    figures = drawn(noisy, decided)
    assert not any(filled for _, filled in marks(figures["speedups-seq_len"]))
    assert all(filled for _, filled in marks(figures["speedups-other"]))
    limits = {figure.axes[0].get_xlim() for figure in figures.values()}
    assert len(limits) == 1
    assert "1×" in texts_of(figures["speedups-other"])
    assert "1×" not in texts_of(figures["speedups-seq_len"])  # the last one alone has the axis


def test_rows_are_higher_where_there_are_fewer(planter: Planter) -> None:
    runs = {"Pytorch": NAIVE, "Flash2": (10, 20, 40, 80)}
    few = planter.experiment(runs)
    others = [
        planter.experiment(runs, f"other{n}", sizes=lambda v: {"seq_len": v, "num_heads": 8})
        for n in range(4)
    ]
    (alone,), many = drawn(few).values(), drawn(few, *others).values()
    assert alone.get_figheight() > max(figure.get_figheight() for figure in many)


def test_three_implementations_have_no_such_figure(planter: Planter) -> None:
    runs = {"Pytorch": NAIVE, "Flash2": NAIVE, "Flash4": NAIVE}
    assert drawn(planter.experiment(runs)) == {}
