"""Every sentence of planted reports is true (the large study: perf/right.py); judges can tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analysis.study.sentences import judge, study
from analysis.study.world import plant

from flashlab.story.attention.sentences import observations

pytestmark = pytest.mark.scheduled


def test_no_sentence_of_planted_reports_is_false(tmp_path: Path) -> None:
    false = [
        (report, o.macro, o.facts) for o, is_true, report in study(8, 5, tmp_path) if not is_true
    ]
    assert not false


def test_sentences_with_exchanged_names_are_judged_false(tmp_path: Path) -> None:
    """Of what says that one is faster, slower or ahead at least four in five."""
    data, truth = plant(np.random.default_rng([5, 1]), tmp_path)
    kinds = ("time_growth_lead", "leaders_lead", "take_choose", "take_stay", "answer_choose")
    told = [o for o in observations(data) if o.macro in kinds]
    turned = replace(truth, times={k: (1 / t[0], 1 / t[1]) for k, t in truth.times.items()})
    assert told and all(judge(o, truth, data) for o in told)
    assert sum(not judge(o, turned, data) for o in told) >= 0.8 * len(told)
