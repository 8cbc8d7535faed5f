"""Comparisons, sentences and statistics are right, on a small scale (the large: perf/right.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analysis.study import rows, sentences
from analysis.study.noise import NOISES, score_noise
from analysis.study.world import plant

from flashlab.story.attention.sentences import observations

STEADY = [name for name in NOISES if not name.startswith("states")]


@pytest.mark.parametrize("noise", STEADY)
def test_runs_as_measured_hold_the_truth_and_tell_what_is_plain(noise: str) -> None:
    """And a few calls make no difference of identical code."""
    score = score_noise(noise, 40, seed=1)
    assert score["held"] >= 0.85 * score["runs"]
    assert score["false"] == score["in_doubt"] == 0
    assert score["missed"] <= 0.1 * score["ratios"]
    for each in (score, *([score_noise(noise, 40, 2, 10)] if noise in STEADY[:6] else [])):
        assert each["false"] == 0 and each["ratios_held"] >= 0.9 * each["ratios"]


def test_states_leave_a_doubt_and_hardly_a_difference() -> None:
    score = score_noise("states of 30 calls", 40, seed=3)
    assert score["in_doubt"] >= 0.95 * score["runs"]
    assert score["false"] <= 0.01 * score["ratios"]
    assert score["ratios_held"] >= 0.85 * score["ratios"]


@pytest.mark.scheduled
def test_rows_are_true_and_intervals_hold_whatever_differs_among_processes(tmp_path: Path) -> None:
    """But of two processes, both of which a load may slow; one such run makes ten false rows."""
    found: dict[str, Counter[str]] = {}
    for name, score in rows.study(6, 1, tmp_path):
        if not name.endswith(", 2 processes"):
            found.setdefault(name.split(",")[0], Counter()).update(score)
    totals = sum(found.values(), Counter[str]())
    assert totals["false"] <= 0.001 * totals["decided"]
    for name, score in found.items():
        score["false"] = 0  # which is judged of all models together
        assert not [*rows.out_of_bounds(score)], name


@pytest.mark.scheduled
def test_no_sentence_of_planted_reports_is_false(tmp_path: Path) -> None:
    told = sentences.study(8, 5, tmp_path)
    assert not [(report, o.macro, o.facts) for o, is_true, report in told if not is_true]


@pytest.mark.scheduled
def test_sentences_with_exchanged_names_are_judged_false(tmp_path: Path) -> None:
    """Of what says that one is faster, slower or ahead at least four in five."""
    data, truth = plant(np.random.default_rng([5, 1]), tmp_path)
    kinds = ("time_growth_lead", "leaders_lead", "take_choose", "take_stay")
    told = [o for o in observations(data) if o.macro in kinds]
    turned = replace(truth, times={k: (1 / t[0], 1 / t[1]) for k, t in truth.times.items()})
    assert told and all(sentences.judge(o, truth, data) for o in told)
    assert sum(not sentences.judge(o, turned, data) for o in told) >= 0.8 * len(told)
