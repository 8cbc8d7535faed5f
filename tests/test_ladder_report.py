"""The ladder from planted records to findings and figures: steps, and what moved with them.

What its reports say, their claims too, and what is said of a simulator are golden texts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from planted.ladder import ON_GPU
from planted.results import find


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder. To be read."""
    return ON_GPU.write(tmp_path_factory.mktemp("ladder"))


@pytest.mark.parametrize(
    ("name", "verdict", "ratio", "moved"),
    [
        ("SharedTiles", "helps", 2.0, ("global-memory loads", 8e12, 1e12)),
        ("Padded", "no_difference", 1.01, None),
        ("Coalesced", "hurts", 0.743, None),  # it was not counted
    ],
)
def test_a_step_is_judged_against_the_one_before_with_the_counter_that_moved_most(
    results: Path, name: str, verdict: str, ratio: float, moved: tuple[str, float, float] | None
) -> None:
    found = find(results, "step", "ladder", implementation=name, metric="kernel_time")
    assert (found.verdict, found.facts["low"]) == (verdict, ratio)
    counter = found.facts.get("moved")
    assert moved == (
        counter and (counter["counter"].texts["en"], counter["before"], counter["after"])
    )


def test_the_whole_process_is_judged_from_single_times_in_several_processes(results: Path) -> None:
    """On t28 the kernels take 275, 137, 136 and 183 ms, everything else 1,600."""
    found = find(results, "whole", "ladder", metric="process_time")
    (best,) = found.facts["told"]  # the fastest kernel is its own
    assert (found.verdict, found.facts["at"], best["name"]) == ("level", 28, "Padded")
    assert best["median"] == 1740  # three digits
    assert best["shares"]["process_start"] == pytest.approx(1000 / 1736, rel=1e-3)
    assert found.facts["level"] == ["Padded", "SharedTiles", "Coalesced"]
    assert found.facts["open"] == []


def test_the_parts_of_the_whole_process_are_drawn(results: Path) -> None:
    drawn = (results / "overview" / "split.svg").read_text(encoding="utf-8")
    for expected in ("整個程式的時間", "Reading the file", "implementation:SharedTiles"):
        assert expected in drawn


def test_the_counters_are_drawn_along_a_sweep_of_sizes(results: Path) -> None:
    drawn = (results / "overview" / "profile.svg").read_text(encoding="utf-8")
    for expected in ("實際占用率", "Achieved occupancy", "implementation:SharedTiles"):
        assert expected in drawn
    assert "Bank conflicts" not in drawn  # neither a share nor a throughput
